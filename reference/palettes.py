"""Sections 3.9 and 4.6 of docs/format.md: palettes and their segments.

What goes in is a `Reader`; what comes out are the words of the values. What is rejected raises
`Corrupt`, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from reader import Reader, Words, require
from streams import Coder, read_coder, read_stream


@dataclass(frozen=True)
class Palette:
    """Section 3.9: the fields of a palette."""

    width: int
    segment_log2: int
    words: Words
    coder: Coder


def read_palette(reader: Reader, layout: int) -> Palette:
    """Section 3.9: a palette, after its layout."""
    width = 1 << (layout & 3)
    require(layout & 12 == 0, "bits 2 and 3 of the layout of a palette are not 0")
    require(width > 1, "a palette of bytes")
    segment_log2 = reader.uint(1)
    require(10 <= segment_log2 <= 18, f"segment_log2 is {segment_log2}")
    last = reader.uint(1)
    require(last > 0, "a palette of one word")
    words = np.frombuffer(reader.take(width * (last + 1)), dtype=f"<u{width}").astype(np.uint64)
    require(bool(np.all(words[1:] > words[:-1])), "words of a palette are out of order")
    return Palette(width, segment_log2, words, read_coder(reader))


def read_palette_segment(reader: Reader, palette: Palette, count: int) -> Words:
    """Section 4.6: the `count` values of a segment."""
    places = read_stream(palette.coder, reader, count)
    require(bool(np.all(places < len(palette.words))), "a place without a word")
    return palette.words[places]
