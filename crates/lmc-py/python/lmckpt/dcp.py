"""torch.distributed.checkpoint in a store: ``dcp.save(state, storage_writer=StoreWriter(...))``.

Every rank stores what it holds, one commits. What did not change since the snapshot before is
referred to, what did is a delta, by name and region, also if the number of ranks is another one.
Nothing that is read is unpickled.
"""

from __future__ import annotations

import io
import logging
import os
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from ._dcp_layout import (
    LAYOUT_FILE,
    Chunk,
    Earlier,
    Layout,
    Whole,
)
from ._dcp_read import Reader, Wanted, type_of
from ._dcp_write import Gathered, Written, shape_of
from ._lmckpt import Contents, Snapshot, printable
from ._state import flatten, unflatten
from .errors import (
    ConflictError,
    CorruptError,
    InvalidError,
    LmcError,
    NotFoundError,
    UnsupportedError,
)
from .files import Level, Path
from .store import Store, save_options

if TYPE_CHECKING:
    from ._lmckpt import File, SaveOptions  # Types that are in the stub alone.

__all__ = ["StoreReader", "StoreWriter"]

_LOGGER = logging.getLogger(__name__)
_END_SECONDS = 2
_BUSY = "a save with this writer is under way; wait for it, or make a writer for each save"


class StoreWriter(StorageWriter):
    """Saves distributed checkpoints in a store. It can be pickled, for saves in another process."""

    def __init__(
        self,
        store: Store | Path,
        run: str = "main",
        step: int | None = None,
        *,
        tags: Sequence[str] = (),
        meta: Mapping[str, Any] | None = None,
        parent: str | Snapshot = "auto",
        level: Level = "default",
        threads: int = 0,
        verify: bool = True,
    ) -> None:
        """``store`` is a Store, or where one is or shall be made.

        Without a step, it is the number at the end of the ``checkpoint_id``, or one more than the
        last. With ``threads=0`` each rank takes its share of the cores, by LOCAL_WORLD_SIZE. The
        other arguments are those of ``Store.save``.
        """
        super().__init__()
        self.store = store if isinstance(store, Store) else Store(store, create=True)
        self._options = save_options(
            run, step, tags, meta, parent, level, _threads(threads), verify
        )
        self._step = step
        # By thread, as each save has one.
        self._named_steps: dict[int, int | None] = {}
        self._rank, self._is_coordinator = 0, False
        self._thread: threading.Thread | None = None
        self._part: str | None = None
        self._parent: Snapshot | None = None
        #: The snapshot that was saved last, on the rank that committed it.
        self.snapshot: Snapshot | None = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Takes the step of the next save from its name; torch calls this only if it has one."""
        self._named_steps[threading.get_ident()] = _step_of(checkpoint_id)

    def _is_busy(self) -> bool:
        """Whether another thread is saving with this writer."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return False
        # One whose save has just failed elsewhere is about to end.
        thread.join(_END_SECONDS)
        return thread.is_alive()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_thread": None, "_named_steps": {}}

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Begins a save."""
        if not kwargs.get("use_collectives", True):
            raise UnsupportedError("a save without collectives has nobody who commits it")
        if self._is_busy():
            raise ConflictError(_BUSY)
        self._thread, self._is_coordinator = threading.current_thread(), is_coordinator
        self._rank = int(kwargs.get("rank") or 0)
        step = self._named_steps.pop(threading.get_ident(), None)
        self._options["step"] = self._step if self._step is not None else step
        self.snapshot = self._parent = None
        if self._part is not None:
            # The save before may have failed elsewhere; if it was committed, this changes nothing.
            part, self._part = self._part, None
            self.store._handle().abandon_parts([part])

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Changes nothing."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Changes nothing: a planner may send plans that were made for an earlier save."""
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Stores all that the plan has for this rank."""
        future: Future[list[WriteResult]] = Future()
        is_last = True
        try:
            future.set_result(self._write(plan, planner) if plan.items else [])
            is_last = not self._is_coordinator
        finally:
            if is_last:
                self._thread = None
        return future

    def _write(self, plan: SavePlan, planner: SavePlanner) -> list[WriteResult]:
        options, earlier = self._on_parent()
        gathered = Gathered(self._rank, earlier)
        for item in plan.items:
            data = planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                gathered.add_object(item.index, data)
            else:
                gathered.add_tensor(item.index, item.tensor_data, data)
        self._part, found = self.store._handle().save_part(gathered.files(), options)
        for warning in found:
            warnings.warn(printable(warning), stacklevel=2)
        return gathered.results(self._part)

    def _on_parent(self) -> tuple[SaveOptions, Earlier]:
        """How to save, and what to code against. Ranks may choose otherwise, and nothing is lost."""
        options, parent = self._options, self._options["parent"]
        self._parent = None
        if parent == "auto":
            self._parent = self.store._handle().newest(options["run"])
        elif parent != "none":
            self._parent = self.store.get(parent) if isinstance(parent, str) else parent
        if self._parent is None:
            return options, Earlier(None)
        options = {**options, "parent": self._parent}
        try:
            contents = self.store._handle().contents(self._parent)
            earlier = Earlier(Layout.of(contents), {path for path, *_ in contents.entries()})
        except LmcError:
            # It is of another kind, or damaged, or gone: nothing is known of its files.
            return options, Earlier(None)
        return options, earlier

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Makes the snapshot visible."""
        every = [result for by_rank in results for result in by_rank]
        written: dict[MetadataIndex, Written] = {
            result.index: result.storage_data for result in every
        }

        def place(index: MetadataIndex) -> Written:
            if index not in written:
                raise InvalidError(f"{index.fqn}: no rank wrote what the planner says is there")
            return written[index]

        parts = [part for *_, part in (result.storage_data for result in every) if part is not None]
        layout = Layout({}, {}, flatten({"data": metadata.planner_data}).json().decode())
        for name, found in metadata.state_dict_metadata.items():
            if isinstance(found, BytesStorageMetadata):
                layout.objects[name] = place(MetadataIndex(name))[0]
                continue
            whole = Whole(str(found.properties.dtype).removeprefix("torch."), shape_of(found.size))
            for chunk in found.chunks:
                file, rows, _ = place(MetadataIndex(name, chunk.offsets))
                whole.chunks.append(
                    Chunk(shape_of(chunk.offsets), shape_of(chunk.sizes), file, rows)
                )
            layout.tensors[name] = whole
        options = self._options
        if self._parent is not None:
            options = {**options, "parent": self._parent}
        files: list[File] = [(LAYOUT_FILE, layout.to_json(), [])]
        self.snapshot = self.store._handle().commit_parts(parts, files, options)
        self._part = self._thread = None

    def storage_meta(self) -> StorageMeta | None:
        """Where it goes, for torch's logs."""
        return StorageMeta(self.store._shown)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it may name a checkpoint: any text may."""
        return bool(os.fspath(checkpoint_id))


class StoreReader(StorageReader):
    """Loads distributed checkpoints from a store, on any number of ranks."""

    def __init__(
        self, store: Store | Path, snapshot: str | Snapshot = "latest", *, threads: int = 0
    ) -> None:
        """``snapshot`` is one, the start of an id, latest, RUN@STEP or RUN@latest."""
        super().__init__()
        self.store = store if isinstance(store, Store) else Store(store)
        self._wanted: str | Snapshot = snapshot
        self._threads = _threads(threads)
        self._opened: tuple[Contents, Layout] | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that is loaded."""
        return None if self._opened is None else self._opened[0].snapshot

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begins a load; a ``checkpoint_id`` names the snapshot."""
        if checkpoint_id:
            self._wanted = os.fspath(checkpoint_id)
        self._opened = None

    def _open(self) -> tuple[Contents, Layout]:
        if self._opened is None:
            contents = self.store._handle().contents(self._wanted)
            try:
                self._opened = contents, Layout.of(contents)
            except NotFoundError:
                id = contents.snapshot.id[:8]
                raise InvalidError(f"snapshot {id} is not a distributed checkpoint") from None
        return self._opened

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint holds."""
        try:
            return self._metadata(self._open()[1])
        except LmcError as error:
            # Some versions of torch keep the reason for themselves.
            place = self.store._shown
            _LOGGER.error("cannot load from %s: %s", printable(place), printable(str(error)))
            raise

    def _metadata(self, layout: Layout) -> Metadata:
        found: dict[str, Any] = {name: BytesStorageMetadata() for name in layout.objects}
        for name, whole in layout.tensors.items():
            chunks = [
                ChunkStorageMetadata(torch.Size(chunk.offsets), torch.Size(chunk.sizes))
                for chunk in whole.chunks
            ]
            properties = TensorProperties(dtype=type_of(name, whole.dtype))
            found[name] = TensorStorageMetadata(properties, torch.Size(whole.shape), chunks)
        planner = _planner_data(layout)
        return Metadata(found, planner_data=planner, storage_meta=StorageMeta(self.store._shown))

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Needs nothing."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Tells the coordinator which snapshot this rank reads."""
        plan.storage_data = self._open()[0].snapshot.id
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Fails unless all ranks read the same snapshot: a newer one may have come in between."""
        if len({plan.storage_data for plan in plans}) > 1:
            raise ConflictError(
                "a snapshot was saved while ranks looked for the latest; load again"
            )
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fills the tensors and values of the plan."""
        contents, layout = self._open()
        reader = Reader(contents, self._threads)
        chunks = {
            (name, chunk.offsets): (whole, chunk)
            for name, whole in layout.tensors.items()
            for chunk in whole.chunks
        }
        wanted: list[Wanted] = []
        resolved: list[tuple[ReadItem, torch.Tensor]] = []
        objects: dict[str, dict[str, Any]] = {}
        for item in plan.items:
            index = item.storage_index
            if item.type == LoadItemType.BYTE_IO:
                file = layout.objects[index.fqn]
                if file not in objects:
                    objects[file] = reader.objects(file)
                if index.fqn not in objects[file]:
                    raise CorruptError(f"{file} has no {index.fqn}")
                planner.load_bytes(item, _pickled(objects[file][index.fqn]))
                continue
            whole, chunk = chunks[index.fqn, shape_of(index.offset)]
            target = planner.resolve_tensor(item)
            if shape_of(target.shape) != shape_of(item.lengths):
                raise InvalidError(f"{index.fqn} has another shape in the state that is loaded")
            start = shape_of(item.storage_offsets)
            wanted.append(Wanted(index.fqn, whole, chunk, start, target.detach()))
            resolved.append((item, target))
        reader.fill(wanted)
        for item, target in resolved:
            planner.commit_tensor(item, target)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it may name a snapshot."""
        return bool(os.fspath(checkpoint_id))


def _step_of(checkpoint_id: str | os.PathLike[str] | None) -> int | None:
    """The number at the end of a name such as ``checkpoint-1000``."""
    found = re.search(r"([0-9]+)/*$", os.fspath(checkpoint_id or ""))
    return int(found[1]) if found and len(found[1]) < 19 else None


def _threads(threads: int) -> int:
    """How many a rank uses: 0 stands for its share of the cores of its machine."""
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "1")
    cores = len(os.sched_getaffinity(0))
    return threads or max(1, cores // max(1, int(ranks) if ranks.isdecimal() else 1))


def _pickled(value: Any) -> io.BytesIO:
    """What planners read values from: bytes of torch.save, made in this very process."""
    data = io.BytesIO()
    torch.save(value, data)
    data.seek(0)
    return data


def _planner_data(layout: Layout) -> Any:
    """What the planner that saved wants to know; places in lists that cannot be are refused."""
    if not isinstance(layout.planner, str):
        raise CorruptError(f"{LAYOUT_FILE} has no data of a planner")
    # JSON may hold halves of surrogate pairs; what reads it knows what to do with them.
    state = unflatten(layout.planner.encode("utf-8", "surrogatepass"), _no_tensor)
    data = state.get("data") if isinstance(state, dict) else None
    ways = list(data.values()) if isinstance(data, dict) else []
    for way in ways:
        for part in way if isinstance(way, tuple) else ():
            if isinstance(part, int) and not 0 <= part <= len(ways):
                raise CorruptError(f"{LAYOUT_FILE}: place {part} in a list is too far")
    return data


def _no_tensor(kind: str, file: str, name: str, way: tuple[str, ...]) -> Any:
    raise CorruptError(f"{LAYOUT_FILE}: the data of a planner holds no tensors")
