"""Blocks by bins whose symbols are coded by context, made by a tiny encoder from docs/format.md,
section 5.7, that shares no code with contexts.py."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bin_builders import BinSpec, Coded
from builders import Rans, bit_string, rans_stream

EXCEPTION = 0x40


@dataclass
class Table:
    """A table: frequencies by symbol, of which some may be 0, and how it is written."""

    frequencies: dict[int, int]
    low_bits: int = 3

    def steps(self, flip: int) -> range:
        """The steps that have symbols, on both sides of those between them."""
        steps = [step for step in range(-63, 64) if step % 256 ^ flip in self.frequencies]
        return range(steps[0], steps[-1] + 1) if steps else range(0)

    @property
    def parameters(self) -> bytes:
        symbols = [step % 256 for step in self.steps(0)]
        symbols += [step % 256 ^ 0x80 for step in self.steps(0x80)]
        written = [self.frequencies.get(symbol, 0) for symbol in [*symbols, EXCEPTION]]
        heads = [bytes([steps.start % 256, len(steps)]) for steps in map(self.steps, (0, 0x80))]
        return b"".join(heads) + bytes([self.low_bits]) + numbers(written, self.low_bits)


def numbers(frequencies: Sequence[int], low_bits: int) -> bytes:
    """The string of frequencies."""
    fields: list[tuple[int, int]] = []
    for before, frequency in zip([0, *frequencies], frequencies, strict=False):
        apart = frequency - before
        number = 2 * apart if apart >= 0 else -2 * apart | 1
        fields += [(0, 1)] * (number >> low_bits) + [(1, 1)]
        fields.append((number & (1 << low_bits) - 1, low_bits))
    return bit_string(fields)


@dataclass
class ContextSpec(BinSpec):
    """A recipe by bins with a table for each context."""

    context_bounds: bytes = b""
    tables: Sequence[Table] = ()

    def recipe(self) -> bytes:
        plain = super().recipe()
        head = plain[: len(plain) - len(self.coder.parameters)]
        contexts = bytes([10, len(self.tables)]) + self.context_bounds
        return head + contexts + b"".join(table.parameters for table in self.tables)

    def symbols(self, parts: list[Coded]) -> bytes:
        """Section 5.7: one state for each lane, and the table of each symbol's context."""
        states, words = [1 << 16] * 32, []
        for i in reversed(range(len(parts))):
            table = Rans(self.tables[self.context(parts[i])].frequencies)
            x, f = states[i % 32], table.frequencies[parts[i].symbol]
            below = [f for symbol, f in table.frequencies.items() if symbol < parts[i].symbol]
            if x >= f << 20:
                words.append(x & 0xFFFF)
                x >>= 16
            states[i % 32] = (x // f << 12) + sum(below) + x % f
        return rans_stream(states, words[::-1])

    def context(self, part: Coded) -> int:
        """How many bounds the bin of a value has reached."""
        return len([bound for bound in self.context_bounds if bound <= part.number])


def fitted(spec: ContextSpec, parts: list[Coded], rng: random.Random) -> list[Table]:
    """A table for each context that has all of its symbols, and some that do not come."""
    counts: list[Counter[int]] = [Counter({EXCEPTION: 1, 0: 1}) for _ in range(16)]
    for part in parts:
        counts[spec.context(part)][part.symbol] += 1
    tables = []
    for own in counts[: len(spec.context_bounds) + 1]:
        total = sum(own.values())
        frequencies = {s: max(1, count * 3000 // total) for s, count in sorted(own.items())}
        frequencies[EXCEPTION] += 4096 - sum(frequencies.values())
        tables.append(Table(frequencies, rng.randrange(13)))
    return tables
