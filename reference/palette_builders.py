"""Blocks with palettes for the tests, made by a tiny encoder from docs/format.md, sections 3.9 and
4.6, that shares no code with palettes.py."""

from __future__ import annotations

from dataclasses import dataclass, field

from builders import SEGMENT_LOG2, Coder, Raw, u24, values_of, varint, words_of


@dataclass
class PaletteSpec:
    """A palette."""

    width: int
    words: list[int]
    coder: Coder = field(default_factory=Raw)
    segment_log2: int = SEGMENT_LOG2

    def recipe(self) -> bytes:
        head = [0xF0 | self.width.bit_length() - 1, self.segment_log2, len(self.words) - 1]
        return bytes(head) + words_of(self.words, self.width) + self.coder.parameters

    def body(self, raw: bytes) -> bytes:
        """Section 4: the tail, the index and the segments."""
        places = bytes(self.words.index(value) for value in values_of(raw, self.width))
        size = 1 << self.segment_log2
        starts = range(0, len(places), size)
        segments = [self.coder.stream(places[start : start + size]) for start in starts]
        index = b"".join(u24(len(segment)) for segment in segments)
        return raw[len(places) * self.width :] + index + b"".join(segments)

    def block(self, raw: bytes) -> bytes:
        return b"\2" + varint(len(raw)) + self.recipe() + self.body(raw)

    def shared_block(self, raw: bytes) -> bytes:
        return b"\3" + varint(len(raw)) + self.body(raw)
