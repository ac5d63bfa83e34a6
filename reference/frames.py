"""Section 2 of docs/format.md: the body of a block of kind zstd.

What goes in is a `Reader` at the flags; what comes out are the original bytes. The headers of the
frame are read here, by RFC 8878; the package zstandard decodes what they say. What is rejected
raises `Corrupt`, and nothing else.
"""

from __future__ import annotations

import zstandard
from reader import Corrupt, Reader, require

MAX_RAW_LEN = 1 << 22
MAX_FRAME_BLOCK_LEN = 1 << 17
MAGIC = bytes.fromhex("28 b5 2f fd")
WITH_BASE = 1
SINGLE_SEGMENT = 32
RAW, RLE, COMPRESSED = range(3)


def read_zstd_flags(reader: Reader) -> bool:
    """Section 2, zstd: whether the base is used."""
    flags = reader.uint(1)
    require(flags & ~WITH_BASE == 0, "unknown zstd flags")
    return flags == WITH_BASE


def read_frame(reader: Reader, raw_len: int, base: bytes | None) -> bytes:
    """Section 2, zstd: the content of the frame, which is all that is left."""
    require(raw_len <= MAX_RAW_LEN, "a zstd block is larger than 4 mib")
    frame = reader.rest()
    read_frame_header(reader, raw_len)
    while not skip_frame_block(reader, min(raw_len, MAX_FRAME_BLOCK_LEN)):
        pass
    reader.finish("zstd frame")
    dictionary = None
    if base:
        dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    decoder = zstandard.ZstdDecompressor(dict_data=dictionary).decompressobj()
    try:
        raw = decoder.decompress(frame)
    except zstandard.ZstdError as error:
        raise Corrupt(f"zstd frame: {error}".lower().replace("\n", " ")) from None
    require(decoder.eof and len(raw) == raw_len, f"zstd frame gives {len(raw)} bytes")
    return raw


def read_frame_header(reader: Reader, raw_len: int) -> None:
    """RFC 8878, 3.1.1 and 3.1.1.1, with the limits of section 2."""
    require(reader.take(4) == MAGIC, "not the magic number of a zstd frame")
    descriptor = reader.uint(1)
    require(descriptor & 63 == SINGLE_SEGMENT, "zstd frame is not a plain single segment")
    size_bytes = 1 << (descriptor >> 6)
    size = reader.uint(size_bytes) + (256 if size_bytes == 2 else 0)
    require(size == raw_len, f"zstd frame has {size} bytes, the block {raw_len}")


def skip_frame_block(reader: Reader, most: int) -> bool:
    """RFC 8878, 3.1.1.2: one block of the frame; whether it is the last."""
    header = reader.uint(3)
    kind, size = header >> 1 & 3, header >> 3
    require(size <= most, f"zstd frame has a block of {size} bytes")
    require(kind <= COMPRESSED, "zstd frame has a block of a reserved type")
    reader.take(1 if kind == RLE else size)
    return bool(header & 1)
