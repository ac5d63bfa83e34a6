"""Section 7.4 of docs/format.md: items, what they are made of and their hashes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from arrange import MAX_STRETCHES, Order, Stretch
from hashes import HASH_LEN, hash_of
from reader import Reader, inside, require

ANY_FILE, SAFETENSORS, ARRANGED = range(3)


@dataclass(frozen=True)
class Item:
    """A part of the original with a hash of its own."""

    before: int
    length: int
    hash: bytes


def read_items(reader: Reader, kind: int) -> tuple[Item, ...]:
    """Section 7.2: the items and their number."""
    count = reader.varint()
    if kind == ARRANGED:
        require(count <= 1 + MAX_STRETCHES, f"original has {count - 1} stretches")
    return tuple(read_item(reader, number, kind) for number in range(count))


def read_item(reader: Reader, number: int, kind: int) -> Item:
    """An item."""
    with inside(f"item {number}"):
        is_stretch = kind == ARRANGED and number > 0
        before = reader.varint() if is_stretch else 0
        length = reader.varint()
        require(length > 0 or not is_stretch, "stretch has no bytes")
        return Item(before, length, reader.take(HASH_LEN))


def check_item_count(kind: int, count: int) -> None:
    """How many items there are."""
    if kind == ANY_FILE:
        require(count == 1, f"kind 0 has one item, not {count}")
    missing = "safetensors header" if kind == SAFETENSORS else "bytes outside of stretches"
    require(count > 0, f"kind {kind} has no item for the {missing}")


def order_of_items(items: Sequence[Item]) -> Order:
    """Section 7.6: all items but the first are stretches."""
    return Order(tuple(Stretch(item.before, item.length) for item in items[1:]))


def bounds(lengths: Sequence[int]) -> list[int]:
    """Where parts that stand back to back start, and where the last one ends."""
    return list(accumulate(lengths, initial=0))


def spans_that_meet(span_bounds: list[int], start: int, end: int) -> range:
    """The spans that a range meets. One of no bytes meets at most one."""
    first = bisect_right(span_bounds, start) - 1
    last = first
    while last < len(span_bounds) - 1 and span_bounds[last] < end:
        last += 1
    return range(first, last)


def check_items_meet_spans(items: Sequence[Item], span_lens: Sequence[int]) -> None:
    """An item lies in one span or is made of whole spans."""
    span_bounds = bounds(span_lens)
    item_bounds = bounds([item.length for item in items])
    for number in range(len(items)):
        start, end = item_bounds[number], item_bounds[number + 1]
        met = spans_that_meet(span_bounds, start, end)
        whole = len(met) < 2 or (span_bounds[met.start], span_bounds[met.stop]) == (start, end)
        require(whole, f"item {number} cuts a span and continues in another")


def check_item_hashes(items: Sequence[Item], spans: Sequence[bytes], data: bytes) -> None:
    """The hash of each item, where `data` are the bytes of all spans."""
    span_bounds = bounds([len(span) for span in spans])
    item_bounds = bounds([item.length for item in items])
    for number, item in enumerate(items):
        start, end = item_bounds[number], item_bounds[number + 1]
        met = spans_that_meet(span_bounds, start, end)
        hashed = data[start:end]
        if len(met) > 1:
            hashed = b"".join(hash_of(spans[place]) for place in met)
        check_hash(hashed, item.hash, f"item {number}")


def check_hash(data: bytes, expected: bytes, what: str) -> None:
    """Reject a file in which the hash of a part is wrong."""
    require(hash_of(data) == expected, f"hash of {what} is wrong")
