"""Blocks with recipes by bins for the tests, made by a tiny encoder from docs/format.md,
sections 3.7 and 4.4, that shares no code with bins.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from builders import SEGMENT_LOG2, Coder, Raw, bit_string, u16, varint
from class_builders import FloatSpec


@dataclass
class Coded:
    """What stands for one value."""

    record: bytes
    symbol: int
    payload: int
    payload_bits: int
    exception: bytes = b""


@dataclass
class BinSpec(FloatSpec):
    """A recipe by bins; each bin is (shift, flip bit, centre)."""

    width: int = 2
    raw_bytes: int = 0
    exponent_bits: int = 7
    first: int = 0
    bins: Sequence[tuple[int, bool, int]] = ((0, False, 0),)
    bounds: bytes = b""
    rows: Sequence[Sequence[int]] = ()
    coder: Coder = field(default_factory=Raw)

    def recipe(self) -> bytes:
        layout = 0xD0 | self.width.bit_length() - 1
        out = bytes([layout, self.raw_bytes, SEGMENT_LOG2, self.exponent_bits])
        out += u16(self.first) + bytes([len(self.bins)])
        for shift, flip_bit, centre in self.bins:
            out += bytes([shift | flip_bit << 7, centre % 256])
        out += bytes([len(self.rows)]) + self.bounds
        for row in self.rows:
            out += bit_string([(entry, 4) for entry in row])
        return out + self.coder.parameters

    def bin(self, b: int) -> int:
        return min(max(self.exponent(b) - self.first, 0), len(self.bins) - 1)

    def coded(self, x: int, b: int) -> Coded:
        """Section 3.7, for a value and that of the base."""
        record, q = self.difference(x, b)
        number = self.bin(b)
        shift, flip_bit, centre = self.bins[number]
        step, low = divmod(q + (1 << shift) // 2, 1 << shift)
        if not -56 <= step <= 55:
            top = x.to_bytes(self.width, "little")[self.raw_bytes :]
            return Coded(record, 0x40, 0, shift + flip_bit, top)
        flipped = (x ^ b) >> self.bits - 1
        symbol = self.symbol(number, step - centre, flipped and not flip_bit)
        return Coded(record, symbol, low | (flipped * flip_bit) << shift, shift + flip_bit)

    def symbol(self, number: int, s: int, f: int | bool) -> int:
        """The symbol of a pair in a bin of this number."""
        if self.rows and -4 <= s <= 3:
            row = self.rows[len([bound for bound in self.bounds if bound <= number])]
            place = row[s % 8 + 8 * f]
            s, f = place % 8 - (8 if place % 8 > 3 else 0), place // 8
        return s % 256 ^ f << 7

    def segment(self, values: list[int], base: list[int]) -> bytes:
        return self.joined([self.coded(x, b) for x, b in zip(values, base, strict=True)])

    def joined(self, parts: list[Coded]) -> bytes:
        """Section 4.4."""
        exceptions = [part.exception for part in parts if part.symbol == 0x40]
        out = b"".join(part.record for part in parts)
        out += varint(len(exceptions)) + b"".join(exceptions)
        out += self.coder.stream(bytes(part.symbol for part in parts))
        return out + bit_string([(part.payload, part.payload_bits) for part in parts])
