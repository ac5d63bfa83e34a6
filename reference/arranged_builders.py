"""Arranged files and orders of bases for the tests, put together by hand from section 7.6.

Shares no code with arrange.py. Stretches are given by where they start and end in an original.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from builders import varint
from file_builders import Span, digest, file_of, item, plain_span

ARRANGED = 2
ORDERS = 64
LEAF = 1 << 16
Ranges = Sequence[tuple[int, int]]

IN_OWN_ORDER = varint(0)
AS_THIS_FILE = varint(1)


def leaves_hash(raw: bytes) -> bytes:
    """Section 7.6: the content hash of any bytes."""
    leaves = [raw[start : start + LEAF] for start in range(0, len(raw), LEAF)]
    return digest(b"".join(map(digest, leaves)))


def gaps(ranges: Ranges) -> list[int]:
    """The bytes between each stretch and the one before it, or before the first one."""
    return [start - end for (_, end), (start, _) in pairwise([(0, 0), *ranges])]


def outside(raw: bytes, ranges: Ranges) -> bytes:
    """The bytes in no stretch."""
    within = {place for start, end in ranges for place in range(start, end)}
    return bytes(byte for place, byte in enumerate(raw) if place not in within)


def arranged(raw: bytes, ranges: Ranges) -> bytes:
    """All bytes in the order of stretches."""
    return outside(raw, ranges) + b"".join(raw[start:end] for start, end in ranges)


def stretch_item(before: int, *spans: bytes) -> bytes:
    """Section 7.4: an item that is a stretch."""
    return varint(before) + item(*spans)


def items_of(raw: bytes, ranges: Ranges) -> list[bytes]:
    """The items of an arranged file, each of which lies in one span."""
    parts = [raw[start:end] for start, end in ranges]
    stretches = map(stretch_item, gaps(ranges), parts)
    return [item(outside(raw, ranges)), *stretches]


def spans_of(raw: bytes, ranges: Ranges) -> list[Span]:
    """A plain span for each item that has bytes."""
    parts = [outside(raw, ranges), *[raw[start:end] for start, end in ranges]]
    return [plain_span(part) for part in parts if part]


def arranged_file(
    raw: bytes,
    ranges: Ranges,
    spans: Sequence[Span] | None = None,
    bases: Sequence[bytes] | None = None,
    has_orders: bool = False,
) -> bytes:
    """A file of kind 2; spans that are not given are plain ones."""
    made = spans_of(raw, ranges) if spans is None else spans
    kind = ARRANGED | (ORDERS if has_orders else 0)
    return file_of(made, items_of(raw, ranges), kind, bases, leaves_hash(raw))


def order_of(ranges: Ranges) -> bytes:
    """Section 7.6: the order of a base, by its stretches."""
    pairs = zip(gaps(ranges), ranges, strict=True)
    fields = [varint(before) + varint(end - start) for before, (start, end) in pairs]
    return varint(1 + len(fields)) + b"".join(fields)


def leaves_base(raw: bytes, name: bytes = b"base") -> bytes:
    """Section 7.5: a base with the content hash that it has in an archive of kind 2."""
    return leaves_hash(raw) + varint(len(raw)) + varint(len(name)) + name
