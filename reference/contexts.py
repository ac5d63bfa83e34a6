"""Section 5.7 of docs/format.md: rANS by context.

What goes in is a `Reader`; what comes out are tables and symbols. What is rejected raises
`Corrupt`, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from reader import Reader, require
from streams import Rans, rans_table

BY_CONTEXT = 10
MAX_CONTEXTS = 16
MAX_STEP = 63
MAX_LOW_BITS = 12
SYMBOL_OF_EXCEPTIONS = 0x40


@dataclass(frozen=True)
class ByContext:
    """Tables of rANS; the bounds between their contexts are those of bins."""

    bounds: tuple[int, ...]
    tables: tuple[Rans, ...]


def read_by_context(reader: Reader) -> ByContext:
    """The contexts and their tables, after the id."""
    count = reader.uint(1)
    require(1 <= count <= MAX_CONTEXTS, f"recipe has {count} contexts of symbols")
    bounds = tuple(reader.take(count - 1))
    require(list(bounds) == sorted(set(bounds) - {0}), "bounds do not rise from above 0")
    return ByContext(bounds, tuple(read_context_table(reader) for _ in range(count)))


def read_context_table(reader: Reader) -> Rans:
    """The frequencies of one context."""
    symbols = [step % 256 for step in read_steps(reader)]
    symbols += [step % 256 ^ 0x80 for step in read_steps(reader)]
    low_bits = reader.uint(1)
    require(low_bits <= MAX_LOW_BITS, f"frequencies have {low_bits} low bits")
    bits = Bits(reader)
    frequencies, before = [0] * 256, 0
    for symbol in [*symbols, SYMBOL_OF_EXCEPTIONS]:
        number = bits.number(low_bits)
        before += -(number >> 1) if number & 1 else number >> 1
        require(0 <= before < 4096, "frequency of a context is not from 0 to 4095")
        frequencies[symbol] = before
    require(bits.byte == 0, "padding of frequencies is not zero")
    return rans_table(frequencies)


def read_steps(reader: Reader) -> range:
    """The steps that have symbols, of values that keep their sign or of those that do not."""
    first, count = reader.take(2)
    first -= 256 if first > 127 else 0
    fits = count == 0 or -MAX_STEP <= first and first + count - 1 <= MAX_STEP
    require(fits, f"table has {count} steps from {first} on")
    return range(first, first + count)


class Bits:
    """A string of bits, from bit 0 of each byte up."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.byte = 0
        self.left = 0

    def bit(self) -> int:
        if self.left == 0:
            self.byte, self.left = self.reader.uint(1), 8
        bit = self.byte & 1
        self.byte >>= 1
        self.left -= 1
        return bit

    def number(self, low_bits: int) -> int:
        """Zero bits, a one bit, and so many low bits."""
        high = 0
        while not self.bit():
            high += 1
            require(high << low_bits < 8192, "frequency of a context is not from 0 to 4095")
        return high << low_bits | sum(self.bit() << place for place in range(low_bits))
