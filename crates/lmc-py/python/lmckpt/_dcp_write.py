"""What one rank writes of a distributed checkpoint, gathered into files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import TensorWriteData
from torch.distributed.checkpoint.storage import WriteResult

from ._dcp_layout import Chunk, Earlier, Shape, file_of, objects_of, region_name
from ._state import flatten
from .errors import InvalidError
from .store import serialize_any
from .torch import serialize

if TYPE_CHECKING:
    from ._lmckpt import File  # A type that is in the stub alone.

# What a rank tells the coordinator of an item: its file and the rows of its tensors, and with one
# item the part of the snapshot that the rank stored.
Written = tuple[str, list[int], str | None]


def shape_of(sizes: Sequence[int] | None) -> Shape:
    """Sizes as plain numbers."""
    return tuple(int(size) for size in sizes or ())


class Gathered:
    """The tensors and values of a rank."""

    def __init__(self, rank: int, earlier: Earlier) -> None:
        self._rank, self._earlier = rank, earlier
        # For each file its tensors, and what is in it of which tensor.
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
            raise InvalidError(f"{index.fqn}: the plan says nothing of the tensor")
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
                raise InvalidError(f"{name} is there twice")
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
            for path, found in flat.files.items():
                files.append((f"objects/{path}", serialize_any(found), []))
        return files

    def results(self, part: str) -> list[WriteResult]:
        """What the coordinator is told, with the part that the files became."""
        results = []
        for i, (index, size, file, rows) in enumerate(self._items):
            written: Written = (file, rows, part if i == 0 else None)
            results.append(WriteResult(index, size, written))
        return results
