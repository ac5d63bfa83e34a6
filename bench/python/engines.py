"""Everything that peers.py, pairs.py and memory.py compare, behind one small interface.

An engine gets a list of pieces (numpy arrays of unsigned words, one per tensor) and returns a list
of coded pieces. `decompress` gives a list of outputs back: those that it was given to fill, or new
memory if the engine can make nothing else. `as_bytes` turns one into bytes for the comparison.
`cut` and `prepare` run before each round and are not timed.

Packages are imported by the engines that need them: no program needs all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

FULL = 1 << 62
PART = 128 << 20
Pieces = list[np.ndarray]


class Engine:
    """Name, level, threads, and the number of bytes to run on."""

    name = level = ""
    threads = 1
    sample_len = FULL

    def cut(self, pieces: Pieces) -> Pieces:
        """Pieces of the size that suits the engine."""
        return pieces

    def prepare(self, pieces: Pieces) -> list[Any]:
        """Pieces in the form that the engine takes."""
        return pieces

    def compress(self, prepared: list[Any]) -> list[Any]:
        """The pieces as coded buffers."""
        raise NotImplementedError

    def decompress(self, coded: list[Any], outs: Pieces) -> list[Any]:
        """The pieces again: `outs`, which are as long as they are, or new memory."""
        raise NotImplementedError

    def as_bytes(self, output: Any) -> memoryview:
        """The bytes of an output."""
        return memoryview(output).cast("B")


class Memcpy(Engine):
    """numpy's copy into existing buffers."""

    name = "memcpy"

    def prepare(self, pieces: Pieces) -> list[Any]:
        if getattr(self, "pieces_id", None) != id(pieces):
            self.pieces_id = id(pieces)
            self.there = [np.ones_like(p) for p in pieces]
        return pieces

    def compress(self, prepared: list[Any]) -> list[Any]:
        for target, piece in zip(self.there, prepared):
            np.copyto(target, piece)
        return self.there

    def decompress(self, coded: list[Any], outs: Pieces) -> list[Any]:
        for target, piece in zip(outs, coded):
            np.copyto(target, piece)
        return outs


class TorchCopy(Engine):
    """torch's copy of one piece into existing memory."""

    name = "memcpy"

    def __init__(self, size: int, threads: int) -> None:
        self.threads = threads
        self.there = np.ones(size // 2, np.uint16)

    def compress(self, prepared: list[Any]) -> list[Any]:
        _bf16(self.there).copy_(_bf16(prepared[0]))
        return [self.there]

    def decompress(self, coded: list[Any], outs: Pieces) -> list[Any]:
        _bf16(outs[0]).copy_(_bf16(coded[0]))
        return outs


class Lmckpt(Engine):
    """Ours. Coded bytes are new memory, or go to `room`, which is reused."""

    name = "lmckpt"

    def __init__(self, level: str, threads: int, room: bytearray | None = None) -> None:
        import lmckpt

        self.lmckpt, self.level, self.threads, self.room = lmckpt, level, threads, room

    def compress(self, prepared: list[Any]) -> list[Any]:
        # The others do not decode and compare what they have coded either.
        options = {"level": self.level, "threads": self.threads, "verify": False}
        return [self.lmckpt.compress(p, into=self.room, **options) for p in prepared]

    def decompress(self, coded: list[Any], outs: Pieces) -> list[Any]:
        for piece, out in zip(coded, outs):
            self.lmckpt.decompress(piece, into=out, threads=self.threads)
        return outs


class Zipnn(Engine):
    """ZipNN in byte format with the tensor's type; it reorders its input in place.

    Hence each round gets a fresh copy, made outside the timing.
    """

    name = "zipnn"
    level = "auto"
    DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "fp8": "float8_e4m3fn"}

    def __init__(self, dtype: str, **more: Any) -> None:
        from zipnn import ZipNN

        options = {"bytearray_dtype": self.DTYPES[dtype], "threads": 1, **more}
        self.zipnn = ZipNN(input_format="byte", **options)

    def prepare(self, pieces: Pieces) -> list[Any]:
        return [bytearray(p.tobytes()) for p in pieces]

    def compress(self, prepared: list[Any]) -> list[Any]:
        return [self.zipnn.compress(p) for p in prepared]

    def decompress(self, coded: list[Any], outs: Pieces) -> list[Any]:
        return [self.zipnn.decompress(c) for c in coded]


class ZipnnTorch(Zipnn):
    """ZipNN on tensors of bf16, with all else as it is by default; each round gets a copy too."""

    def __init__(self, threads: int) -> None:
        from zipnn import ZipNN

        self.threads = threads
        self.zipnn = ZipNN(input_format="torch", threads=threads)

    def prepare(self, pieces: Pieces) -> list[Any]:
        return [_bf16(p).clone() for p in pieces]

    def as_bytes(self, output: Any) -> memoryview:
        import torch

        return super().as_bytes(output.view(torch.uint16).numpy())


class ZipnnDelta(Zipnn):
    """ZipNN's delta: XOR with the base, a list of pieces as the others, then the same as above."""

    level = "delta"

    def __init__(self, dtype: str, base: Pieces) -> None:
        super().__init__(dtype, delta_compressed_type="byte")
        self.base = [p.tobytes() for p in base]

    def compress(self, prepared: list[Any]) -> list[Any]:
        pairs = zip(prepared, self.base, strict=True)
        return [self.zipnn.compress(p, delta_second_data=b) for p, b in pairs]

    def decompress(self, coded: list[Any], outs: Pieces) -> list[Any]:
        pairs = zip(coded, self.base, strict=True)
        return [self.zipnn.decompress(c, delta_second_data=b) for c, b in pairs]


class OpenZl(Engine):
    """OpenZL: the float cut into exponent (coded) and sign with fraction (stored).

    Where the sign is constant (adam-v) the fraction's bytes are coded too, which saves that bit.
    f16 goes in byte planes: its 11 bits of sign and fraction would be stored as 16, and packing
    them is slower and larger.

    It has no setting for threads, and Python threads do not help: it holds the interpreter's lock.
    """

    name = "openzl"
    NODES = {"bf16": "BFloat16Deconstruct", "f32": "Float32Deconstruct"}
    OFF = 2

    def __init__(self, dtype: str, coder: str, unsigned: bool = False) -> None:
        import openzl.ext as zl

        self.zl = zl
        self.level = coder.lower()
        self.compressor = zl.Compressor()
        self.compressor.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
        self.compressor.select_starting_graph(self.graph(dtype, coder, unsigned))
        self.cctx, self.dctx = zl.CCtx(), zl.DCtx()

    def without_checksums(self) -> OpenZl:
        """The same without checksums: our blocks have none of their own either."""
        self.compressor.set_parameter(self.zl.CParam.ContentChecksum, self.OFF)
        self.compressor.set_parameter(self.zl.CParam.CompressedChecksum, self.OFF)
        return self

    def graph(self, dtype: str, coder: str, unsigned: bool) -> Any:
        nodes, graphs = self.zl.nodes, self.zl.graphs
        coded = getattr(graphs, coder)()(self.compressor)
        planes = nodes.TransposeSplit()(self.compressor, coded)
        if dtype == "fp8":
            return nodes.ConvertNumToSerialLE()(self.compressor, coded)
        if dtype == "f16":
            return nodes.ConvertNumToStructLE()(self.compressor, planes)
        fraction = planes if unsigned else graphs.Store()(self.compressor)
        node = getattr(nodes, self.NODES[dtype])
        return node()(self.compressor, sign_frac=fraction, exponent=coded)

    def compress_piece(self, piece: np.ndarray) -> bytes:
        self.cctx.ref_compressor(self.compressor)  # A context forgets it after each frame.
        return self.cctx.compress([self.zl.Input(self.zl.Type.Numeric, piece)])

    def compress(self, prepared: list[Any]) -> list[Any]:
        return [self.compress_piece(p) for p in prepared]

    def decompress(self, coded: list[Any], outs: Pieces) -> list[Any]:
        return [self.dctx.decompress(c)[0] for c in coded]

    def as_bytes(self, output: Any) -> memoryview:
        return super().as_bytes(np.ascontiguousarray(output.content.as_nparray()))


class OpenZlPieces(OpenZl):
    """The same in pieces of 4 MiB, since a large tensor in one call is slower by half."""

    PIECE_LEN = 4 << 20

    def cut(self, pieces: Pieces) -> Pieces:
        count = [-(-p.nbytes // self.PIECE_LEN) for p in pieces]
        return [part for p, n in zip(pieces, count) for part in np.array_split(p, n)]


class Blosc2(Engine):
    """blosc2 chunks; it can fill an existing output."""

    name = "blosc2"

    def __init__(self, level: str, codec: str, clevel: int, shuffle: str) -> None:
        import blosc2

        self.blosc2, self.level = blosc2, level
        self.sample_len = FULL if codec == "LZ4" else PART
        self.options = {
            "codec": blosc2.Codec[codec],
            "clevel": clevel,
            "filters": [blosc2.Filter[shuffle]],
            "nthreads": 1,
        }
        self.dparams = blosc2.DParams(nthreads=1)

    def compress(self, prepared: list[Any]) -> list[Any]:
        cparams = self.blosc2.CParams(typesize=prepared[0].itemsize, **self.options)
        return [self.blosc2.compress2(p, cparams=cparams) for p in prepared]

    def decompress(self, coded: list[Any], outs: Pieces) -> list[Any]:
        for output, piece in zip(outs, coded):
            self.blosc2.decompress2(piece, dst=output, dparams=self.dparams)
        return outs


class Pcodec(Engine):
    """pcodec's own file format; bf16 and fp8 as unsigned integers, it has no such floats."""

    name = "pcodec"
    sample_len = PART
    VIEWS = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32, "fp8": np.uint8}

    def __init__(self, dtype: str, level: int) -> None:
        from pcodec import ChunkConfig, DeltaSpec, ModeSpec, standalone

        self.standalone, self.level = standalone, str(level)
        self.view = self.VIEWS[dtype]
        # Neighbours in a weight tensor are unrelated: searching for deltas would only cost time.
        options = {"mode_spec": ModeSpec.classic(), "delta_spec": DeltaSpec.no_op()}
        self.config = ChunkConfig(compression_level=level, enable_8_bit=True, **options)

    def prepare(self, pieces: Pieces) -> list[Any]:
        return [p.view(self.view) for p in pieces]

    def compress(self, prepared: list[Any]) -> list[Any]:
        return [self.standalone.simple_compress(p, self.config) for p in prepared]

    def decompress(self, coded: list[Any], outs: Pieces) -> list[Any]:
        for output, piece in zip(outs, coded):
            self.standalone.simple_decompress_into(piece, output.view(self.view))
        return outs


def peers(dtype: str, unsigned: bool) -> list[Engine]:
    """Every peer for values of this type, one thread; `unsigned` says that the sign never varies.

    Of blosc2, three of a grid of codecs, levels and filters: smallest, in between, fastest.
    """
    import blosc2
    import torch

    torch.set_num_threads(1)
    blosc2.set_nthreads(1)
    return [
        Memcpy(),
        Zipnn(dtype),
        OpenZl(dtype, "Huffman", unsigned).without_checksums(),
        OpenZl(dtype, "Fse", unsigned).without_checksums(),
        Blosc2("shuf+zstd1", "ZSTD", 1, "SHUFFLE"),
        Blosc2("bits+zstd1", "ZSTD", 1, "BITSHUFFLE"),
        Blosc2("bits+lz4", "LZ4", 5, "BITSHUFFLE"),
        Pcodec(dtype, 4),
        Pcodec(dtype, 8),
    ]


def in_memory(size: int, threads: list[int]) -> list[tuple[str, Engine]]:
    """What is installed for one bf16 tensor of `size` bytes, with all threads that it can use.

    Each has the name that it has in the table.
    """
    engines: list[tuple[str, Engine]] = []
    room = bytearray(size + size // 1000 + (1 << 16))
    for count in threads:
        engines.append(("memcpy", TorchCopy(size, count)))
        engines.append(("lmckpt default", Lmckpt("default", count)))
        engines.append(("lmckpt fast", Lmckpt("fast", count)))
        engines.append(("lmckpt default, into=", Lmckpt("default", count, room)))
        engines += _installed("zipnn", "ZipNN", lambda count=count: ZipnnTorch(count))
    openzl = _installed("openzl", "OpenZL Huffman", lambda: OpenZlPieces("bf16", "Huffman"))
    return engines + openzl


def _installed(package: str, name: str, make: Callable[[], Engine]) -> list[tuple[str, Engine]]:
    try:
        return [(name, make())]
    except ImportError as error:
        print(f"{package} is left out: {error}", file=sys.stderr)
        return []


def _bf16(piece: np.ndarray) -> Any:
    """A tensor over the words of a piece."""
    import torch

    return torch.from_numpy(piece).view(torch.bfloat16)
