"""The history of training runs, in a directory or a bucket."""

from __future__ import annotations

import fnmatch
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Self, Unpack

from .. import _lmckpt
from .._documented import documented_as
from .._lmckpt import Snapshot, printable
from .._progress import Progress, reporting
from ..errors import ExistsError, InvalidError, NoStoreError, NotFoundError
from ..files import Path, path_text
from ..safetensors.open import open_tensors, safe_open
from .merge import MISSING, Merge
from .native import NativeStore, named_file, read_small
from .options import SaveOptions, native_options, snapshot_name, takes
from .state import STATE_FILE, STATE_LEN_MAX, flatten, unflatten

State = Mapping[str, Any]


@documented_as("lmckpt.store")
class Store:
    """A store, as ``open`` and ``init`` return it. It may be used from any thread and pickled."""

    def __init__(self, url: Path, *, create: bool = False) -> None:
        """Opens the store at ``url``: a directory, or s3://, gs:// or az://.

        With ``create``, one is made if there is none.
        """
        self._native = NativeStore(path_text(url))
        if create:
            try:
                self._native.handle()
            except NoStoreError:
                try:
                    _lmckpt.Store.init(self.url)
                except ExistsError:
                    pass  # Another process was faster.
        self._native.handle()

    @classmethod
    def open(cls, url: Path) -> Store:
        """Opens the store at ``url``."""
        return cls(url)

    @classmethod
    def init(cls, url: Path) -> Store:
        """Makes a store at ``url``, and fails if one already exists there."""
        _lmckpt.Store.init(path_text(url))
        return cls(url)

    def __getstate__(self) -> dict[str, Any]:
        return {"_url": self.url}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._native = NativeStore(state["_url"])

    def __repr__(self) -> str:
        return f"Store({self._native.shown!r})"

    @property
    def url(self) -> str:
        """Where it is, as it was given: a URL with its secrets, if it has any."""
        return self._native.url

    @takes(SaveOptions)
    def save(
        self, state: State | Path, *, progress: Progress = None, **options: Unpack[SaveOptions]
    ) -> Snapshot:
        """Saves a state or, if it is a path, a file or a directory.

        A state is a dict, nested as you like, of tensors, arrays and plain values. It must not be
        changed while this runs. When it returns, the snapshot survives a power cut. ``progress`` is
        called with the bytes done so far, or is True for a tqdm bar.
        """
        told = native_options(options)
        with reporting(progress, title="save") as report:
            if isinstance(state, (str, os.PathLike)):
                return self._native.handle().save_path(path_text(state), told, progress=report)
            return self._native.save_flat(flatten(state), told, report)

    @takes(SaveOptions)
    def save_async(self, state: State | Path, **options: Unpack[SaveOptions]) -> Future[Snapshot]:
        """Copies a state and saves the copy in the background.

        It returns as soon as the copy is made; then the state may be changed. There is one copy:
        if the previous save has not ended, this waits for it. Memory for the copy is kept for the
        next save; ``close`` gives it back. A file or a directory is not copied: it must stay as it
        is until the future is done.
        """
        native, told = self._native, native_options(options)
        if isinstance(state, (str, os.PathLike)):
            path = path_text(state)
            return native.background.start(lambda: native.handle().save_path(path, told))
        return native.background.save(flatten(state), lambda flat: native.save_flat(flat, told))

    def wait(self) -> None:
        """Waits for the save in the background, if there is one, and raises its error."""
        self._native.background.wait()

    def close(self) -> None:
        """Waits for the save in the background and gives its memory back."""
        self._native.background.close()

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
        progress: Progress = None,
    ) -> Any:
        """The state of a snapshot.

        With ``into``, a state of the same form, tensors are written into its tensors, in place, and
        other values take the places of its values; nothing is written unless all fits. ``only`` is
        a pattern such as ``model.*`` for the names of tensors, with the name at the top of the
        state in front; all else is left out, and may be missing in ``into``. A snapshot of a
        directory gives the tensors of its safetensors files by file and name. It waits for a save
        of this store that runs in the background. ``progress`` is called with the bytes of tensors
        read so far, or is True for a tqdm bar.
        """
        self._native.background.settle()
        # One manifest for all of it: another snapshot may become the latest meanwhile.
        contents = self._native.contents(snapshot)
        sizes = {path: size for path, kind, size, _ in contents.entries() if kind == "file"}
        tensors = sum(size for path, size in sizes.items() if path.endswith(".safetensors"))
        total = tensors if only is None else None
        with reporting(progress, total=total, title="load") as report:
            target = device if into is None else "cpu"
            reader = _SnapshotTensors(contents, only, target, threads, report)
            return _load(contents, list(sizes), reader, into, only)

    def open_file(
        self, snapshot: str | Snapshot, path: str, framework: str = "pt", device: Any = "cpu"
    ) -> safe_open:
        """A safetensors file of a snapshot, as ``safe_open`` gives it."""
        return open_tensors(self._native.contents(snapshot).file(path), framework, device)

    def read_file(self, snapshot: str | Snapshot, path: str) -> bytes:
        """A file of a snapshot."""
        archive = self._native.contents(snapshot).file(path)
        return archive.read(0, archive.original_len)

    def files(self, snapshot: str | Snapshot = "latest") -> dict[str, int]:
        """The files of a snapshot and their sizes."""
        entries = self._native.contents(snapshot).entries()
        return {path: size for path, kind, size, _ in entries if kind == "file"}

    def meta(self, snapshot: str | Snapshot = "latest") -> dict[str, str]:
        """The metadata that a snapshot was saved with."""
        return self._native.contents(snapshot).meta()

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
        progress: Progress = None,
    ) -> None:
        """Restores the files of a snapshot to a directory, byte for byte.

        If they have more than ``max_size`` bytes together, nothing is restored. ``progress`` is
        called with the bytes done so far, or is True for a tqdm bar.
        """
        is_all = not only and not weights_only
        total = snapshot.size if is_all and isinstance(snapshot, Snapshot) else None
        with reporting(progress, total=total, title="restore") as report:
            self._native.handle().restore(
                snapshot_name(snapshot),
                path_text(target),
                only=[only] if isinstance(only, str) else list(only),
                weights_only=weights_only,
                overwrite=overwrite,
                threads=threads,
                max_size=max_size,
                progress=report,
            )

    def snapshots(self, run: str | None = None) -> list[Snapshot]:
        """All snapshots, or those of a run, in the order in which they were saved."""
        return self._native.handle().snapshots(run)

    def get(self, name: str) -> Snapshot:
        """The snapshot of a name: the start of its id, latest, RUN@STEP or RUN@latest."""
        return self._native.handle().get(snapshot_name(name))

    def latest(self, run: str | None = None) -> Snapshot | None:
        """The newest snapshot, of all or of a run, if there is one."""
        try:
            return self.get("latest" if run is None else f"{run}@latest")
        except NotFoundError:
            return None

    def tag(self, snapshot: str | Snapshot, tag: str, *, remove: bool = False) -> None:
        """Gives a snapshot a tag, or removes it."""
        self._native.handle().set_tag(snapshot_name(snapshot), tag, not remove)

    def diff(self, old: str | Snapshot, new: str | Snapshot) -> dict[str, Any]:
        """Compares the files of two snapshots."""
        same, gone, added, changed = self._native.handle().diff(
            snapshot_name(old), snapshot_name(new), threads=0
        )
        changes = {path: (before, after) for path, before, after in changed}
        return {"same": same, "removed": gone, "added": added, "changed": changes}

    def check(self, *, read_data: bool = False) -> list[str]:
        """Looks for damage; returns a line for each damaged object and each affected file."""
        percent = 100 if read_data else 0
        objects, files = self._native.handle().check(read_percent=percent, threads=0)
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
        return self._native.handle().forget(
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
        """Removes forgotten snapshots and unreferenced data; returns the bytes that are freed.

        If the store has no snapshot at all, packs are removed only with ``allow_empty``.
        """
        grace = _milliseconds(grace_hours, 3_600_000)
        handle = self._native.handle()
        return handle.prune(grace_ms=grace, dry_run=dry_run, allow_empty=allow_empty)[2]

    def stats(self) -> dict[str, int]:
        """Statistics of the whole store."""
        return self._native.handle().stats()


def as_store(store: Store | Path, *, create: bool = False) -> Store:
    """The store that an integration gets, as a Store or as its path or URL."""
    return store if isinstance(store, Store) else Store(store, create=create)


def _milliseconds(count: float | None, unit: int) -> int | None:
    if count is None:
        return None
    # Numbers that no float can hold are compared as they are.
    if not isinstance(count, int) and not math.isfinite(count) or count < 0:
        raise InvalidError(f"{count} is not a length of time")
    return min(int(min(count, 2**63) * unit), 2**63)


class _SnapshotTensors:
    """The tensors of a snapshot, one by one."""

    def __init__(
        self,
        contents: _lmckpt.Contents,
        only: str | None,
        device: Any,
        threads: int,
        report: Callable[[int], None] | None,
    ) -> None:
        self._contents, self._only = contents, only
        self._report, self._done = report, 0
        self._device, self._threads = device, threads
        self._open: dict[tuple[str, str], safe_open] = {}

    def _file(self, kind: str, path: str) -> safe_open:
        key = (kind, path)
        if key not in self._open:
            framework, device = ("pt", self._device) if kind == "torch" else ("np", "cpu")
            archive = named_file(self._contents, path)
            whole = self._only is None
            self._open[key] = open_tensors(archive, framework, device, self._threads, whole=whole)
        return self._open[key]

    def keys(self, path: str) -> list[str]:
        return self._file("torch", path).keys()

    def tensor(self, kind: str, path: str, name: str, way: tuple[str, ...]) -> Any:
        if self._only is not None and not fnmatch.fnmatchcase(".".join(way), self._only):
            return MISSING
        tensor = self._file(kind, path).get_tensor(name)
        if self._report is not None:
            self._done += tensor.nbytes
            self._report(self._done)
        return tensor


def _load(
    contents: _lmckpt.Contents,
    paths: list[str],
    reader: _SnapshotTensors,
    into: State | None,
    only: str | None,
) -> Any:
    """The state of a snapshot, or the tensors of a directory, as ``Store.load`` gives them."""
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
