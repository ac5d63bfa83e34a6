"""The errors, by what the caller can do about them. All of them can be pickled."""

from __future__ import annotations

from ._lmckpt import printable


class LmcError(Exception):
    """Any error of lmckpt.

    Its text is one line that steers no terminal: names in it may have been chosen by others.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class CorruptError(LmcError):
    """The bytes are not what was written: they are damaged, or not a .lmc file at all."""


class TruncatedError(CorruptError):
    """The bytes end too early."""


class UnsupportedError(LmcError):
    """The bytes need a newer version, or the request a feature that is not built in."""


class LimitError(LmcError):
    """A bound was exceeded."""


class InvalidError(LmcError, ValueError):
    """The call itself is wrong."""


class NotFoundError(LmcError, FileNotFoundError):
    """What was asked for does not exist."""


class ExistsError(LmcError, FileExistsError):
    """What is to be made already exists."""


class ConflictError(LmcError):
    """Another process was faster, or removed what is needed: the same call may work again."""


class NoStoreError(LmcError, FileNotFoundError):
    """There is no store where one was named."""


class StorageError(LmcError, OSError):
    """The operating system or the bucket refused to read or write."""


class StoppedError(LmcError):
    """The work was stopped before it was done, by a signal or by another thread."""


class PartlyWrittenError(LmcError):
    """Weights were being overwritten when something failed: they are partly old and partly new."""
