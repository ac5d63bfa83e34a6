"""``StoreReader``: loads distributed checkpoints, on any number of ranks.

Each tensor is read straight to where it goes, if it can be.
"""

from __future__ import annotations

import io
import logging
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from .. import _lmckpt
from .._documented import documented_as
from .._lmckpt import Contents, Snapshot, printable
from ..errors import (
    ConflictError,
    CorruptError,
    InvalidError,
    LmcError,
    NotFoundError,
    UnsupportedError,
)
from ..files import Path
from ..safetensors.buffers import view
from ..safetensors.dtypes import torch_dtype
from ..safetensors.open import open_tensors, safe_open, small_runs
from ..safetensors.overlap import check_apart, sharing
from ..store.native import named_file, native_of, read_small
from ..store.state import STATE_LEN_MAX, unflatten
from ..store.store import Store, as_store
from .layout import LAYOUT_FILE, Chunk, Layout, Shape, Whole, region_name, shape_of
from .ranks import threads_of

_LOGGER = logging.getLogger(__name__)


def type_of(name: str, dtype: str) -> torch.dtype:
    """The type of torch that a checkpoint names."""
    found = torch_dtype(dtype)
    if found is None:
        raise UnsupportedError(f"{name}: this torch has no type {dtype}")
    return found


@dataclass
class Wanted:
    """Part of a chunk, and the tensor that it goes to."""

    name: str
    whole: Whole
    chunk: Chunk
    start: Shape
    target: torch.Tensor


@dataclass
class _Piece:
    """Rows and columns of one tensor of a file."""

    name: str
    sizes: Shape
    dtype: torch.dtype
    low: int
    columns: Shape
    target: torch.Tensor

    def rows(self) -> int:
        return self.target.shape[0] if self.sizes else 1

    def is_all(self) -> bool:
        return tuple(self.target.shape) == self.sizes

    def is_direct(self) -> bool:
        """Whether the bytes of the file are those of the target."""
        target = self.target
        is_plain = target.device.type == "cpu" and target.layout == torch.strided
        return (
            is_plain
            and target.dtype == self.dtype
            and target.is_contiguous()
            and not (target.is_conj() or target.is_neg())
            and tuple(target.shape[1:]) == self.sizes[1:]
        )

    def memory(self) -> torch.Tensor:
        """What its rows are read to."""
        if self.is_direct():
            return self.target
        return torch.empty([self.rows(), *self.sizes[1:]] if self.sizes else [], dtype=self.dtype)

    def take(self, memory: torch.Tensor) -> None:
        """Fills the target with what was read."""
        if memory is self.target:
            return
        for dimension, start in enumerate(self.columns, 1):
            memory = memory.narrow(dimension, start, self.target.shape[dimension])
        self.target.copy_(memory)


def _pieces(wanted: Wanted) -> Iterator[_Piece]:
    name, whole, chunk, target = wanted.name, wanted.whole, wanted.chunk, wanted.target
    dtype = type_of(name, whole.dtype)
    for offsets, sizes in chunk.pieces():
        stored = region_name(name, whole.shape, offsets, sizes)
        if not sizes:
            yield _Piece(stored, sizes, dtype, 0, (), target)
            continue
        # Rows of the whole tensor that are wanted, and those of them that are here.
        first = chunk.offsets[0] + wanted.start[0]
        low, high = max(first, offsets[0]), min(first + target.shape[0], offsets[0] + sizes[0])
        if low < high or not target.numel():
            rows = target.narrow(0, low - first, high - low) if target.numel() else target
            yield _Piece(stored, sizes, dtype, low - offsets[0], wanted.start[1:], rows)


class _File:
    """A file of a snapshot."""

    def __init__(self, path: str, archive: _lmckpt.Archive, threads: int) -> None:
        self._path, self._archive, self._threads = path, archive, threads
        self._described = archive.tensors()
        self._places = {name: (start, end) for name, _, _, start, end in self._described}
        self._runs: dict[int, tuple[int, bytearray]] = {}

    def _place(self, piece: _Piece) -> tuple[int, int]:
        if piece.name not in self._places:
            raise CorruptError(f"{self._path} has no tensor {piece.name}")
        start, end = self._places[piece.name]
        if end - start != torch.Size(piece.sizes).numel() * piece.dtype.itemsize:
            raise CorruptError(f"{self._path}: {piece.name} has a size other than in the layout")
        return start, end

    def fill(self, pieces: Sequence[_Piece]) -> None:
        """Reads pieces, in one go if they are the whole file."""
        by_name = {piece.name: piece for piece in pieces}
        is_whole = len(by_name) == len(pieces) == len(self._described)
        if is_whole and all(piece.is_all() for piece in pieces):
            for piece in pieces:
                self._place(piece)
            memory = {name: piece.memory() for name, piece in by_name.items()}
            head = bytearray(self._described[0][3])
            places = [view(memory[name], writable=True) for name, *_ in self._described]
            self._archive.scatter([head, *places], threads=self._threads)
            for name, piece in by_name.items():
                piece.take(memory[name])
            return
        self._read_runs(pieces)
        for piece in pieces:
            self._read(piece)

    def _read_runs(self, pieces: Sequence[_Piece]) -> None:
        """Reads stretches of the file that hold several small tensors."""
        for start, end, small in small_runs(sorted({self._place(piece) for piece in pieces})):
            run = bytearray(end - start)
            self._archive.read_into(start, run, threads=self._threads)
            self._runs |= dict.fromkeys(small, (start, run))

    def _read(self, piece: _Piece) -> None:
        start, end = self._place(piece)
        row = (end - start) // piece.sizes[0] if piece.sizes and piece.sizes[0] else 0
        low, memory = start + piece.low * row, piece.memory()
        out = view(memory, writable=True)
        if start in self._runs and len(out):
            first, run = self._runs[start]
            out[:] = memoryview(run)[low - first : low - first + len(out)]
        elif len(out):
            self._archive.read_into(low, out, threads=self._threads)
        piece.take(memory)


class SnapshotFiles:
    """The files of a snapshot."""

    def __init__(self, contents: _lmckpt.Contents, threads: int) -> None:
        self._contents, self._threads = contents, threads

    def _archive(self, path: str) -> _lmckpt.Archive:
        try:
            return named_file(self._contents, path)
        except NotFoundError:
            raise NotFoundError(
                f"{path} is not in snapshot {self._contents.snapshot.id[:8]}; if optimizer state "
                "was left out of it, load without"
            ) from None

    def fill(self, wanted: Sequence[Wanted]) -> None:
        """Fills all targets, those that share memory first, and these only if all of them fit."""
        shared = sharing((one.name, one.target) for one in wanted)
        held = [wanted[i] for i in shared]
        copies = [
            replace(one, target=torch.empty(one.target.shape, dtype=one.target.dtype))
            for one in held
        ]
        self._fill(copies)
        pairs = list(zip(held, copies, strict=True))
        check_apart([(one.name, one.target, copy.target) for one, copy in pairs])
        for one, copy in pairs:
            one.target.copy_(copy.target)
        others = set(range(len(wanted))).difference(shared)
        self._fill([wanted[i] for i in sorted(others)])

    def _fill(self, wanted: Sequence[Wanted]) -> None:
        """Fills targets, file by file."""
        files: defaultdict[str, list[_Piece]] = defaultdict(list)
        for one in wanted:
            files[one.chunk.file].extend(_pieces(one))
        for path, pieces in sorted(files.items()):
            _File(path, self._archive(path), self._threads).fill(pieces)

    def objects(self, path: str) -> dict[str, Any]:
        """What a rank wrote that is not a tensor."""
        text = read_small(self._contents, path, STATE_LEN_MAX)
        open_files: dict[tuple[str, str], safe_open] = {}

        def tensor(kind: str, file: str, name: str, _: tuple[str, ...]) -> Any:
            if (kind, file) not in open_files:
                framework = "pt" if kind == "torch" else "np"
                archive = self._archive(f"objects/{file}")
                open_files[kind, file] = open_tensors(archive, framework)
            return open_files[kind, file].get_tensor(name)

        found = unflatten(text, tensor)
        if not isinstance(found, dict):
            raise CorruptError(f"{path} holds no values")
        return found


@documented_as("lmckpt.dcp")
class StoreReader(StorageReader):
    """Loads distributed checkpoints from a store, on any number of ranks."""

    def __init__(
        self, store: Store | Path, snapshot: str | Snapshot = "latest", *, threads: int = 0
    ) -> None:
        """``snapshot`` is one, the start of an id, latest, RUN@STEP or RUN@latest."""
        super().__init__()
        self.store = as_store(store)
        self._wanted: str | Snapshot = snapshot
        self._threads = threads_of(threads)
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
            contents = native_of(self.store).contents(self._wanted)
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
            # Some versions of torch do not show the reason.
            place = native_of(self.store).shown
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
        return Metadata(
            found, planner_data=planner, storage_meta=StorageMeta(native_of(self.store).shown)
        )

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Needs nothing."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Tells the coordinator which snapshot this rank reads."""
        plan.storage_data = self._open()[0].snapshot.id
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Fails unless all ranks read the same snapshot: a newer one may have been saved."""
        if len({plan.storage_data for plan in plans}) > 1:
            raise ConflictError(
                "a snapshot was saved while ranks looked for the latest; load again"
            )
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fills the tensors and values of the plan."""
        contents, layout = self._open()
        files = SnapshotFiles(contents, self._threads)
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
                    objects[file] = files.objects(file)
                if index.fqn not in objects[file]:
                    raise CorruptError(f"{file} has no {index.fqn}")
                planner.load_bytes(item, _pickled(objects[file][index.fqn]))
                continue
            whole, chunk = chunks[index.fqn, shape_of(index.offset)]
            target = planner.resolve_tensor(item)
            if shape_of(target.shape) != shape_of(item.lengths):
                raise InvalidError(f"{index.fqn} has a different shape in the state that is loaded")
            start = shape_of(item.storage_offsets)
            wanted.append(Wanted(index.fqn, whole, chunk, start, target.detach()))
            resolved.append((item, target))
        files.fill(wanted)
        for item, target in resolved:
            planner.commit_tensor(item, target)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it may name a snapshot."""
        return bool(os.fspath(checkpoint_id))


def _pickled(value: Any) -> io.BytesIO:
    """What planners read values from: bytes of torch.save, made in this very process."""
    data = io.BytesIO()
    torch.save(value, data)
    data.seek(0)
    return data


def _planner_data(layout: Layout) -> Any:
    """The data of the planner that saved; impossible positions in lists are refused."""
    if not isinstance(layout.planner, str):
        raise CorruptError(f"{LAYOUT_FILE} has no data of a planner")
    # JSON may hold lone surrogates, which unflatten can read.
    state = unflatten(layout.planner.encode("utf-8", "surrogatepass"), _no_tensor)
    data = state.get("data") if isinstance(state, dict) else None
    ways = list(data.values()) if isinstance(data, dict) else []
    for way in ways:
        for part in way if isinstance(way, tuple) else ():
            if isinstance(part, int) and not 0 <= part <= len(ways):
                raise CorruptError(f"{LAYOUT_FILE}: position {part} in a list is too far")
    return data


def _no_tensor(kind: str, file: str, name: str, way: tuple[str, ...]) -> Any:
    raise CorruptError(f"{LAYOUT_FILE}: the data of a planner holds no tensors")
