"""The history of training runs, in a directory or a bucket."""

from __future__ import annotations

import fnmatch
import math
import operator
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self

from . import _lmckpt
from ._async import Saver
from ._buffers import is_torch
from ._lmckpt import Snapshot, printable
from ._merge import MISSING, Merge
from ._open import safe_open
from ._state import STATE_FILE, STATE_LEN_MAX, Flat, flatten, unflatten
from .errors import (
    CorruptError,
    ExistsError,
    InvalidError,
    LimitError,
    NoStoreError,
    NotFoundError,
)
from .files import Level, Path, path_text

if TYPE_CHECKING:
    from ._lmckpt import SaveOptions  # A type that is in the stub alone.

State = Mapping[str, Any]


class Store:
    """A store, which ``open`` and ``init`` give. It may be used from any thread and pickled."""

    def __init__(self, url: Path, *, create: bool = False) -> None:
        """Opens the store at ``url``: a directory, or s3://, gs:// or az://.

        With ``create``, one is made if none is there.
        """
        self._url = path_text(url)
        self._owner = 0
        self._native: _lmckpt.Store | None = None
        self._saver: Saver | None = None
        if create:
            try:
                self._handle()
            except NoStoreError:
                try:
                    _lmckpt.Store.init(self._url)
                except ExistsError:
                    pass  # Another process was faster.
        self._handle()

    @classmethod
    def open(cls, url: Path) -> Store:
        """Opens the store at ``url``."""
        return cls(url)

    @classmethod
    def init(cls, url: Path) -> Store:
        """Makes a store at ``url``, where none may be."""
        _lmckpt.Store.init(path_text(url))
        return cls(url)

    def __getstate__(self) -> dict[str, Any]:
        return {"_url": self._url}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._url = state["_url"]
        self._owner, self._native, self._saver = 0, None, None

    def __repr__(self) -> str:
        return f"Store({self._shown!r})"

    @property
    def url(self) -> str:
        """Where it is, as it was given: a URL with its secrets, if it has some."""
        return self._url

    @property
    def _shown(self) -> str:
        """Where it is, for whoever reads errors and logs: without user, password and query."""
        return _lmckpt.shown(self._url)

    def _handle(self) -> _lmckpt.Store:
        # Threads and connections do not survive a fork.
        if self._native is None or self._owner != os.getpid():
            try:
                self._native = _lmckpt.Store.open(self._url)
            except NoStoreError:
                message = f"no store is at {self._shown}; Store(..., create=True) makes one"
                raise NoStoreError(message) from None
            self._owner = os.getpid()
        return self._native

    def save(
        self,
        state: State | Path,
        *,
        run: str = "main",
        step: int | None = None,
        tags: Sequence[str] = (),
        meta: Mapping[str, Any] | None = None,
        parent: str | Snapshot = "auto",
        level: Level = "default",
        threads: int = 0,
        verify: bool = True,
    ) -> Snapshot:
        """Saves a state or, if it is a path, a file or a directory.

        A state is a dict, nested as you like, of tensors, arrays and plain values. It must not be
        changed while this runs. When it returns, the snapshot survives a power cut.
        """
        options = save_options(run, step, tags, meta, parent, level, threads, verify)
        if isinstance(state, (str, os.PathLike)):
            return self._handle().save_path(path_text(state), options)
        return self._save_flat(flatten(state), options)

    def _save_flat(self, flat: Flat, options: SaveOptions) -> Snapshot:
        files: list[_lmckpt.File] = [(STATE_FILE, flat.json(), [])]
        for path, tensors in flat.files.items():
            files.append((path, serialize_any(tensors), []))
        return self._handle().save_files(files, options)

    def save_async(
        self,
        state: State | Path,
        *,
        run: str = "main",
        step: int | None = None,
        tags: Sequence[str] = (),
        meta: Mapping[str, Any] | None = None,
        parent: str | Snapshot = "auto",
        level: Level = "default",
        threads: int = 0,
        verify: bool = True,
    ) -> Future[Snapshot]:
        """Copies a state and saves the copy in the background.

        It returns as soon as the copy is made; then the state may be changed. There is one copy:
        if the save before has not ended, this waits for it. Memory for the copy is kept for the
        next save; ``close`` gives it back. A file or a directory is not copied: it must stay as it
        is until the future is done.
        """
        options = save_options(run, step, tags, meta, parent, level, threads, verify)
        if self._saver is None or self._saver.owner != os.getpid():
            self._saver = Saver()
        if isinstance(state, (str, os.PathLike)):
            path = path_text(state)
            return self._saver.save_path(lambda: self._handle().save_path(path, options))
        return self._saver.save(flatten(state), lambda flat: self._save_flat(flat, options))

    def wait(self) -> None:
        """Waits for the save in the background, if there is one, and raises its error."""
        if self._saver is not None and self._saver.owner == os.getpid():
            self._saver.wait()

    def close(self) -> None:
        """Waits for the save in the background and gives its memory back."""
        if self._saver is not None and self._saver.owner == os.getpid():
            saver, self._saver = self._saver, None
            saver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(
        self,
        snapshot: str | Snapshot = "latest",
        *,
        into: State | None = None,
        only: str | None = None,
        device: Any = "cpu",
        threads: int = 0,
    ) -> Any:
        """The state of a snapshot.

        With ``into``, a state of the same form, tensors are written into its tensors, in place, and
        other values take the places of its values; nothing is written unless all fits. ``only`` is
        a pattern such as ``model.*`` for the names of tensors, with the name at the top of the
        state in front; all else is left out, and may be missing in ``into``. A snapshot of a
        directory gives the tensors of its safetensors files by file and name. A save of this store
        in the background is waited for.
        """
        if self._saver is not None and self._saver.owner == os.getpid():
            self._saver.settle()
        # One manifest for all of it: another snapshot may become the latest meanwhile.
        contents = self._contents(snapshot)
        paths = [path for path, kind, _, _ in contents.entries() if kind == "file"]
        reader = _Reader(contents, only, device if into is None else "cpu", threads)
        if STATE_FILE in paths:
            text = read_small(contents, STATE_FILE, STATE_LEN_MAX)
            state = unflatten(text, reader.tensor)
            merge = Merge(only)
            state = merge.node(into, state, ())
            merge.write()
            return state
        if into is not None:
            raise InvalidError("into is for snapshots of states; this one is of files")
        paths = [path for path in paths if path.endswith(".safetensors")]
        if not paths:
            raise InvalidError("the snapshot holds no tensors that can be loaded; restore it")
        read: dict[str, dict[str, Any]] = {path: {} for path in paths}
        for path, tensors in read.items():
            for key in reader.keys(path):
                way = path.removesuffix(".safetensors"), key
                tensors[key] = reader.tensor("torch", path, key, way)
        return Merge(only).node(None, read, ())

    def _contents(self, snapshot: str | Snapshot) -> _lmckpt.Contents:
        if not isinstance(snapshot, (str, Snapshot)):
            raise TypeError(f"a snapshot is named by text, not by a {type(snapshot).__name__}")
        return self._handle().contents(snapshot)

    def open_file(
        self, snapshot: str | Snapshot, path: str, framework: str = "pt", device: Any = "cpu"
    ) -> safe_open:
        """A safetensors file of a snapshot, as ``safe_open`` gives it."""
        return safe_open.of(self._contents(snapshot).file(path), framework, device)

    def read_file(self, snapshot: str | Snapshot, path: str) -> bytes:
        """A file of a snapshot."""
        archive = self._contents(snapshot).file(path)
        return archive.read(0, archive.original_len)

    def files(self, snapshot: str | Snapshot = "latest") -> dict[str, int]:
        """The files of a snapshot and their sizes."""
        entries = self._contents(snapshot).entries()
        return {path: size for path, kind, size, _ in entries if kind == "file"}

    def meta(self, snapshot: str | Snapshot = "latest") -> dict[str, str]:
        """What was said of a snapshot when it was saved."""
        return self._contents(snapshot).meta()

    def restore(
        self,
        snapshot: str | Snapshot,
        target: Path,
        *,
        only: Sequence[str] = (),
        weights_only: bool = False,
        overwrite: bool = False,
        threads: int = 0,
        max_size: int | None = None,
    ) -> None:
        """Restores the files of a snapshot to a directory, byte for byte.

        If they have more than ``max_size`` bytes together, nothing is restored.
        """
        self._handle().restore(
            _name(snapshot),
            path_text(target),
            only=[only] if isinstance(only, str) else list(only),
            weights_only=weights_only,
            overwrite=overwrite,
            threads=threads,
            max_size=max_size,
        )

    def snapshots(self, run: str | None = None) -> list[Snapshot]:
        """All snapshots, or those of a run, in the order in which they were saved."""
        return self._handle().snapshots(run)

    def get(self, name: str) -> Snapshot:
        """The snapshot that is meant by the start of its id, latest, RUN@STEP or RUN@latest."""
        return self._handle().get(_name(name))

    def latest(self, run: str | None = None) -> Snapshot | None:
        """The newest snapshot, of all or of a run, if there is one."""
        try:
            return self.get("latest" if run is None else f"{run}@latest")
        except NotFoundError:
            return None

    def tag(self, snapshot: str | Snapshot, tag: str, *, remove: bool = False) -> None:
        """Gives a snapshot a tag, or takes it away."""
        self._handle().set_tag(_name(snapshot), tag, not remove)

    def diff(self, old: str | Snapshot, new: str | Snapshot) -> dict[str, Any]:
        """The files of two snapshots beside each other."""
        same, gone, added, changed = self._handle().diff(_name(old), _name(new), threads=0)
        changes = {path: (before, after) for path, before, after in changed}
        return {"same": same, "removed": gone, "added": added, "changed": changes}

    def check(self, *, read_data: bool = False) -> list[str]:
        """Looks for damage; returns a line for each damaged object and each file that it hurts."""
        percent = 100 if read_data else 0
        objects, files = self._handle().check(read_percent=percent, threads=0)
        lines = [f"{name}: {error}" for name, error in objects]
        lines += [f"snapshot {id[:8]}, {path}: {error}" for id, path, error in files]
        return [printable(line) for line in lines]

    def forget(
        self,
        *,
        run: str | None = None,
        keep_last: int | None = None,
        keep_every: int | None = None,
        keep_tags: Sequence[str] = (),
        keep_within_days: float | None = None,
        dry_run: bool = False,
    ) -> list[Snapshot]:
        """Forgets the snapshots that no rule keeps, never the newest of a run; returns them."""
        within = _milliseconds(keep_within_days, 86_400_000)
        return self._handle().forget(
            run=run,
            keep_last=keep_last,
            keep_every=keep_every,
            keep_tags=[keep_tags] if isinstance(keep_tags, str) else list(keep_tags),
            keep_within_ms=within,
            dry_run=dry_run,
        )[1]

    def prune(
        self, *, grace_hours: float | None = None, dry_run: bool = False, allow_empty: bool = False
    ) -> int:
        """Removes forgotten snapshots and what nobody needs; returns the bytes that are freed.

        Packs beside not a single snapshot are removed only with `allow_empty`."""
        grace = _milliseconds(grace_hours, 3_600_000)
        handle = self._handle()
        return handle.prune(grace_ms=grace, dry_run=dry_run, allow_empty=allow_empty)[2]

    def stats(self) -> dict[str, int]:
        """Numbers of the whole store."""
        return self._handle().stats()


def named_file(contents: _lmckpt.Contents, path: str) -> _lmckpt.Archive:
    """A file of a snapshot that another file of it names."""
    try:
        return contents.file(path)
    except InvalidError as error:
        raise CorruptError(f"a file of the snapshot names one that cannot be: {error}") from None


def read_small(contents: _lmckpt.Contents, path: str, max_size: int) -> bytes:
    """A file of a snapshot that must not be large."""
    archive = named_file(contents, path)
    if archive.original_len > max_size:
        raise LimitError(f"{path} has {archive.original_len} bytes, more than {max_size}")
    return archive.read(0, archive.original_len)


def _name(snapshot: str | Snapshot) -> str:
    if isinstance(snapshot, Snapshot):
        return snapshot.id
    if not isinstance(snapshot, str):
        raise TypeError(f"a snapshot is named by text, not by a {type(snapshot).__name__}")
    return snapshot


def _milliseconds(count: float | None, unit: int) -> int | None:
    if count is None:
        return None
    # Numbers that no float can hold are compared as they are.
    if not isinstance(count, int) and not math.isfinite(count) or count < 0:
        raise InvalidError(f"{count} is not a length of time")
    return min(int(min(count, 2**63) * unit), 2**63)


def save_options(
    run: str,
    step: int | None,
    tags: Sequence[str],
    meta: Mapping[str, Any] | None,
    parent: str | Snapshot,
    level: Level,
    threads: int,
    verify: bool,
) -> SaveOptions:
    """What the native module is told of a save."""
    is_number = hasattr(step, "__index__") and not isinstance(step, bool)
    if step is not None and (not is_number or operator.index(step) < 0):
        raise InvalidError(f"a step is a number from 0 on, not {step!r}")
    if meta is not None and not isinstance(meta, Mapping):
        raise InvalidError(f"meta must be a dict, not a {type(meta).__name__}")
    return {
        "run": run,
        "step": step,
        "tags": [tags] if isinstance(tags, str) else list(tags),
        "meta": {key: str(value) for key, value in (meta or {}).items()},
        "parent": _name(parent),
        "level": level,
        "threads": threads,
        "verify": verify,
    }


def serialize_any(tensors: Mapping[str, Any]) -> list[Any]:
    """A safetensors file of tensors and arrays, as buffers one behind the other."""
    if any(is_torch(tensor) for tensor in tensors.values()):
        from .torch import serialize

        return serialize(tensors, arrays=True)
    from .numpy import serialize as serialize_arrays

    return serialize_arrays(tensors)


class _Reader:
    """The tensors of a snapshot, one by one."""

    def __init__(
        self, contents: _lmckpt.Contents, only: str | None, device: Any, threads: int
    ) -> None:
        self._contents, self._only = contents, only
        self._device, self._threads = device, threads
        self._open: dict[tuple[str, str], safe_open] = {}

    def _file(self, kind: str, path: str) -> safe_open:
        key = (kind, path)
        if key not in self._open:
            framework, device = ("pt", self._device) if kind == "torch" else ("np", "cpu")
            archive = named_file(self._contents, path)
            whole = self._only is None
            self._open[key] = safe_open.of(archive, framework, device, self._threads, whole=whole)
        return self._open[key]

    def keys(self, path: str) -> list[str]:
        return self._file("torch", path).keys()

    def tensor(self, kind: str, path: str, name: str, way: tuple[str, ...]) -> Any:
        if self._only is not None and not fnmatch.fnmatchcase(".".join(way), self._only):
            return MISSING
        return self._file(kind, path).get_tensor(name)
