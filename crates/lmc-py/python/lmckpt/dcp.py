"""torch.distributed.checkpoint in a store: ``dcp.save(state, storage_writer=StoreWriter(...))``.

Every rank stores what it holds, one commits. What did not change since the snapshot before is
referred to, what did is a delta, by name and region, also if the number of ranks is another one.
Nothing that is read is unpickled.
"""

from __future__ import annotations

import io
import os
import re
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
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from ._dcp_layout import (
    LAYOUT_FILE,
    Chunk,
    Earlier,
    Layout,
    Shape,
    Whole,
    file_of,
    objects_of,
    region_name,
)
from ._dcp_read import Reader, Wanted, type_of
from ._lmckpt import Snapshot
from ._state import flatten, unflatten
from .errors import ConflictError, CorruptError, InvalidError, NotFoundError, UnsupportedError
from .files import Level, Path
from .store import Store, save_options, serialize_any
from .torch import serialize

if TYPE_CHECKING:
    from ._lmckpt import File, SaveOptions  # Types that are in the stub alone.

__all__ = ["StoreReader", "StoreWriter"]

# What a rank tells the coordinator of an item: its file and the rows of its tensors, and with one
# item the part of the snapshot that the rank stored.
_Written = tuple[str, list[int], str | None]


def _shape(sizes: Sequence[int] | None) -> Shape:
    return tuple(int(size) for size in sizes or ())


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
        last. The other arguments are those of ``Store.save``.
        """
        super().__init__()
        self.store = store if isinstance(store, Store) else Store(store, create=True)
        self._options = save_options(run, step, tags, meta, parent, level, threads, verify)
        self._step = step
        self._named_step: int | None = None
        self._rank = 0
        self._part: str | None = None
        self._parent: Snapshot | None = None
        #: The snapshot that was saved last, on the rank that committed it.
        self.snapshot: Snapshot | None = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Takes the step of the next save from its name; torch calls this only if it has one."""
        self._named_step = _step_of(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Begins a save."""
        if not kwargs.get("use_collectives", True):
            raise UnsupportedError("a save without collectives has nobody who commits it")
        self._rank = int(kwargs.get("rank") or 0)
        step, self._named_step = self._named_step, None
        self._options["step"] = self._step if self._step is not None else step
        self.snapshot = None
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
        future.set_result(self._write(plan, planner) if plan.items else [])
        return future

    def _write(self, plan: SavePlan, planner: SavePlanner) -> list[WriteResult]:
        options, earlier = self._on_parent()
        files: dict[str, dict[str, torch.Tensor]] = {}
        chunks: dict[str, dict[str, tuple[Shape, Shape]]] = {}
        objects: dict[str, Any] = {}
        placed: list[tuple[WriteItem, int, str, list[int]]] = []
        for item in plan.items:
            name = item.index.fqn
            if item.type == WriteItemType.BYTE_IO:
                objects[name] = _object(planner.resolve_data(item), name)
                placed.append((item, 0, objects_of(self._rank), []))
                continue
            if item.tensor_data is None:
                raise InvalidError(f"{name}: the plan says nothing of the tensor")
            tensor = planner.resolve_data(item)
            offsets = _shape(item.tensor_data.chunk.offsets)
            sizes = _shape(item.tensor_data.chunk.sizes)
            if not isinstance(tensor, torch.Tensor) or _shape(tensor.shape) != sizes:
                raise InvalidError(f"{name}: the plan has a tensor of shape {sizes}")
            file = file_of(name, self._rank)
            rows = earlier.rows(name, offsets, sizes, tensor.element_size())
            chunk = Chunk(offsets, sizes, file, rows)
            _add(files.setdefault(file, {}), name, _shape(item.tensor_data.size), chunk, tensor)
            chunks.setdefault(file, {})[name] = (offsets, sizes)
            placed.append((item, tensor.nbytes, file, rows))
        coded: list[File] = []
        for file, tensors in files.items():
            coded.append((file, serialize(tensors), earlier.like(chunks[file])))
        coded.extend(_object_files(objects, self._rank))
        self._part, found = self.store._handle().save_part(coded, options)
        for warning in found:
            warnings.warn(warning, stacklevel=2)
        parts = [self._part, *[None] * len(placed)]
        return [
            WriteResult(item.index, size, (file, rows, part))
            for (item, size, file, rows), part in zip(placed, parts, strict=False)
        ]

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
        try:
            layout = Layout.from_json(self.store.read_file(self._parent, LAYOUT_FILE))
        except (NotFoundError, CorruptError):
            layout = None  # It is of another kind, or damaged: nothing is known of its files.
        return {**options, "parent": self._parent}, Earlier(layout)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Makes the snapshot visible."""
        written: dict[MetadataIndex, _Written] = {
            result.index: result.storage_data for by_rank in results for result in by_rank
        }

        def place(index: MetadataIndex) -> _Written:
            if index not in written:
                raise InvalidError(f"{index.fqn}: no rank wrote what the planner says is there")
            return written[index]

        parts = [part for _, _, part in written.values() if part is not None]
        layout = Layout({}, {}, flatten({"data": metadata.planner_data}).json().decode())
        for name, found in metadata.state_dict_metadata.items():
            if isinstance(found, BytesStorageMetadata):
                layout.objects[name] = place(MetadataIndex(name))[0]
                continue
            whole = Whole(str(found.properties.dtype).removeprefix("torch."), _shape(found.size))
            for chunk in found.chunks:
                file, rows, _ = place(MetadataIndex(name, chunk.offsets))
                whole.chunks.append(Chunk(_shape(chunk.offsets), _shape(chunk.sizes), file, rows))
            layout.tensors[name] = whole
        options = self._options
        if self._parent is not None:
            options = {**options, "parent": self._parent}
        files: list[File] = [(LAYOUT_FILE, layout.to_json(), [])]
        self.snapshot = self.store._handle().commit_parts(parts, files, options)
        self._part = None

    def storage_meta(self) -> StorageMeta | None:
        """Where it goes, for torch's logs."""
        return StorageMeta(self.store.url)

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
        self._threads = threads
        self._layout: Layout | None = None
        #: The snapshot that is loaded.
        self.snapshot: Snapshot | None = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begins a load; a ``checkpoint_id`` names the snapshot."""
        if checkpoint_id:
            self._wanted = os.fspath(checkpoint_id)
        self._layout = self.snapshot = None

    def _found(self) -> tuple[Snapshot, Layout]:
        if self.snapshot is None or self._layout is None:
            wanted = self._wanted
            found = wanted if isinstance(wanted, Snapshot) else self.store.get(wanted)
            try:
                text = self.store.read_file(found, LAYOUT_FILE)
            except NotFoundError:
                raise InvalidError(
                    f"snapshot {found.id[:8]} is no distributed checkpoint"
                ) from None
            self.snapshot, self._layout = found, Layout.from_json(text)
        return self.snapshot, self._layout

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint holds."""
        _, layout = self._found()
        found: dict[str, Any] = {name: BytesStorageMetadata() for name in layout.objects}
        for name, whole in layout.tensors.items():
            chunks = [
                ChunkStorageMetadata(torch.Size(chunk.offsets), torch.Size(chunk.sizes))
                for chunk in whole.chunks
            ]
            properties = TensorProperties(dtype=type_of(name, whole.dtype))
            found[name] = TensorStorageMetadata(properties, torch.Size(whole.shape), chunks)
        planner = unflatten(layout.planner, _no_tensor)["data"]
        return Metadata(found, planner_data=planner, storage_meta=StorageMeta(self.store.url))

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Needs nothing."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Tells the coordinator which snapshot this rank reads."""
        plan.storage_data = self._found()[0].id
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
        snapshot, layout = self._found()
        reader = Reader(self.store, snapshot, self._threads)
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
            whole, chunk = chunks[index.fqn, _shape(index.offset)]
            target = planner.resolve_tensor(item)
            if _shape(target.shape) != _shape(item.lengths):
                raise InvalidError(f"{index.fqn} has another shape in the state that is loaded")
            start = _shape(item.storage_offsets)
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
    return int(found[1]) if found else None


def _add(
    tensors: dict[str, torch.Tensor], name: str, whole: Shape, chunk: Chunk, tensor: torch.Tensor
) -> None:
    """Adds the tensors that a chunk is cut into."""
    start = 0
    for offsets, sizes in chunk.pieces():
        stored = region_name(name, whole, offsets, sizes)
        if stored in tensors:
            raise InvalidError(f"{stored} is there twice")
        tensors[stored] = tensor.detach().narrow(0, start, sizes[0]) if sizes else tensor.detach()
        start += sizes[0] if sizes else 0


def _object(data: Any, name: str) -> Any:
    """The value that a planner has turned into bytes, in this very process."""
    if not isinstance(data, io.BytesIO):
        raise InvalidError(f"{name}: the planner gives a {type(data).__name__}")
    data.seek(0)
    return torch.load(data, map_location="cpu", weights_only=False)


def _object_files(objects: Mapping[str, Any], rank: int) -> list[File]:
    if not objects:
        return []
    flat = flatten(objects, prefix=f"{rank:05}-")
    files: list[File] = [(objects_of(rank), flat.json(), [])]
    files.extend(
        (f"objects/{path}", serialize_any(found), []) for path, found in flat.files.items()
    )
    return files


def _pickled(value: Any) -> io.BytesIO:
    """What planners read values from: bytes of torch.save, made in this very process."""
    data = io.BytesIO()
    torch.save(value, data)
    data.seek(0)
    return data


def _no_tensor(kind: str, file: str, name: str) -> Any:
    raise CorruptError(f"{LAYOUT_FILE}: the data of a planner holds no tensors")
