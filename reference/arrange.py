"""Section 7.6 of docs/format.md: stretches, the order in which they put bytes, orders of bases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from reader import Reader, inside, require

MAX_STRETCHES = 1 << 20
MAX_STRETCHES_OF_BASES = 1 << 23
MAX_OUTSIDE_LEN = 1 << 26
OWN_ORDER, AS_THIS_FILE = range(2)


@dataclass(frozen=True)
class Stretch:
    """A range of an original, by the bytes between it and the one before it."""

    before: int
    length: int


@dataclass(frozen=True)
class Order:
    """The stretches of an original. Without any, its bytes are in their own order."""

    stretches: tuple[Stretch, ...] = ()

    @cached_property
    def end(self) -> int:
        """Where the last stretch ends."""
        return sum(stretch.before + stretch.length for stretch in self.stretches)

    @cached_property
    def inside_len(self) -> int:
        """The bytes in stretches."""
        return sum(stretch.length for stretch in self.stretches)

    def arrange(self, original: bytes) -> bytes:
        """The arranged bytes: those outside the stretches, then those inside."""
        outside, within = [], []
        pos = 0
        for stretch in self.stretches:
            start = pos + stretch.before
            outside.append(original[pos:start])
            pos = start + stretch.length
            within.append(original[start:pos])
        return b"".join([*outside, original[pos:], *within])

    def restore(self, arranged: bytes) -> bytes:
        """The original whose arranged bytes these are."""
        outside_len = len(arranged) - self.inside_len
        parts = []
        taken, pos = 0, outside_len
        for stretch in self.stretches:
            parts.append(arranged[taken : taken + stretch.before])
            parts.append(arranged[pos : pos + stretch.length])
            taken += stretch.before
            pos += stretch.length
        return b"".join([*parts, arranged[taken:outside_len]])


def check_order_of_file(order: Order, outside_len: int, span_lens: Sequence[int]) -> None:
    """Section 7.6: the first item, which is outside the stretches, and the others, which they are.

    Every stretch takes the bytes before it from the first item.
    """
    require(outside_len <= MAX_OUTSIDE_LEN, f"item 0 has {outside_len} bytes")
    ends_a_span = outside_len in accumulate(span_lens, initial=0)
    require(ends_a_span, "item 0 does not end where a span ends")
    if not order.stretches:
        require(outside_len == 0, "original has bytes, but no stretches")
    before = order.end - order.inside_len
    require(before <= outside_len, f"{before} bytes before stretches, item 0 has {outside_len}")


class OrdersOfBases:
    """The orders of bases, of which some are known only when the items of the file are."""

    def __init__(self) -> None:
        self.orders: list[Order | None] = []
        self.count = 0

    def read(self, reader: Reader, is_arranged: bool) -> None:
        """The order of the next base."""
        order = reader.varint()
        if order in (OWN_ORDER, AS_THIS_FILE):
            can_be_as_this = is_arranged or order == OWN_ORDER
            require(can_be_as_this, "order of this file, which is not arranged")
            self.orders.append(Order() if order == OWN_ORDER else None)
            return
        count = order - 1
        require(count <= MAX_STRETCHES, f"base has {count} stretches")
        self.add_stretches(count)
        self.orders.append(Order(tuple(read_stretch(reader, i) for i in range(count))))

    def add_stretches(self, count: int) -> None:
        """Bound the stretches of all bases together."""
        self.count += count
        require(self.count <= MAX_STRETCHES_OF_BASES, f"bases have {self.count} stretches")

    def known(self, of_file: Order) -> list[Order]:
        """All orders, by that of the file."""
        for order in self.orders:
            if order is None:
                require(len(of_file.stretches) > 0, "order of this file, which has no stretches")
                self.add_stretches(len(of_file.stretches))
        return [of_file if order is None else order for order in self.orders]


def read_stretch(reader: Reader, number: int) -> Stretch:
    """Section 7.6: a stretch of a base."""
    with inside(f"stretch {number}"):
        stretch = Stretch(reader.varint(), reader.varint())
        require(stretch.length > 0, "stretch has no bytes")
        return stretch


def check_order_of_base(order: Order, base_len: int) -> None:
    """Section 7.6: stretches lie within the base, and leave little of it outside."""
    if order.stretches:
        require(order.end <= base_len, f"stretches end at {order.end}, beyond the base")
        outside_len = base_len - order.inside_len
        require(outside_len <= MAX_OUTSIDE_LEN, f"{outside_len} bytes are outside of stretches")
