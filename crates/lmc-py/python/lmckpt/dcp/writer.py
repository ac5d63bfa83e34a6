"""``StoreWriter``: saves distributed checkpoints, each rank what it holds.

Every rank stores its files as a partial snapshot; the coordinator commits all of them together.
"""

from __future__ import annotations

import io
import os
import re
import threading
import warnings
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
)
from torch.distributed.checkpoint.planner import (
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from .._documented import documented_as
from .._lmckpt import Snapshot, printable
from ..errors import ConflictError, InvalidError, LmcError, UnsupportedError
from ..files import Path
from ..safetensors.torch import serialize
from ..store.native import native_of
from ..store.options import SnapshotOptions, native_options, takes
from ..store.state import flatten
from ..store.store import Store, as_store
from .layout import (
    LAYOUT_FILE,
    Chunk,
    Earlier,
    Layout,
    Whole,
    file_of,
    objects_of,
    region_name,
    shape_of,
)
from .ranks import threads_of

if TYPE_CHECKING:
    from .._lmckpt import File, NativeSaveOptions  # Types that are in the stub alone.

_END_SECONDS = 2
_BUSY = "a save with this writer is still running; wait for it, or make a writer for each save"

# What a rank tells the coordinator of an item: its file and the rows of its tensors, and with one
# item the part of the snapshot that the rank stored.
Written = tuple[str, list[int], str | None]


class Gathered:
    """The tensors and values of a rank."""

    def __init__(self, rank: int, earlier: Earlier) -> None:
        self._rank, self._earlier = rank, earlier
        # For each file its tensors, and which chunk of which tensor they are.
        self._files: dict[str, dict[str, torch.Tensor]] = {}
        self._chunks: dict[str, list[tuple[str, Chunk]]] = {}
        self._objects: dict[str, Any] = {}
        # For each item its bytes, its file and the rows of its tensors.
        self._items: list[tuple[MetadataIndex, int, str, list[int]]] = []

    def add_object(self, index: MetadataIndex, data: Any) -> None:
        """Adds a value that a planner has turned into bytes, in this very process."""
        if not isinstance(data, io.BytesIO):
            raise InvalidError(f"{index.fqn}: the planner gives a {type(data).__name__}")
        data.seek(0)
        self._objects[index.fqn] = torch.load(data, map_location="cpu", weights_only=False)
        self._items.append((index, 0, objects_of(self._rank), []))

    def add_tensor(self, index: MetadataIndex, said: TensorWriteData | None, tensor: Any) -> None:
        """Adds a tensor, cut where earlier ones end."""
        if said is None:
            raise InvalidError(f"{index.fqn}: the plan does not describe the tensor")
        offsets, sizes = shape_of(said.chunk.offsets), shape_of(said.chunk.sizes)
        if not isinstance(tensor, torch.Tensor) or shape_of(tensor.shape) != sizes:
            raise InvalidError(f"{index.fqn}: the plan has a tensor of shape {sizes}")
        file = file_of(index.fqn, self._rank)
        rows = self._earlier.rows(index.fqn, offsets, sizes, tensor.element_size())
        chunk = Chunk(offsets, sizes, file, rows)
        tensors, start = self._files.setdefault(file, {}), 0
        for at, piece in chunk.pieces():
            name = region_name(index.fqn, shape_of(said.size), at, piece)
            if name in tensors:
                raise InvalidError(f"{name} appears twice in the plan")
            whole = tensor.detach()
            tensors[name] = whole.narrow(0, start, piece[0]) if piece else whole
            start += piece[0] if piece else 0
        self._chunks.setdefault(file, []).append((index.fqn, chunk))
        self._items.append((index, tensor.nbytes, file, rows))

    def files(self) -> list[File]:
        """All files, each with those of the earlier checkpoint that hold what it was."""
        files: list[File] = []
        for path, tensors in self._files.items():
            like = self._earlier.like(self._chunks[path])
            files.append((path, serialize(tensors), like))
        if self._objects:
            flat = flatten(self._objects, prefix=f"{self._rank:05}-")
            files.append((objects_of(self._rank), flat.json(), []))
            files += [(f"objects/{path}", found, []) for path, found in flat.tensor_files()]
        return files

    def results(self, part: str) -> list[WriteResult]:
        """What the coordinator gets, with the partial snapshot that the files became."""
        results = []
        for i, (index, size, file, rows) in enumerate(self._items):
            written: Written = (file, rows, part if i == 0 else None)
            results.append(WriteResult(index, size, written))
        return results


@documented_as("lmckpt.dcp")
class StoreWriter(StorageWriter):
    """Saves distributed checkpoints in a store. It can be pickled, for saves in another process."""

    @takes(SnapshotOptions)
    def __init__(
        self,
        store: Store | Path,
        run: str = "main",
        step: int | None = None,
        **options: Unpack[SnapshotOptions],
    ) -> None:
        """``store`` is a Store, or the path or URL of one, which is created if it does not exist.

        Without a step, it is the number at the end of the ``checkpoint_id``, or one more than the
        last. With ``threads=0`` each rank takes its share of the cores, by LOCAL_WORLD_SIZE. The
        other arguments are those of ``Store.save``.
        """
        super().__init__()
        self.store = as_store(store, create=True)
        threads = threads_of(options.get("threads", 0))
        self._options = native_options({**options, "run": run, "step": step, "threads": threads})
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
        # If its save has just failed on another rank, it is about to end.
        thread.join(_END_SECONDS)
        return thread.is_alive()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_thread": None, "_named_steps": {}}

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Begins a save."""
        if not kwargs.get("use_collectives", True):
            raise UnsupportedError(
                "use_collectives=False is not supported: no rank would commit the snapshot"
            )
        if self._is_busy():
            raise ConflictError(_BUSY)
        self._thread, self._is_coordinator = threading.current_thread(), is_coordinator
        self._rank = int(kwargs.get("rank") or 0)
        step = self._named_steps.pop(threading.get_ident(), None)
        self._options["step"] = self._step if self._step is not None else step
        self.snapshot = self._parent = None
        if self._part is not None:
            # The last save may have failed on another rank; if not, this changes nothing.
            part, self._part = self._part, None
            native_of(self.store).handle().abandon_parts([part])

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
        options, earlier = self._against_parent()
        gathered = Gathered(self._rank, earlier)
        for item in plan.items:
            data = planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                gathered.add_object(item.index, data)
            else:
                gathered.add_tensor(item.index, item.tensor_data, data)
        self._part, found = native_of(self.store).handle().save_part(gathered.files(), options)
        for warning in found:
            warnings.warn(printable(warning), stacklevel=2)
        return gathered.results(self._part)

    def _against_parent(self) -> tuple[NativeSaveOptions, Earlier]:
        """How to save, and what to code against. Ranks may choose different parents."""
        options, parent = self._options, self._options["parent"]
        self._parent = None
        if parent == "auto":
            self._parent = native_of(self.store).handle().newest(options["run"])
        elif parent != "none":
            self._parent = self.store.get(parent) if isinstance(parent, str) else parent
        if self._parent is None:
            return options, Earlier(None)
        options = {**options, "parent": self._parent}
        try:
            contents = native_of(self.store).contents(self._parent)
            earlier = Earlier(Layout.of(contents), {path for path, *_ in contents.entries()})
        except LmcError:
            # Not a distributed checkpoint, or damaged, or removed: nothing is known of its files.
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
                raise InvalidError(f"{index.fqn}: no rank wrote what the planner lists")
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
        self.snapshot = native_of(self.store).handle().commit_parts(parts, files, options)
        self._part = self._thread = None

    def storage_meta(self) -> StorageMeta | None:
        """Where it goes, for torch's logs."""
        return StorageMeta(native_of(self.store).shown)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it may name a checkpoint: any text may."""
        return bool(os.fspath(checkpoint_id))


def _step_of(checkpoint_id: str | os.PathLike[str] | None) -> int | None:
    """The number at the end of a name such as ``checkpoint-1000``."""
    found = re.search(r"([0-9]+)/*$", os.fspath(checkpoint_id or ""))
    return int(found[1]) if found and len(found[1]) < 19 else None
