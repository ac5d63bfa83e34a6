"""Buffers and files to .lmc and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, overload

from . import _lmckpt
from ._progress import Progress, reporting
from .errors import InvalidError
from .safetensors.buffers import view

Level = Literal["fast", "default", "max"]
Path = str | os.PathLike[str]


def path_text(path: Path) -> str:
    """A path as text that the system can take."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path is str or os.PathLike, not {type(text).__name__}")
    try:
        is_name = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        # It may be a URL with a password in it.
        raise InvalidError(f"{_lmckpt.shown(text)!r} cannot be the name of a file")
    return text


def checked_bases(bases: Sequence[Any]) -> list[Any]:
    """Paths as text, and all else as buffers."""
    is_path = (str, os.PathLike)
    if not isinstance(bases, (list, tuple)):
        raise TypeError("bases are a list of paths or buffers")
    return [path_text(base) if isinstance(base, is_path) else view(base) for base in bases]


@overload
def compress(
    data: Any,
    *,
    into: None = None,
    level: Level = ...,
    threads: int = ...,
    verify: bool = ...,
    bases: Sequence[Any] = ...,
) -> bytes: ...
@overload
def compress(
    data: Any,
    *,
    into: Any,
    level: Level = ...,
    threads: int = ...,
    verify: bool = ...,
    bases: Sequence[Any] = ...,
) -> memoryview: ...
def compress(
    data: Any,
    *,
    into: Any = None,
    level: Level = "default",
    threads: int = 0,
    verify: bool = True,
    bases: Sequence[Any] = (),
) -> bytes | memoryview:
    """Compresses a buffer, an array or a tensor to the bytes of a .lmc file.

    With ``into``, a buffer that may be kept for many calls, they are written there, and the part
    that was written is returned: reused memory is faster than new memory. A thousandth and 64
    KiB more than the data always suffice.

    The type of the values is guessed from the bytes, unless these are a safetensors file. ``bases``
    are earlier versions, as paths or as buffers, that it is coded against where that is smaller;
    the same are needed to restore it. ``verify`` decodes everything as it is coded and compares;
    without it this is faster. The data must not be changed while this runs.
    """
    known = checked_bases(bases)
    if into is None:
        return _lmckpt.compress(
            view(data), level=level, threads=threads, verify=verify, bases=known
        )
    place = view(into, writable=True)
    written = _lmckpt.compress_into(
        view(data), place, level=level, threads=threads, verify=verify, bases=known
    )
    return place[:written]


@overload
def decompress(
    data: Any,
    *,
    into: None = ...,
    threads: int = ...,
    bases: Sequence[Any] = ...,
    max_size: int | None = ...,
) -> bytes: ...
@overload
def decompress(
    data: Any,
    *,
    into: Any,
    threads: int = ...,
    bases: Sequence[Any] = ...,
    max_size: int | None = ...,
) -> None: ...
def decompress(
    data: Any,
    *,
    into: Any = None,
    threads: int = 0,
    bases: Sequence[Any] = (),
    max_size: int | None = None,
) -> bytes | None:
    """Restores the original of a .lmc file that is in memory.

    With ``into``, a buffer, array or tensor of the right size, it goes there and nothing is
    returned. An original of more than ``max_size`` bytes is refused: a small file may claim any
    size.
    """
    return _lmckpt.decompress(
        view(data),
        into=None if into is None else view(into, writable=True),
        threads=threads,
        bases=checked_bases(bases),
        max_size=max_size,
    )


def compress_file(
    source: Path,
    target: Path | None = None,
    *,
    level: Level = "default",
    threads: int = 0,
    verify: bool = True,
    bases: Sequence[Any] = (),
    overwrite: bool = False,
    progress: Progress = None,
) -> str:
    """Compresses a file, to ``target`` or to its own name with .lmc; returns where it is.

    The target appears whole or not at all. ``progress`` is called with the bytes done so far, or is
    True for a tqdm bar.
    """
    source = path_text(source)
    target = f"{source}.lmc" if target is None else path_text(target)
    known = checked_bases(bases)
    with reporting(progress, total=_size(source), title="compress") as report:
        _lmckpt.compress_file(
            source,
            target,
            level=level,
            threads=threads,
            verify=verify,
            bases=known,
            overwrite=overwrite,
            progress=report,
        )
    return target


def decompress_file(
    source: Path,
    target: Path | None = None,
    *,
    threads: int = 0,
    bases: Sequence[Any] = (),
    overwrite: bool = False,
    max_size: int | None = None,
    progress: Progress = None,
) -> str:
    """Restores a file, to ``target`` or to its name without .lmc; returns where it is.

    An original of more than ``max_size`` bytes is refused. ``progress`` is called with the bytes
    done so far, or is True for a tqdm bar.
    """
    source = path_text(source)
    if target is None:
        target = source.removesuffix(".lmc")
        if target == source:
            raise InvalidError(f"{source} does not end in .lmc; name a target")
    target = path_text(target)
    known = checked_bases(bases)
    with reporting(progress, title="decompress") as report:
        _lmckpt.decompress_file(
            source,
            target,
            threads=threads,
            bases=known,
            overwrite=overwrite,
            max_size=max_size,
            progress=report,
        )
    return target


def _size(path: str) -> int | None:
    """The bytes of a file, if it is there: whoever opens it says that it is not."""
    try:
        return os.stat(path).st_size
    except OSError:
        return None
