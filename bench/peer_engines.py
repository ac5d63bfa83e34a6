"""The Python peers behind one small interface; one thread each.

An engine gets a list of pieces (numpy arrays of unsigned words, one per tensor) and returns a list
of coded pieces; `decompress` gives a list of outputs back, `as_bytes` turns one into bytes for
the comparison. `prepare` runs before each round and is not timed.
"""

import blosc2
import numpy as np
import openzl.ext as zl
import torch
from pcodec import ChunkConfig, DeltaSpec, ModeSpec, standalone
from zipnn import ZipNN

FULL = 1 << 62
PART = 128 << 20


class Engine:
    """Name, level and the number of bytes to run on."""

    name = level = ""
    sample_len = FULL

    def prepare(self, pieces):
        """Pieces in the form the engine takes."""
        return pieces

    def compress(self, prepared):
        raise NotImplementedError

    def decompress(self, coded):
        raise NotImplementedError

    def as_bytes(self, output):
        return memoryview(output).cast("B")


class Memcpy(Engine):
    """numpy's copy into buffers that are there already."""

    name = "memcpy"

    def prepare(self, pieces):
        if getattr(self, "pieces_id", None) != id(pieces):
            self.pieces_id = id(pieces)
            self.there = [np.ones_like(p) for p in pieces]
            self.back = [np.ones_like(p) for p in pieces]
        return pieces

    def compress(self, prepared):
        for target, piece in zip(self.there, prepared):
            np.copyto(target, piece)
        return self.there

    def decompress(self, coded):
        for target, piece in zip(self.back, coded):
            np.copyto(target, piece)
        return self.back


class Zipnn(Engine):
    """ZipNN in byte format with the tensor's type; it reorders its input in place.

    Hence each round gets a fresh copy, made outside the timing.
    """

    name = "zipnn"
    level = "auto"
    DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "fp8": "float8_e4m3fn"}

    def __init__(self, dtype, **more):
        options = {"bytearray_dtype": self.DTYPES[dtype], "threads": 1, **more}
        self.zipnn = ZipNN(input_format="byte", **options)

    def prepare(self, pieces):
        return [bytearray(p.tobytes()) for p in pieces]

    def compress(self, prepared):
        return [self.zipnn.compress(p) for p in prepared]

    def decompress(self, coded):
        return [self.zipnn.decompress(c) for c in coded]


class ZipnnDelta(Zipnn):
    """ZipNN's delta: XOR with the base, a list of pieces as the others, then the same as above."""

    level = "delta"

    def __init__(self, dtype, base):
        super().__init__(dtype, delta_compressed_type="byte")
        self.base = [p.tobytes() for p in base]

    def compress(self, prepared):
        pairs = zip(prepared, self.base, strict=True)
        return [self.zipnn.compress(p, delta_second_data=b) for p, b in pairs]

    def decompress(self, coded):
        pairs = zip(coded, self.base, strict=True)
        return [self.zipnn.decompress(c, delta_second_data=b) for c, b in pairs]


class OpenZl(Engine):
    """OpenZL: the float cut into exponent (coded) and sign with fraction (stored).

    Where the sign is constant (adam-v) the fraction's bytes are coded too, which saves that bit.
    f16 goes in byte planes: its 11 bits of sign and fraction would be stored as 16, and packing
    them is slower and larger. Checksums are off, since our blocks have none of their own either.
    """

    name = "openzl"
    NODES = {
        "bf16": zl.nodes.BFloat16Deconstruct,
        "f32": zl.nodes.Float32Deconstruct,
    }
    OFF = 2

    def __init__(self, dtype, coder, unsigned):
        self.level = coder.__name__.lower()
        self.compressor = zl.Compressor()
        self.compressor.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
        self.compressor.set_parameter(zl.CParam.ContentChecksum, self.OFF)
        self.compressor.set_parameter(zl.CParam.CompressedChecksum, self.OFF)
        self.compressor.select_starting_graph(self.graph(dtype, coder, unsigned))
        self.cctx, self.dctx = zl.CCtx(), zl.DCtx()

    def graph(self, dtype, coder, unsigned):
        coded = coder()(self.compressor)
        planes = zl.nodes.TransposeSplit()(self.compressor, coded)
        if dtype == "fp8":
            return zl.nodes.ConvertNumToSerialLE()(self.compressor, coded)
        if dtype == "f16":
            return zl.nodes.ConvertNumToStructLE()(self.compressor, planes)
        fraction = planes if unsigned else zl.graphs.Store()(self.compressor)
        return self.NODES[dtype]()(self.compressor, sign_frac=fraction, exponent=coded)

    def compress_piece(self, piece):
        self.cctx.ref_compressor(self.compressor)  # A context forgets it after each frame.
        return self.cctx.compress([zl.Input(zl.Type.Numeric, piece)])

    def compress(self, prepared):
        return [self.compress_piece(p) for p in prepared]

    def decompress(self, coded):
        return [self.dctx.decompress(c)[0] for c in coded]

    def as_bytes(self, output):
        return memoryview(np.ascontiguousarray(output.content.as_nparray())).cast("B")


class Blosc2(Engine):
    """blosc2 chunks; it can fill an output that is there already."""

    name = "blosc2"

    def __init__(self, level, codec, clevel, shuffle):
        self.level = level
        self.sample_len = FULL if codec == blosc2.Codec.LZ4 else PART
        self.options = {"codec": codec, "clevel": clevel, "filters": [shuffle], "nthreads": 1}
        self.dparams = blosc2.DParams(nthreads=1)

    def prepare(self, pieces):
        if getattr(self, "pieces_id", None) != id(pieces):
            self.pieces_id = id(pieces)
            self.outputs = [np.ones_like(p) for p in pieces]
        return pieces

    def compress(self, prepared):
        cparams = blosc2.CParams(typesize=prepared[0].itemsize, **self.options)
        return [blosc2.compress2(p, cparams=cparams) for p in prepared]

    def decompress(self, coded):
        for output, piece in zip(self.outputs, coded):
            blosc2.decompress2(piece, dst=output, dparams=self.dparams)
        return self.outputs


class Pcodec(Engine):
    """pcodec's own file format; bf16 and fp8 as unsigned integers, it has no such floats."""

    name = "pcodec"
    sample_len = PART
    VIEWS = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32, "fp8": np.uint8}

    def __init__(self, dtype, level):
        self.level = str(level)
        self.view = self.VIEWS[dtype]
        # Neighbours in a weight tensor are unrelated: searching for deltas would only cost time.
        options = {"mode_spec": ModeSpec.classic(), "delta_spec": DeltaSpec.no_op()}
        self.config = ChunkConfig(compression_level=level, enable_8_bit=True, **options)

    def prepare(self, pieces):
        if getattr(self, "pieces_id", None) != id(pieces):
            self.pieces_id = id(pieces)
            self.outputs = [np.ones_like(p).view(self.view) for p in pieces]
        return [p.view(self.view) for p in pieces]

    def compress(self, prepared):
        return [standalone.simple_compress(p, self.config) for p in prepared]

    def decompress(self, coded):
        for output, piece in zip(self.outputs, coded):
            standalone.simple_decompress_into(piece, output)
        return self.outputs


def blosc2_engines():
    """Three of a grid of codecs, levels and filters: smallest, in between, fastest."""
    zstd, lz4 = blosc2.Codec.ZSTD, blosc2.Codec.LZ4
    shuffle, bitshuffle = blosc2.Filter.SHUFFLE, blosc2.Filter.BITSHUFFLE
    return [
        Blosc2("shuf+zstd1", zstd, 1, shuffle),
        Blosc2("bits+zstd1", zstd, 1, bitshuffle),
        Blosc2("bits+lz4", lz4, 5, bitshuffle),
    ]


def all_engines(dtype, unsigned):
    """Every peer for values of this type; `unsigned` says that the sign never varies."""
    torch.set_num_threads(1)
    blosc2.set_nthreads(1)
    return [
        Memcpy(),
        Zipnn(dtype),
        OpenZl(dtype, zl.graphs.Huffman, unsigned),
        OpenZl(dtype, zl.graphs.Fse, unsigned),
        *blosc2_engines(),
        Pcodec(dtype, 4),
        Pcodec(dtype, 8),
    ]
