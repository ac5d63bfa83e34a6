"""Where the tensors of a distributed checkpoint are in the files of a snapshot.

A snapshot of a distributed checkpoint holds safetensors files, ``model/00003.safetensors`` and
``optimizer/00003.safetensors`` for what rank 3 wrote, and ``dcp.json``, which this module reads and
writes. A chunk of a tensor is in one file, as one tensor or cut between rows into several; each
is named by the part that it is: ``weight``, or ``weight[0:512,0:64]``.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._lmckpt import Contents
from ..errors import CorruptError
from ..store.native import read_small

LAYOUT_FILE = "dcp.json"
FORMAT = 1
_LAYOUT_LEN_MAX = 1 << 30
# Words in the names of tensors that only the state of an optimizer has.
_OPTIMIZER = frozenset({"optim", "optimizer", "optimizers"})
# A cut is not made where it would leave fewer bytes than this.
_CUT_MIN = 4096
_CUTS_MAX = 64
_DIMENSIONS_MAX = 64
# The most files that one file is coded against.
_LIKE_MAX = 32

Shape = tuple[int, ...]


def shape_of(sizes: Sequence[int] | None) -> Shape:
    """Sizes as plain numbers."""
    return tuple(int(size) for size in sizes or ())


def file_of(name: str, rank: int) -> str:
    """The file that a rank writes a tensor to; optimizer state has one that can be left out."""
    folder = "optimizer" if _OPTIMIZER.intersection(name.split(".")) else "model"
    return f"{folder}/{rank:05}.safetensors"


def objects_of(rank: int) -> str:
    """The file that a rank writes values that are not tensors to."""
    return f"objects/{rank:05}.json"


def region_name(name: str, whole: Shape, offsets: Shape, sizes: Shape) -> str:
    """The name of a part of a tensor."""
    if sizes == whole:
        return name
    ranges = ",".join(f"{a}:{a + n}" for a, n in zip(offsets, sizes, strict=True))
    return f"{name}[{ranges}]"


@dataclass
class Chunk:
    """A part of a tensor that one rank wrote."""

    offsets: Shape
    sizes: Shape
    file: str
    # The tensors that it is cut into, by their rows. A tensor of no dimensions has one.
    rows: list[int]

    def pieces(self) -> Iterator[tuple[Shape, Shape]]:
        """Offsets and sizes of the tensors that it is cut into."""
        if not self.sizes:
            yield (), ()
            return
        start = self.offsets[0]
        for rows in self.rows:
            yield (start, *self.offsets[1:]), (rows, *self.sizes[1:])
            start += rows


@dataclass
class Whole:
    """A tensor of a distributed checkpoint."""

    dtype: str
    shape: Shape
    chunks: list[Chunk] = field(default_factory=list)


@dataclass
class Layout:
    """A distributed checkpoint."""

    tensors: dict[str, Whole]
    # For each value that is not a tensor, the file that holds it.
    objects: dict[str, str]
    # The planner's data, as the tree of a state.
    planner: Any = None

    def to_json(self) -> bytes:
        """The text of ``dcp.json``."""
        files = sorted({chunk.file for whole in self.tensors.values() for chunk in whole.chunks})
        numbers = {file: i for i, file in enumerate(files)}
        tensors = {
            name: {
                "dtype": whole.dtype,
                "shape": whole.shape,
                "chunks": [
                    [numbers[chunk.file], chunk.offsets, chunk.sizes, chunk.rows]
                    for chunk in whole.chunks
                ],
            }
            for name, whole in self.tensors.items()
        }
        layout = {
            "format": FORMAT,
            "files": files,
            "tensors": tensors,
            "objects": self.objects,
            "planner": self.planner,
        }
        return json.dumps(layout, separators=(",", ":"), allow_nan=False).encode()

    @staticmethod
    def of(contents: Contents) -> Layout:
        """The layout of a snapshot."""
        return Layout.from_json(read_small(contents, LAYOUT_FILE, _LAYOUT_LEN_MAX))

    @staticmethod
    def from_json(text: bytes) -> Layout:
        """Reads ``dcp.json``; what it says has been checked."""
        try:
            layout = json.loads(text)
            if layout["format"] != FORMAT:
                found = repr(layout["format"])[:20]
                raise CorruptError(f"{LAYOUT_FILE} has format {found}, this lmckpt knows {FORMAT}")
            files = [_text(file) for file in layout["files"]]
            tensors = {
                name: _whole(name, found, files) for name, found in layout["tensors"].items()
            }
            objects = {name: _text(file) for name, file in layout["objects"].items()}
            return Layout(tensors, objects, layout["planner"])
        except CorruptError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as e:
            raise CorruptError(f"{LAYOUT_FILE} cannot be read: {e!r}"[:300]) from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _sizes(values: Any) -> Shape:
    if any(type(value) is not int or not 0 <= value < 1 << 60 for value in values):
        raise ValueError(f"{values} are not sizes")
    return tuple(values)


def _whole(name: str, found: Any, files: Sequence[str]) -> Whole:
    whole = Whole(_text(found["dtype"]), _sizes(found["shape"]))
    if len(whole.shape) > _DIMENSIONS_MAX:
        raise CorruptError(f"{LAYOUT_FILE}: {name} has {len(whole.shape)} dimensions")
    seen: set[Shape] = set()
    for number, offsets, sizes, rows in found["chunks"]:
        chunk = Chunk(_sizes(offsets), _sizes(sizes), files[_sizes([number])[0]], [*_sizes(rows)])
        ends = zip(chunk.offsets, chunk.sizes, whole.shape, strict=True)
        is_inside = all(offset + size <= end for offset, size, end in ends)
        is_cut = sum(chunk.rows) == (chunk.sizes[0] if chunk.sizes else 1)
        is_cut &= len(chunk.rows) == 1 or 0 not in chunk.rows and len(chunk.rows) <= _CUTS_MAX
        is_twice = math.prod(chunk.sizes) > 0 and chunk.offsets in seen
        seen.add(chunk.offsets)
        if not is_inside or not is_cut or is_twice:
            raise CorruptError(f"{LAYOUT_FILE}: {name} has a chunk that does not fit it")
        whole.chunks.append(chunk)
    return whole


class Earlier:
    """What an earlier checkpoint offers to code against."""

    def __init__(self, layout: Layout | None, files: Collection[str] = ()) -> None:
        """``files`` are those that exist, whatever the layout says."""
        self._tensors: Mapping[str, Whole] = layout.tensors if layout is not None else {}
        self._files = files

    def _beside(self, name: str, offsets: Shape, sizes: Shape) -> Iterator[tuple[int, int, str]]:
        """First row, end and file of what it has of these columns."""
        whole = self._tensors.get(name)
        if whole is None or len(whole.shape) != len(sizes):
            return
        for chunk in whole.chunks:
            if not sizes:
                yield 0, 1, chunk.file
            elif chunk.offsets[1:] == offsets[1:] and chunk.sizes[1:] == sizes[1:]:
                for (start, *_), (rows, *_) in chunk.pieces():
                    yield start, start + rows, chunk.file

    def rows(self, name: str, offsets: Shape, sizes: Shape, width: int) -> list[int]:
        """The rows into which a chunk is cut so that each piece is in one earlier chunk.

        ``width`` is the size of a value in bytes.
        """
        if not sizes:
            return [1]
        first, end = offsets[0], offsets[0] + sizes[0]
        row = max(1, math.prod(sizes[1:]) * width)
        ends = {a for pair in self._beside(name, offsets, sizes) for a in pair[:2]}
        cuts = [first]
        for cut in sorted(ends):
            is_far = (cut - cuts[-1]) * row >= _CUT_MIN and (end - cut) * row >= _CUT_MIN
            if is_far and len(cuts) < _CUTS_MAX:
                cuts.append(cut)
        return [b - a for a, b in zip(cuts, [*cuts[1:], end], strict=True)]

    def like(self, chunks: Iterable[tuple[str, Chunk]]) -> list[str]:
        """The files that hold the most of these chunks, each given with the name of its tensor."""
        held: Counter[str] = Counter()
        for name, chunk in chunks:
            offsets, sizes = chunk.offsets, chunk.sizes
            first = offsets[0] if offsets else 0
            end = first + (sizes[0] if sizes else 1)
            for start, stop, file in self._beside(name, offsets, sizes):
                common = min(end, stop) - max(first, start)
                if common > 0 and file in self._files:
                    held[file] += common * math.prod(sizes[1:])
        return [file for file, _ in held.most_common(_LIKE_MAX)]
