"""Blocks with recipes by bins for the tests, made by a tiny encoder from docs/format.md,
sections 3.7 and 4.4, that shares no code with bins.py."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from builders import (
    CHAIN,
    SEGMENT_LOG2,
    Apart,
    Coder,
    Gaps,
    Huffman,
    Packed,
    Rans,
    Raw,
    Runs,
    bit_string,
    u16,
    varint,
)
from class_builders import FloatSpec

EVEN = Rans({symbol: 16 for symbol in range(256)})
ALL_CODERS: list[Coder] = [
    Raw(), Packed(255), CHAIN, EVEN, Runs(), Gaps(2), Apart(0, Gaps(1), Raw()),
    Huffman({symbol: 8 for symbol in range(256)}),
]


@dataclass
class Coded:
    """What stands for one value."""

    record: bytes
    symbol: int
    payload: int
    payload_bits: int
    exception: bytes = b""
    number: int = 0


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
    integer: bool = False

    @property
    def layout(self) -> int:
        return 0xD0 | self.width.bit_length() - 1 | self.integer << 3

    def recipe(self) -> bytes:
        out = bytes([self.layout, self.raw_bytes, SEGMENT_LOG2, self.exponent_bits])
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
            return Coded(record, 0x40, 0, shift + flip_bit, top, number)
        flipped = self.flipped(x, b)
        symbol = self.symbol(number, step - centre, flipped and not flip_bit)
        payload = low | (flipped * flip_bit) << shift
        return Coded(record, symbol, payload, shift + flip_bit, number=number)

    def symbol(self, number: int, s: int, f: int | bool) -> int:
        """The symbol of a pair in a bin of this number."""
        if self.rows and -4 <= s <= 3:
            row = self.rows[len([bound for bound in self.bounds if bound <= number])]
            place = row[s % 8 + 8 * f]
            s, f = place % 8 - (8 if place % 8 > 3 else 0), place // 8
        return s % 256 ^ f << 7

    def meant(self, q: int, flipped: int) -> int:
        """What a decoder makes of q, where the top bits differ or not."""
        return q

    def any_part(self, symbol: int, b: int, rng: random.Random) -> tuple[Coded, int]:
        """A symbol with any payload and record, and what it stands for."""
        number = self.bin(b)
        shift, flip_bit, centre = self.bins[number]
        low, flip = rng.randrange(1 << shift), rng.randrange(2) if flip_bit else 0
        record = rng.randbytes(self.raw_bytes)
        payload, payload_bits = low | flip << shift, shift + flip_bit
        half = 1 << 8 * self.raw_bytes - 1 if self.raw_bytes else 0
        rest = int.from_bytes(record, "little") - half
        top = 1 << self.bits - 1
        if symbol == 0x40:
            listed = rng.randbytes(self.width - self.raw_bytes)
            small = ((b + rest) % (1 << 8 * self.raw_bytes)).to_bytes(self.raw_bytes, "little")
            value = int.from_bytes(small + listed, "little")
            return Coded(record, symbol, payload, payload_bits, listed), value
        pairs = [(s, f) for s in range(-64, 64) for f in (0, 1)]
        s, f = next(pair for pair in pairs if self.symbol(number, *pair) == symbol)
        flipped = 0 if self.integer else f ^ flip
        q = self.meant((s + centre) * (1 << shift) + low - (1 << shift) // 2, flipped)
        value = b + q * (1 << 8 * self.raw_bytes) + rest
        if self.integer:
            return Coded(record, symbol, payload, payload_bits), value % (2 * top)
        value = value % top + top * (b // top ^ flipped)
        return Coded(record, symbol, payload, payload_bits), value

    def segment(self, values: list[int], base: list[int]) -> bytes:
        return self.joined([self.coded(x, b) for x, b in zip(values, base, strict=True)])

    def joined(self, parts: list[Coded]) -> bytes:
        """Section 4.4."""
        return self.listed(parts) + self.symbols(parts) + self.payloads(parts)

    def symbols(self, parts: list[Coded]) -> bytes:
        """Section 4.4, 3."""
        return self.coder.stream(bytes(part.symbol for part in parts))

    @staticmethod
    def listed(parts: list[Coded]) -> bytes:
        """Section 4.4, 1 and 2."""
        exceptions = [part.exception for part in parts if part.symbol == 0x40]
        records = b"".join(part.record for part in parts)
        return records + varint(len(exceptions)) + b"".join(exceptions)

    @staticmethod
    def payloads(parts: list[Coded]) -> bytes:
        """Section 4.4, 4."""
        return bit_string([(part.payload, part.payload_bits) for part in parts])


def random_row(rng: random.Random) -> list[int]:
    return rng.sample(range(16), 16)


def random_bounds(rng: random.Random, count: int, reach: int) -> bytes:
    """The bounds between so many rows or contexts, less than `reach`."""
    return bytes(sorted(rng.sample(range(1, reach), max(count - 1, 0))))


def random_fields(rng: random.Random, width: int) -> dict[str, Any]:
    """Floats or integers, with exponents, bins and rows of any kind."""
    bins = []
    integer = rng.random() < 0.3
    for _ in range(rng.choice([1, 2, 5, 32])):
        shift = rng.randrange(9)
        has_flip_bit = not integer and shift < 8 and rng.random() < 0.4
        bins.append((shift, has_flip_bit, rng.randrange(-6, 7)))
    count = rng.choice([0, 1, 2, 8])
    return {
        "integer": integer,
        "bins": bins,
        "bounds": random_bounds(rng, count, 34),
        "rows": [random_row(rng) for _ in range(count)],
        "exponent_bits": rng.randrange(1, min(12, 8 * width)),
        "first": rng.choice([0, 1, 3, 100, 65535]),
    }
