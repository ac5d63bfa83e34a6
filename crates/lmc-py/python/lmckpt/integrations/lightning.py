"""Lightning checkpoints in a store: ``Trainer(plugins=[StoreCheckpointIO("store")])``.

At the path that Lightning names, a small pointer file is left, as its callbacks look for one. The
checkpoint is a snapshot of the run, with the step of the trainer. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack, cast

from .._documented import documented_as
from .._lmckpt import Snapshot, shown, write_file
from ..errors import InvalidError, NotFoundError
from ..files import Path
from ..store.native import native_of
from ..store.options import CodingOptions, SaveOptions, native_options, takes
from ..store.state import FlatState, flatten
from ..store.store import Store, as_store

# pytorch_lightning has classes of its own, and does not accept those of lightning.
if TYPE_CHECKING or "lightning" in sys.modules or "lightning_fabric" not in sys.modules:
    from lightning.fabric.plugins.io.checkpoint_io import CheckpointIO
    from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
    from lightning.fabric.utilities.cloud_io import get_filesystem
else:
    from lightning_fabric.plugins.io.checkpoint_io import CheckpointIO
    from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
    from lightning_fabric.utilities.cloud_io import get_filesystem

# The tag of snapshots that Lightning has not removed, and the metadata that tells ours from others.
KEPT = "lightning"
PATH_KEY = "lightning.path"
_POINTER_KEY = "lmckpt.snapshot"
_POINTER_LEN_MAX = 65_536
# The file in which processes that Lightning spawned hand their weights to their parent.
_HANDOVER = ".temp.ckpt"


@dataclass(eq=False)
class _RunningSave:
    """A save that has not ended, and whether its path was removed meanwhile."""

    path: str
    is_removed: bool = False


@documented_as("lmckpt.lightning")
class StoreCheckpointIO(CheckpointIO):
    """Saves the checkpoints of a trainer in a store. It may be put into an AsyncCheckpointIO."""

    @takes(CodingOptions)
    def __init__(
        self,
        store: Store | Path,
        run: str = "main",
        *,
        background: bool = False,
        **options: Unpack[CodingOptions],
    ) -> None:
        """``store`` is a Store, or the path or URL of one, which is created if it does not exist.

        With ``background``, a copy is saved while training continues, one at a time; an error is
        raised at the next save or at the end. This replaces an AsyncCheckpointIO.
        """
        super().__init__()
        self._store = as_store(store, create=True)
        # Options of coding are options of a save, which type checkers cannot see.
        self._run, self._options = run, cast(SaveOptions, options)
        self._background = background
        self._is_owed = False
        self._lock = threading.Lock()
        self._running: set[_RunningSave] = set()

    def __getstate__(self) -> dict[str, Any]:
        lost = ("_lock", "_running")
        return {key: value for key, value in self.__dict__.items() if key not in lost}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._running = threading.Lock(), set()

    @property
    def store(self) -> Store:
        """Where the checkpoints go."""
        return self._store

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Path, storage_options: Any | None = None
    ) -> None:
        """Saves a checkpoint and points to it; what the path pointed to before is forgotten."""
        if storage_options is not None:
            raise TypeError("StoreCheckpointIO takes no storage_options")
        place = os.fspath(path)
        if _last_part(place) == _HANDOVER:
            TorchCheckpointIO().save_checkpoint(checkpoint, place)
            return
        options: SaveOptions = {
            "run": self._run,
            "step": checkpoint.get("global_step"),
            "tags": [KEPT],
            "meta": {PATH_KEY: shown(place), "epoch": checkpoint.get("epoch", "")},
            **self._options,
        }
        running = _RunningSave(place)
        with self._lock:
            self._running.add(running)
        try:
            if self._background:
                self._start(checkpoint, options, running)
            else:
                self._point(running, self._store.save(checkpoint, **options))
        except BaseException:
            self._end(running)
            raise
        if not self._background:
            self._end(running)

    def _start(
        self, checkpoint: dict[str, Any], options: SaveOptions, running: _RunningSave
    ) -> None:
        native, told = native_of(self._store), native_options(options)

        def save(flat: FlatState) -> Snapshot:
            try:
                saved = native.save_flat(flat, told)
                self._point(running, saved)
                return saved
            finally:
                self._end(running)

        native.background.save(flatten(checkpoint), save)

    def _end(self, running: _RunningSave) -> None:
        with self._lock:
            self._running.discard(running)

    def _point(self, running: _RunningSave, saved: Snapshot) -> None:
        """Lets the path of a save point to its snapshot."""
        with self._lock:
            if running.is_removed:
                self._forget(saved.id)
                return
            before = _read_pointer(running.path)
            _write_pointer(running.path, self._store, saved)
            if before is not None and _is_own(running.path, before):
                self._forget(before[_POINTER_KEY])
            elif self._is_owed:
                self._sweep()
                self._is_owed = False

    def _wait(self) -> None:
        """Waits for saves in the background, however they end."""
        if self._background:
            native_of(self._store).background.settle()

    def teardown(self) -> None:
        """Waits for the save in the background and raises its error, if no save has."""
        if self._background:
            native_of(self._store).background.close(again=False)

    def load_checkpoint(
        self, path: Path, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """The checkpoint that a path points to.

        Where there is no file, the path may name a snapshot: RUN@STEP, RUN@latest or an id. A file
        that is not a pointer is read as Lightning reads it.
        """
        self._wait()
        place = os.fspath(path)
        pointer = _read_pointer(place)
        if pointer is not None:
            return self._load(pointer[_POINTER_KEY], map_location)
        if get_filesystem(place).exists(place):
            return TorchCheckpointIO().load_checkpoint(place, map_location, weights_only)
        try:
            snapshot = self._store.get(place).id
        except (NotFoundError, InvalidError):
            where = native_of(self._store).shown
            raise NotFoundError(
                f"{place} is neither a file nor the name of a snapshot in {where}"
            ) from None
        return self._load(snapshot, map_location)

    def _load(self, snapshot: str, map_location: Any | None) -> dict[str, Any]:
        import torch

        if map_location is None or isinstance(map_location, (str, int, torch.device)):
            device = "cpu" if map_location is None else map_location
            state: dict[str, Any] = self._store.load(snapshot, device=device)
            return state
        # A function or a dict moves memory; ours is on the CPU, where functions usually leave it.
        raise InvalidError("map_location must be a device; functions and dicts are not supported")

    def remove_checkpoint(self, path: Path) -> None:
        """Removes the pointer at a path and forgets its snapshot.

        The newest snapshot of a run is forgotten only once there is a newer one.
        """
        place = os.fspath(path)
        with self._lock:
            for running in self._running:
                running.is_removed |= running.path == place
            pointer = _read_pointer(place)
            files = get_filesystem(place)
            if files.exists(place) or os.path.islink(place):
                files.rm(place, recursive=True)
            if pointer is not None and _is_own(place, pointer):
                self._forget(pointer[_POINTER_KEY])

    def _forget(self, snapshot: str) -> None:
        """Removes the tag of a snapshot, and forgets those of ours that have none."""
        try:
            self._store.tag(snapshot, KEPT, remove=True)
        except NotFoundError:
            return
        # The newest of a run is never forgotten; if this was it, it is after the next save.
        self._is_owed = snapshot not in self._sweep()

    def _sweep(self) -> set[str]:
        # What others saved or gave a tag in this run is not ours to forget.
        tags = {tag for other in self._store.snapshots(self._run) for tag in other.tags}
        keep = sorted(tags | {KEPT})
        for other in self._store.forget(run=self._run, keep_tags=keep, dry_run=True):
            if PATH_KEY not in self._store.meta(other):
                self._store.tag(other, KEPT)
        return {gone.id for gone in self._store.forget(run=self._run, keep_tags=keep)}


@documented_as("lmckpt.lightning")
def load_checkpoint(path: Path, store: Store | Path | None = None) -> dict[str, Any]:
    """The checkpoint of a pointer file, from the store that it names or from another."""
    pointer = _read_pointer(os.fspath(path))
    if pointer is None:
        raise NotFoundError(f"{os.fspath(path)} does not point to a snapshot")
    state: dict[str, Any] = as_store(pointer["store"] if store is None else store).load(
        pointer[_POINTER_KEY]
    )
    return state


def _read_pointer(place: str) -> dict[str, str] | None:
    """What a pointer file says, or nothing if the file is missing or something else."""
    files = get_filesystem(place)
    if not files.isfile(place) or files.size(place) > _POINTER_LEN_MAX:
        return None
    try:
        pointer = json.loads(files.cat_file(place))
    except (UnicodeDecodeError, ValueError):
        return None
    return pointer if isinstance(pointer, dict) and _POINTER_KEY in pointer else None


def _is_own(place: str, pointer: dict[str, str]) -> bool:
    """Whether a pointer was written for this path. Links and copies do not own a snapshot."""
    return not os.path.islink(place) and pointer.get("name") == _last_part(place)


def _last_part(place: str) -> str:
    return os.path.basename(place.rstrip("/"))


def _write_pointer(place: str, store: Store, saved: Snapshot) -> None:
    # Others may read the file: the secrets of a URL are left out.
    url = native_of(store).shown if "://" in store.url else os.path.abspath(store.url)
    pointer = {
        _POINTER_KEY: saved.id,
        "store": url,
        "run": saved.run,
        "step": saved.step,
        "name": _last_part(place),
    }
    text = json.dumps(pointer, indent=1).encode() + b"\n"
    files = get_filesystem(place)
    if "://" in place:
        files.pipe_file(place, text)
        return
    if os.path.islink(place) or os.path.isdir(place):
        files.rm(place, recursive=True)
    folder = os.path.dirname(os.path.abspath(place))
    os.makedirs(folder, exist_ok=True)
    write_file(place, text)
