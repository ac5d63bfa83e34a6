"""Blocks with recipes by classes for the tests, made by a tiny encoder from docs/format.md,
sections 3.6 and 4.3, that shares no code with classes.py; and what they have in common with blocks
of section 3.7."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from builders import SEGMENT_LOG2, Coder, Raw, bit_string, u16, u24, values_of, varint, words_of


class FloatSpec:
    """What recipes for floats with a base have in common."""

    width: int
    raw_bytes: int
    exponent_bits: int
    integer: bool = False

    def recipe(self) -> bytes:
        raise NotImplementedError

    def segment(self, values: list[int], base: list[int]) -> bytes:
        raise NotImplementedError

    @property
    def bits(self) -> int:
        return 8 * self.width

    def difference(self, x: int, b: int) -> tuple[bytes, int]:
        """Section 3.6: the record and q."""
        magnitude = (1 << self.bits - (not self.integer)) - 1
        half = 1 << 8 * self.raw_bytes - 1 if self.raw_bytes else 0
        difference = ((x & magnitude) - (b & magnitude) + half) % (1 << self.bits)
        record = (difference % (1 << 8 * self.raw_bytes)).to_bytes(self.raw_bytes, "little")
        rest = self.bits - 8 * self.raw_bytes
        q = difference >> 8 * self.raw_bytes
        return record, q - ((q >> rest - 1) << rest)

    def flipped(self, x: int, b: int) -> int:
        return 0 if self.integer else (x ^ b) >> self.bits - 1

    def exponent(self, b: int) -> int:
        return b >> self.bits - 1 - self.exponent_bits & (1 << self.exponent_bits) - 1

    def body(self, raw: bytes, base: bytes) -> bytes:
        values, others = values_of(raw, self.width), values_of(base, self.width)
        size = 1 << SEGMENT_LOG2
        cuts = [slice(start, start + size) for start in range(0, len(values), size)]
        segments = [self.segment(values[cut], others[cut]) for cut in cuts]
        index = b"".join(u24(len(segment)) for segment in segments)
        return raw[len(values) * self.width :] + index + b"".join(segments)

    def block(self, raw: bytes, base: bytes) -> bytes:
        return b"\2" + varint(len(raw)) + self.recipe() + self.body(raw, base)

    def shared_block(self, raw: bytes, base: bytes) -> bytes:
        return b"\3" + varint(len(raw)) + self.body(raw, base)


@dataclass
class Coded:
    """What stands for one value."""

    record: bytes
    context: int
    symbol: int
    payload: int
    payload_bits: int


@dataclass
class ClassSpec(FloatSpec):
    """A recipe by classes."""

    width: int = 2
    sign: bool = False
    top: bool = False
    raw_bytes: int = 0
    exponent_bits: int = 7
    first: int = 0
    bounds: bytes = b""
    coders: Sequence[Coder] = field(default_factory=lambda: [Raw()])

    @property
    def flip(self) -> int:
        return (self.bits - 8 * self.raw_bytes + 1) << (self.sign + self.top)

    def recipe(self) -> bytes:
        layout = 0xC0 | self.width.bit_length() - 1 | self.sign << 2 | self.top << 3
        out = bytes([layout, self.raw_bytes, SEGMENT_LOG2, self.exponent_bits])
        out += bytes([len(self.coders)]) + u16(self.first) + self.bounds
        return out + b"".join(coder.parameters for coder in self.coders)

    def coded(self, x: int, b: int) -> Coded:
        """Section 3.6, for a value and that of the base."""
        record, q = self.difference(x, b)
        flipped = (x ^ b) >> self.bits - 1
        return Coded(record, self.context(b), *self.symbol(q, bool(flipped)))

    def symbol(self, q: int, flipped: bool) -> tuple[int, int, int]:
        """The symbol, the payload and how many bits that has."""
        size = abs(q)
        symbol = size.bit_length()
        low = max(symbol - 1 - self.top, 0)
        payload, payload_bits = size % (1 << low), low
        if not self.sign and size:
            payload, payload_bits = payload | (q < 0) << low, low + 1
        if self.top:
            symbol = symbol << 1 | (symbol > 1 and size >> symbol - 2 & 1)
        if self.sign:
            symbol = symbol << 1 | (q < 0)
        return symbol + self.flip * flipped, payload, payload_bits

    def context(self, b: int) -> int:
        size = min(max(self.exponent(b) - self.first, 0), 255)
        return len([bound for bound in self.bounds if bound > size])

    def segment(self, values: list[int], base: list[int]) -> bytes:
        parts = [self.coded(x, b) for x, b in zip(values, base, strict=True)]
        streams = b""
        for context, coder in enumerate(self.coders):
            members = bytes(part.symbol for part in parts if part.context == context)
            streams += coder.stream(members)
        return b"".join(part.record for part in parts) + streams + self.strings(parts)

    def strings(self, parts: list[Coded]) -> bytes:
        """Section 4.3, 3."""
        out = b""
        for i in range(self.width - self.raw_bytes):
            here = [min(max(part.payload_bits - 8 * i, 0), 8) for part in parts]
            bits = zip(parts, here, strict=True)
            string = bit_string([(part.payload >> 8 * i & (1 << n) - 1, n) for part, n in bits])
            last = i == self.width - self.raw_bytes - 1
            out += string if last else varint(len(string)) + string
        return out


def near(base: bytes, width: int, seed: int = 1) -> bytes:
    """Values some units away from those of a base: few, many, or with the other sign."""
    rng = random.Random(seed)
    values = []
    for b in values_of(base, width):
        away = (rng.randrange(-1, 2) << rng.randrange(8 * width)) + rng.randrange(-2, 3)
        flip = (rng.random() < 0.1) << 8 * width - 1
        values.append((b + away ^ flip) % (1 << 8 * width))
    return words_of(values, width) + rng.randbytes(len(base) % width)
