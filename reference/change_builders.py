"""Blocks with recipes by changes for the tests, made by a tiny encoder from docs/format.md,
sections 3.8 and 4.5, that shares no code with changes.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bin_builders import BinSpec, Coded
from builders import Coder, Raw, bit_string, varint


@dataclass
class ContextSpec:
    """A set of contexts."""

    coders: Sequence[Coder] = field(default_factory=lambda: [Raw()])
    bounds: bytes = b""

    def fields(self) -> bytes:
        coders = b"".join(coder.parameters for coder in self.coders)
        return bytes([len(self.coders)]) + self.bounds + coders


@dataclass
class ChangeSpec(BinSpec):
    """A recipe by changes."""

    changed: ContextSpec = field(default_factory=ContextSpec)
    uncommon: ContextSpec = field(default_factory=ContextSpec)
    lengths: bool = False

    @property
    def layout(self) -> int:
        return 0xE0 | self.width.bit_length() - 1 | self.lengths << 2 | self.integer << 3

    def recipe(self) -> bytes:
        return super().recipe() + self.changed.fields() + self.uncommon.fields()

    def difference(self, x: int, b: int) -> tuple[bytes, int]:
        """Section 3.8: the record and what takes the place of q."""
        record, q = super().difference(x, b)
        leaves_out_zero = self.raw_bytes == 0 and not self.flipped(x, b)
        return record, q - 1 if leaves_out_zero and q > 0 else q

    def meant(self, q: int, flipped: int) -> int:
        return q + 1 if self.raw_bytes == 0 and not flipped and q >= 0 else q

    def context(self, contexts: ContextSpec, b: int) -> int:
        size = min(max(self.exponent(b) - self.first, 0), 255)
        return len([bound for bound in contexts.bounds if bound <= size])

    def flags(self, contexts: ContextSpec, base: list[int], flags: list[bool]) -> bytes:
        """Section 4.5, 1: the streams of the flags of values with this base."""
        out = b""
        for context, coder in enumerate(contexts.coders):
            pairs = zip(base, flags, strict=True)
            own = [flag for b, flag in pairs if self.context(contexts, b) == context]
            stream = coder.stream(bit_string([(flag, 1) for flag in own]))
            out += varint(len(stream)) + stream if self.lengths else stream
        return out

    def segment(self, values: list[int], base: list[int]) -> bytes:
        flags = [x != b for x, b in zip(values, base, strict=True)]
        parts = [self.coded(x, b) for x, b in zip(values, base, strict=True) if x != b]
        return self.laid_out(base, flags, parts, [part.symbol != 0 for part in parts])

    def laid_out(
        self, base: list[int], flags: list[bool], parts: list[Coded], uncommon: list[bool]
    ) -> bytes:
        """Section 4.5: a segment with these flags, and parts for those that are set."""
        out = self.flags(self.changed, base, flags) + self.listed(parts)
        symbols = bytes(part.symbol for part in parts)
        if self.uncommon.coders:
            own = [b for b, flag in zip(base, flags, strict=True) if flag]
            out += self.flags(self.uncommon, own, uncommon)
            symbols = bytes(s for s, flag in zip(symbols, uncommon, strict=True) if flag)
        return out + self.coder.stream(symbols) + self.payloads(parts)
