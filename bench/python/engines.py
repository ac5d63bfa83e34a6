"""What memory.py measures: one bf16 tensor to coded bytes and back, by lmckpt, ZipNN and OpenZL.

`prepare` runs before each round and is not timed.
"""

from __future__ import annotations

import sys
from typing import Any

import lmckpt
import numpy as np
import torch

OPENZL_LEN = 4 << 20


def words(tensor: torch.Tensor) -> np.ndarray:
    """The bits of a bf16 tensor."""
    return tensor.view(torch.uint16).numpy()


class Engine:
    """Name, threads, and what was measured."""

    def __init__(self, name: str, threads: int) -> None:
        self.name, self.threads = name, threads
        self.compress_s = self.decompress_s = float("inf")
        self.size = 0

    def prepare(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor as the engine takes it."""
        torch.set_num_threads(self.threads)
        return tensor

    def compress(self, tensor: torch.Tensor) -> list[Any]:
        """The tensor as coded buffers."""
        raise NotImplementedError

    def decompress(self, coded: list[Any], out: torch.Tensor) -> list[np.ndarray]:
        """The tensor again, in pieces: `out`, unless the engine can only make new memory."""
        raise NotImplementedError


class Copy(Engine):
    """torch's copy into memory that is there already."""

    def __init__(self, tensor: torch.Tensor, threads: int) -> None:
        super().__init__("memcpy", threads)
        self.there = torch.ones_like(tensor)

    def compress(self, tensor: torch.Tensor) -> list[Any]:
        return [words(self.there.copy_(tensor))]

    def decompress(self, coded: list[Any], out: torch.Tensor) -> list[np.ndarray]:
        return [words(out.copy_(self.there))]


class Lmckpt(Engine):
    """Ours. Coded bytes are new memory, or go to `room`, which is used again."""

    def __init__(self, level: str, threads: int, room: bytearray | None = None) -> None:
        super().__init__(f"lmckpt {level}" + (", into=" if room else ""), threads)
        self.level, self.room = level, room

    def compress(self, tensor: torch.Tensor) -> list[Any]:
        # The others do not decode and compare what they have coded either.
        options = {"level": self.level, "threads": self.threads, "verify": False}
        return [lmckpt.compress(tensor, into=self.room, **options)]

    def decompress(self, coded: list[Any], out: torch.Tensor) -> list[np.ndarray]:
        lmckpt.decompress(coded[0], into=out, threads=self.threads)
        return [words(out)]


class Zipnn(Engine):
    """ZipNN on a tensor, with all else as it is by default.

    It reorders the tensor that it is given in place, so that each round gets a copy of its own.
    """

    def __init__(self, threads: int) -> None:
        from zipnn import ZipNN

        super().__init__("ZipNN", threads)
        self.zipnn = ZipNN(input_format="torch", threads=threads)

    def prepare(self, tensor: torch.Tensor) -> torch.Tensor:
        return super().prepare(tensor).clone()

    def compress(self, tensor: torch.Tensor) -> list[Any]:
        return [self.zipnn.compress(tensor)]

    def decompress(self, coded: list[Any], out: torch.Tensor) -> list[np.ndarray]:
        return [words(self.zipnn.decompress(coded[0]))]


class OpenZl(Engine):
    """OpenZL: the exponent apart, by Huffman; sign and fraction stored, checksums on as by default.

    It has no setting for threads, and Python threads do not help: it holds the interpreter's lock.
    Pieces of 4 MiB, since the whole tensor in one call is slower by half.
    """

    def __init__(self) -> None:
        import openzl.ext as zl

        super().__init__("OpenZL Huffman", 1)
        self.zl = zl
        self.compressor = zl.Compressor()
        self.compressor.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
        graph = zl.nodes.BFloat16Deconstruct()(
            self.compressor, sign_frac=zl.graphs.Store(), exponent=zl.graphs.Huffman()
        )
        self.compressor.select_starting_graph(graph)
        self.cctx, self.dctx = zl.CCtx(), zl.DCtx()

    def compress(self, tensor: torch.Tensor) -> list[Any]:
        count = -(-tensor.nbytes // OPENZL_LEN)
        return [self.compress_piece(piece) for piece in np.array_split(words(tensor), count)]

    def compress_piece(self, piece: np.ndarray) -> bytes:
        self.cctx.ref_compressor(self.compressor)  # A context forgets it after each frame.
        return self.cctx.compress([self.zl.Input(self.zl.Type.Numeric, piece)])

    def decompress(self, coded: list[Any], out: torch.Tensor) -> list[np.ndarray]:
        return [self.dctx.decompress(piece)[0].content.as_nparray() for piece in coded]


def all_engines(tensor: torch.Tensor, threads: list[int]) -> list[Engine]:
    """Every engine that is installed, with each number of threads that it takes."""
    engines: list[Engine] = []
    room = bytearray(tensor.nbytes + tensor.nbytes // 1000 + (1 << 16))
    for count in threads:
        engines += [Copy(tensor, count), Lmckpt("default", count), Lmckpt("fast", count)]
        engines += [Lmckpt("default", count, room)]
        engines += _installed("zipnn", lambda count=count: Zipnn(count))
    return engines + _installed("openzl", OpenZl)


def _installed(package: str, make: Any) -> list[Engine]:
    try:
        return [make()]
    except ImportError as error:
        print(f"{package} is left out: {error}", file=sys.stderr)
        return []
