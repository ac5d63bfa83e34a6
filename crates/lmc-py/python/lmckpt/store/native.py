"""What other parts of lmckpt use of a store beyond its public methods.

``native_of(store)`` gives the ``NativeStore`` behind a ``Store``. It is for integrations and
``lmckpt.dcp``; it is not public, and may change with any version.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import _lmckpt
from .._lmckpt import Snapshot
from ..errors import CorruptError, InvalidError, LimitError, NoStoreError
from .background import BackgroundSaver
from .state import STATE_FILE, FlatState

if TYPE_CHECKING:
    from .._lmckpt import File, NativeSaveOptions  # Types that are in the stub alone.
    from .store import Store


class NativeStore:
    """The store of the native module, opened anew in every process."""

    def __init__(self, url: str) -> None:
        self.url = url
        #: Saves in the background, one at a time for each store.
        self.background = BackgroundSaver()
        self._owner = 0
        self._opened: _lmckpt.Store | None = None

    @property
    def shown(self) -> str:
        """The URL for errors and logs: without user, password and query."""
        return _lmckpt.shown(self.url)

    def handle(self) -> _lmckpt.Store:
        """The store, for calls of the native module."""
        # Threads and connections do not survive a fork.
        if self._opened is None or self._owner != os.getpid():
            try:
                self._opened = _lmckpt.Store.open(self.url)
            except NoStoreError:
                message = f"no store is at {self.shown}; Store(..., create=True) makes one"
                raise NoStoreError(message) from None
            self._owner = os.getpid()
        return self._opened

    def contents(self, snapshot: str | Snapshot) -> _lmckpt.Contents:
        """What a snapshot holds: one manifest, whichever snapshot becomes the latest meanwhile."""
        if not isinstance(snapshot, (str, Snapshot)):
            raise TypeError(f"a snapshot is named by text, not by a {type(snapshot).__name__}")
        return self.handle().contents(snapshot)

    def save_flat(
        self,
        flat: FlatState,
        options: NativeSaveOptions,
        progress: Callable[[int], None] | None = None,
    ) -> Snapshot:
        """Saves a state that ``flatten`` has taken apart."""
        files: list[File] = [(STATE_FILE, flat.json(), [])]
        files += [(path, buffers, []) for path, buffers in flat.tensor_files()]
        return self.handle().save_files(files, options, progress=progress)


def native_of(store: Store) -> NativeStore:
    """The internal side of a store."""
    return store._native


def named_file(contents: _lmckpt.Contents, path: str) -> _lmckpt.Archive:
    """A file of a snapshot that another file of it names."""
    try:
        return contents.file(path)
    except InvalidError as error:
        raise CorruptError(f"a file of the snapshot names an impossible path: {error}") from None


def read_small(contents: _lmckpt.Contents, path: str, max_size: int) -> bytes:
    """A file of a snapshot that must not be large."""
    archive = named_file(contents, path)
    if archive.original_len > max_size:
        raise LimitError(f"{path} has {archive.original_len} bytes, more than {max_size}")
    return archive.read(0, archive.original_len)
