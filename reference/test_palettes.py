"""Tests of decode.py by docs/format.md, sections 3.9 and 4.6: palettes."""

from __future__ import annotations

import random
import unittest

import decode
from bin_builders import ALL_CODERS
from builders import Constant, Raw, RejectTest, coded, words_of
from palette_builders import PaletteSpec

WIDTHS = (2, 4, 8)


def random_words(rng: random.Random, width: int, count: int) -> list[int]:
    """As many different words, in their order."""
    words: set[int] = set()
    while len(words) < count:
        words.add(rng.randrange(1 << rng.choice([10, 8 * width])))
    return sorted(words)


def random_raw(rng: random.Random, spec: PaletteSpec, count: int) -> bytes:
    """Values of a palette, and a tail."""
    values = words_of(rng.choices(spec.words, k=count), spec.width)
    return values + rng.randbytes(rng.randrange(spec.width))


class Accepts(unittest.TestCase):
    """What decodes."""

    def check(self, spec: PaletteSpec, raw: bytes) -> None:
        self.assertEqual(decode.decode_block(spec.block(raw)), raw)
        self.assertEqual(decode.decode_block(spec.shared_block(raw), spec.recipe()), raw)

    # Section 3.9

    def test_widths_and_counts(self) -> None:
        rng = random.Random(1)
        for width in WIDTHS:
            for count in (2, 3, 16, 255, 256):
                spec = PaletteSpec(width, random_words(rng, width, count))
                self.check(spec, random_raw(rng, spec, 300))

    def test_coders(self) -> None:
        rng = random.Random(2)
        for coder in ALL_CODERS:
            spec = PaletteSpec(4, random_words(rng, 4, 200), coder)
            self.check(spec, random_raw(rng, spec, 700))

    def test_least_and_largest_words(self) -> None:
        for width in WIDTHS:
            words = [0, 1, (1 << 8 * width) - 2, (1 << 8 * width) - 1]
            self.check(PaletteSpec(width, words), words_of(words[::-1], width))

    def test_words_that_no_value_has(self) -> None:
        spec = PaletteSpec(2, [3, 5, 7, 9], Constant(2))
        self.check(spec, words_of([7] * 100, 2))

    # Section 4.6

    def test_segments_and_tails(self) -> None:
        rng = random.Random(3)
        for count in (0, 1, 1023, 1024, 1025, 3000):
            spec = PaletteSpec(8, random_words(rng, 8, 9))
            self.check(spec, random_raw(rng, spec, count))

    def test_a_base_is_ignored(self) -> None:
        spec = PaletteSpec(2, [1, 2])
        raw = words_of([1, 2, 2], 2)
        self.assertEqual(decode.decode_block(spec.block(raw), None, bytes(6)), raw)


class Rejects(RejectTest):
    """Every rule of rejection."""

    def changed(self, place: int, value: int, message: str, width: int = 2) -> None:
        """The recipe of a simple palette with one of its bytes changed."""
        recipe = bytearray(PaletteSpec(width, [1, 2, 3]).recipe())
        recipe[place] = value
        self.recipe(bytes(recipe), message)

    # Section 3.9

    def test_layout(self) -> None:
        for bits in (4, 8, 12):
            self.changed(0, 0xF1 | bits, "bits 2 and 3 of the layout")
        self.changed(0, 0xF0, "a palette of bytes")

    def test_segment_log2(self) -> None:
        for log2 in (0, 9, 19, 255):
            self.changed(1, log2, f"segment_log2 is {log2}")

    def test_count(self) -> None:
        self.changed(2, 0, "a palette of one word")
        self.changed(2, 255, "ends before a field it needs")

    def test_words_are_in_order(self) -> None:
        for width in WIDTHS:
            for words in ([1, 1], [2, 1], [1, 3, 3], [1, 3, 2], [1 << 8 * width - 1, 5]):
                self.recipe(PaletteSpec(width, words).recipe(), "out of order")

    def test_recipe_ends_early(self) -> None:
        recipe = PaletteSpec(4, [1, 2, 3]).recipe()
        for length in range(1, len(recipe)):
            self.recipe(recipe[:length], "ends before a field it needs")

    # Section 4.6

    def test_places(self) -> None:
        recipe = PaletteSpec(2, [4, 5, 6]).recipe()
        for place in (3, 128, 255):
            segment = bytes([0, 1, place, 2])
            self.check(coded(recipe, 8, segment), "a place without a word")
        constant = PaletteSpec(2, [4, 5, 6], Constant(3)).recipe()
        self.check(coded(constant, 8, b""), "a place without a word")

    def test_length_of_segment(self) -> None:
        recipe = PaletteSpec(2, [4, 5], Raw()).recipe()
        self.check(coded(recipe, 4, b"\0"), "ends before a field it needs")
        self.check(coded(recipe, 4, b"\0\1\0"), "left over in the segment")


if __name__ == "__main__":
    unittest.main()
