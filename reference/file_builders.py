"""Whole files for the tests, put together by hand from docs/format.md, sections 6 and 7.

Shares no code with decode_file.py. Every field can be set to what it must not be; the hashes
around it are right nevertheless, so that a test meets the rule it is about and no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import xxhash
from builders import HUFFMAN, TEXT, Raw, Spec, u16, varint, words_of

HEADER = b"\x89LMC\r\n\x1a\n" + u16(1) + bytes(6)
END_MAGIC = b"\nLMC-END"


def u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def digest(data: bytes) -> bytes:
    """Section 7.1. The package gives the number's most significant byte first."""
    return xxhash.xxh3_128_digest(data)[::-1]


def piece(data: bytes) -> bytes:
    """A recipe's or a block's length and hash, as the index has them."""
    return varint(len(data)) + digest(data)


@dataclass
class Span:
    """Section 7.3: a span's original bytes and pieces."""

    raw: bytes
    blocks: Sequence[bytes]
    recipe: bytes = b""
    dtype: int = 0
    block_log2: int = 10
    reference: bytes = b""

    def fields(self) -> bytes:
        dtype = self.dtype | (128 if self.reference else 0)
        out = varint(len(self.raw)) + bytes([dtype, self.block_log2]) + self.reference
        out += piece(self.recipe) if self.recipe else b"\0"
        return out + b"".join(map(piece, self.blocks))

    def pieces(self) -> bytes:
        return self.recipe + b"".join(self.blocks)


def stored(raw: bytes) -> bytes:
    """A stored block."""
    return b"\0" + varint(len(raw)) + raw


def constant(byte: bytes, count: int) -> bytes:
    """A constant block."""
    return b"\1" + varint(count) + b"\1" + byte


def plain_span(raw: bytes) -> Span:
    """A span of one stored block, for up to 1024 bytes."""
    return Span(raw, [stored(raw)])


def item(*spans: bytes) -> bytes:
    """Section 7.4: an item of the original bytes of several spans, or of bytes in one."""
    hashed = spans[0] if len(spans) == 1 else b"".join(map(digest, spans))
    return varint(sum(map(len, spans))) + digest(hashed)


def index_of(
    spans: Sequence[bytes],
    items: Sequence[bytes],
    kind: int = 1,
    bases: Sequence[bytes] | None = None,
    content: bytes = b"",
) -> bytes:
    """Section 7.2, from the fields of spans, items and bases. With orders, these end the bases."""
    counted = content + varint(len(spans)) + b"".join(spans)
    counted += varint(len(items)) + b"".join(items)
    if bases is None:
        return bytes([kind]) + counted
    return bytes([kind | 128]) + varint(len(bases)) + b"".join(bases) + counted


def seal(
    body: bytes,
    index: bytes,
    original_len: int,
    *,
    header: bytes = HEADER,
    body_len: int | None = None,
    index_len: int | None = None,
) -> bytes:
    """Section 6: a file of these parts; lengths not given are the right ones."""
    fields = u64(len(body) if body_len is None else body_len)
    fields += u64(len(index) if index_len is None else index_len)
    fields += digest(index) + u64(original_len)
    return header + body + index + fields + digest(header + fields) + END_MAGIC


def file_of(
    spans: Sequence[Span],
    items: Sequence[bytes],
    kind: int = 1,
    bases: Sequence[bytes] | None = None,
    content: bytes = b"",
) -> bytes:
    """A file of spans and of items, all lengths right."""
    index = index_of([span.fields() for span in spans], items, kind, bases, content)
    return seal(b"".join(s.pieces() for s in spans), index, sum(len(s.raw) for s in spans))


def one_span_file(span: Span, bases: Sequence[bytes] | None = None) -> bytes:
    """A file of any kind, in one span."""
    return file_of([span], [item(span.raw)], kind=0, bases=bases)


def same(count: int) -> bytes:
    """A block that is as its base."""
    return b"\4" + varint(count)


def reference(source: int, start: int = 0, conversion: int = 0) -> bytes:
    """Section 7.5: the reference of a span."""
    return varint(source) + varint(start) + bytes([conversion])


def base_of(raw: bytes, name: bytes = b"base") -> bytes:
    """Section 7.5: a base that is any file of at most 2^23 bytes."""
    return digest(digest(raw)) + varint(len(raw)) + varint(len(name)) + name


def shared_span(count: int) -> Span:
    """Pairs of bytes in blocks of up to 512 values, most coded with the span's recipe."""
    spec = Spec(2, 8, [HUFFMAN, Raw()])
    values = [TEXT[i] << 8 | i % 256 for i in range(count)]
    raw = words_of(values, 2)
    cuts = [raw[start : start + 1024] for start in range(0, len(raw), 1024)]
    blocks = [spec.shared_block(cut) for cut in cuts[:-1]]
    return Span(raw, [*blocks, stored(cuts[-1])], spec.recipe(), dtype=1)


@dataclass
class Sample:
    """A file, its original and its items' hashes in order."""

    file: bytes
    original: bytes
    hashes: bytes


def sample(values: int) -> Sample:
    """Kind 1: every kind of block, and every way an item may lie among the spans."""
    head, small, long = b'\2\0\0\0\0\0\0\0{}', TEXT[:30], b"z" * 1025
    shared = shared_span(values)
    coded = Span(small, [stored(small)], dtype=14)
    runs = Span(long, [constant(b"z", 1024), stored(b"z")], dtype=18)
    inline_raw = TEXT[:1024]
    inline = Span(inline_raw, [Spec(planes=[HUFFMAN]).block(inline_raw)], block_log2=24)
    spans = [plain_span(head), shared, coded, runs, inline]
    items = [item(head), item(b""), item(shared.raw)]
    items += [item(small[:7]), item(b""), item(small[7:])]
    items += [item(long, inline_raw), item(b"")]
    hashes = b"".join(fields[-16:] for fields in items)
    return Sample(file_of(spans, items), b"".join(span.raw for span in spans), hashes)


def small_file() -> bytes:
    """A few hundred bytes with a shared recipe, three spans and an item of two of them."""
    spec = Spec(2, 8, [Raw(), Raw()])
    shared = Span(TEXT[:20], [spec.shared_block(TEXT[:20])], spec.recipe())
    runs = Span(b"z" * 1025, [constant(b"z", 1024), stored(b"z")])
    spans = [plain_span(b"head"), shared, runs]
    return file_of(spans, [item(b"head"), item(shared.raw, runs.raw), item(b"")])
