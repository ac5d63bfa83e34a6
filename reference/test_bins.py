"""Tests of decode.py by docs/format.md, sections 3.7 and 4.4: recipes by bins."""

from __future__ import annotations

import random
import unittest
from typing import Any

import decode
from bin_builders import ALL_CODERS, EVEN, BinSpec, random_fields, random_row
from builders import Apart, Constant, Gaps, Raw, RejectTest, coded, values_of, varint, words_of
from class_builders import near


def random_spec(rng: random.Random, width: int, raw_bytes: int, **changes: Any) -> BinSpec:
    """Bins and rows of any kind."""
    return BinSpec(width, raw_bytes, **{**random_fields(rng, width), **changes})


def by_hand(bins: bytes, segment: bytes, raw_len: int, layout: int = 0xD0, more: int = 0) -> bytes:
    """A block without rows whose exponent has 3 bits and whose symbols are plain bytes; `more` is
    raw_bytes."""
    recipe = bytes([layout, more, 10, 3, 0, 0, len(bins) // 2]) + bins + b"\0\0"
    return coded(recipe, raw_len, segment)


class Accepts(unittest.TestCase):
    """What decodes."""

    def check(self, spec: BinSpec, raw: bytes, base: bytes) -> None:
        self.assertEqual(decode.decode_block(spec.block(raw, base), None, base), raw)

    def hand(
        self, bins: bytes, segment: bytes, raw: bytes, base: bytes, layout: int = 0xD0
    ) -> None:
        block = by_hand(bins, segment, len(raw), layout)
        self.assertEqual(decode.decode_block(block, None, base), raw)

    # Section 3.7

    def test_widths_and_raw_bytes(self) -> None:
        rng = random.Random(1)
        for width in (1, 2, 4, 8):
            for raw_bytes in range(width):
                for _ in range(6):
                    base = rng.randbytes(150 * width)
                    spec = random_spec(rng, width, raw_bytes)
                    with self.subTest(spec=spec):
                        self.check(spec, near(base, width, rng.randrange(99)), base)
                        self.check(spec, rng.randbytes(len(base)), base)

    def test_extreme_values(self) -> None:
        rng = random.Random(2)
        for width in (1, 2, 4, 8):
            top = 1 << 8 * width - 1
            extremes = [0, 1, top - 1, top, top + 1, 2 * top - 1, top >> 1, top >> 1 | top]
            pairs = [(x, b) for x in extremes for b in extremes]
            raw = words_of([x for x, _ in pairs], width)
            base = words_of([b for _, b in pairs], width)
            for raw_bytes in range(width):
                for _ in range(4):
                    spec = random_spec(rng, width, raw_bytes)
                    with self.subTest(spec=spec):
                        self.check(spec, raw, base)

    def test_steps_of_one(self) -> None:
        # k 0: no payload, and d is 0
        self.hand(b"\0\0", b"\0" b"\0\1\xff\5", b"\x10\x11\x0f\x15", b"\x10" * 4)

    def test_steps_of_two(self) -> None:
        # k 1, d 1: -1 and 0 are step 0, 1 is step 1 with payload 0, -2 is step -1 with payload 1
        self.hand(b"\1\0", b"\0" b"\0\0\1\xff" b"\x0a", b"\x0f\x10\x11\x0e", b"\x10" * 4)

    def test_payload_of_eight_bits(self) -> None:
        # k 8, d 128: all of a byte but a sign is payload
        self.hand(b"\x08\0", b"\0" b"\0\0" b"\x80\x7d", b"\x10\x0d", b"\x10\x10")

    def test_centre(self) -> None:
        self.hand(b"\0\6", b"\0" b"\0\xfa", b"\x16\x10", b"\x10\x10")
        self.hand(b"\0\xfa", b"\0" b"\0\6", b"\x0a\x10", b"\x10\x10")

    def test_changed_sign_in_symbol(self) -> None:
        # s 0, 1 and -1 with f
        self.hand(b"\0\0", b"\0" b"\x80\x81\x7f", b"\x90\x11\x8f", b"\x10\x90\x10")

    def test_changed_sign_in_payload(self) -> None:
        # the flip bit stands above the k bits
        self.hand(b"\x80\0", b"\0" b"\0\1\0" b"\3", b"\x90\x91\x10", b"\x10\x10\x10")
        self.hand(b"\x81\0", b"\0" b"\0\0" b"\x03", b"\x90\x0f", b"\x10\x10")

    def test_changed_sign_in_both(self) -> None:
        """An f of 1 in a bin with a flip bit counts too."""
        self.hand(b"\x80\0", b"\0" b"\x80\x80" b"\1", b"\x10\x90", b"\x10\x10")

    def test_bin_by_hand(self) -> None:
        # exponents 0, 1, 2 and 7 less 1: bins 0, 0, 1 and 2, of steps of 1, 2 and 4
        recipe = bytes([0xD0, 0, 10, 3, 1, 0, 3, 0, 0, 1, 0, 2, 0, 0]) + b"\0"
        block = coded(recipe, 4, b"\0" b"\1\1\1\1" b"\5")
        back = decode.decode_block(block, None, b"\x8f\x10\x20\x70")
        # payloads 1 of one bit and 2 of two
        self.assertEqual(back, b"\x90\x11\x22\x74")

    def test_first_above_all_exponents(self) -> None:
        spec = BinSpec(2, first=65535, bins=[(3, True, 1), (0, False, 0)])
        base = random.Random(3).randbytes(500)
        self.check(spec, near(base, 2), base)

    def test_rows_by_hand(self) -> None:
        # the row turns by one: the entry at place p is p + 1
        row = bytes([0x21, 0x43, 0x65, 0x87, 0xA9, 0xCB, 0xED, 0x0F])
        recipe = bytes([0xD0, 0, 10, 3, 0, 0, 1, 0, 0, 1]) + row + b"\0"
        # place 1 is s 0; place 4 is s 3, which -4 stands for; place 8 is s -1, which 0 and f stand
        # for; place 0 is s -1 and f; s 4 and -5 stay
        block = coded(recipe, 6, b"\0" b"\1\xfc\x80\0\4\xfb")
        back = decode.decode_block(block, None, b"\x10" * 6)
        self.assertEqual(back, b"\x10\x13\x0f\x8f\x14\x0b")

    def test_rows_by_bounds(self) -> None:
        """Bins from a bound on have the next row; bounds above the last bin are never reached."""
        swap = [1, 0, *range(2, 16)]
        other = [2, 1, 0, *range(3, 16)]
        bins = [(0, False, 0)] * 8
        spec = BinSpec(
            1, exponent_bits=3, bins=bins, bounds=b"\2\7\xff",
            rows=[list(range(16)), swap, other, swap],
        )
        block = coded(spec.recipe(), 5, b"\0" b"\0\0\0\0\0")
        back = decode.decode_block(block, None, b"\0\x10\x20\x60\x70")
        self.assertEqual(back, b"\0\x10\x21\x61\x72")

    def test_rows_of_one_bin(self) -> None:
        rng = random.Random(4)
        for _ in range(20):
            spec = BinSpec(rows=[random_row(rng)], bins=[(6, False, 0)])
            base = rng.randbytes(400)
            self.check(spec, near(base, 2), base)

    def test_exceptions(self) -> None:
        # steps 55 and -56 are within, 56 and -57 are not
        base = b"\x40" * 4
        raw = bytes([0x40 + 55, 0x40 - 56, 0x40 + 56, 0x40 - 57])
        self.hand(b"\0\0", b"\2" + raw[2:] + bytes([55, 200, 64, 64]), raw, base)
        self.assertEqual(BinSpec(1, exponent_bits=3).segment(list(raw), list(base))[0], 2)

    def test_exception_that_was_not_needed(self) -> None:
        self.hand(b"\0\0", b"\2\x10\x91" b"\x40\x40", b"\x10\x91", b"\x10\x10")

    def test_payload_of_an_exception(self) -> None:
        """It has its bits, whatever they are."""
        for bits in range(4):
            # k 1 and a flip bit: payloads 1, any, and 0
            segment = b"\1\x55" b"\0\x40\0" + bytes([1 | bits << 2])
            self.hand(b"\x81\0", segment, b"\x10\x55\x0f", b"\x10" * 3)

    def test_raw_bytes_of_an_exception(self) -> None:
        # the low byte is the base's plus the record less 128, the high one is listed
        base, raw = words_of([0x1234, 0x1234], 2), words_of([0xABB3, 0x1234], 2)
        block = by_hand(b"\0\0", b"\xff\x80" b"\1\xab" b"\x40\0", 4, layout=0xD1, more=1)
        self.assertEqual(decode.decode_block(block, None, base), raw)

    def test_raw_bytes(self) -> None:
        # 1, -1, 128 and -129, with half of 256 added, are 0, 0, 1 and -1 times 256 and a byte
        base = words_of([0x1000] * 4, 2)
        raw = words_of([0x1001, 0x0FFF, 0x1080, 0x0F7F], 2)
        segment = b"\x81\x7f\0\xff" b"\0" b"\0\0\1\xff"
        block = by_hand(b"\0\0", segment, 8, layout=0xD1, more=1)
        self.assertEqual(decode.decode_block(block, None, base), raw)

    def test_steps_that_no_encoder_writes(self) -> None:
        """Symbols beyond the largest step, and differences that wrap, are cut to a magnitude."""
        # s -64, -63 and 63, centre 6
        self.hand(b"\0\6", b"\0" b"\xc0\xc1\x3f", b"\x26\x27\x45", b"\x60\x60\0")
        # 63 steps of 128 less 64, from 0x10
        self.hand(b"\7\0", b"\0" b"\x3f\x3f" b"\0\0", b"\x50\xd0", b"\x10\x90")

    def test_integers(self) -> None:
        # 127 and 1 more is 128, 0 and 1 less is 255; the exponent is that below the top bit, so
        # 0x80 has bin 0, whose steps are of 2
        self.hand(b"\0\0", b"\0" b"\1\xff\0", b"\x80\xff\x90", b"\x7f\0\x90", layout=0xD8)
        self.hand(b"\1\0\0\0", b"\0" b"\1\1" b"\1", b"\x82\x11", b"\x80\x10", layout=0xD8)

    def test_integers_far_away(self) -> None:
        # 128 above is as far as 128 below
        self.hand(b"\0\0", b"\1\x90" b"\x40", b"\x90", b"\x10", layout=0xD8)
        spec = BinSpec(1, exponent_bits=3, integer=True)
        self.assertEqual(spec.segment([0x90], [0x10]), b"\1\x90" b"\x40")
        wide = BinSpec(1, exponent_bits=3, integer=True, bins=[(8, False, 0)])
        self.assertEqual(wide.segment([0x90, 0x8F], [0x10, 0x10]), b"\0" b"\0\0" b"\0\xff")
        self.check(wide, b"\x90\x8f", b"\x10\x10")

    def test_changed_sign_of_integers(self) -> None:
        """An f of 1 counts as 0."""
        self.hand(b"\0\0", b"\0" b"\x80\x81\x7f", b"\x10\x91\x0f", b"\x10\x90\x10", layout=0xD8)

    def test_integers_with_raw_bytes(self) -> None:
        base, raw = words_of([0x7FFF, 0x0000, 0x1234], 2), words_of([0x8000, 0xFFFF, 0xABB3], 2)
        # 1 above and below, and an exception whose low byte is the base's plus 127
        segment = b"\x81\x7f\xff" b"\1\xab" b"\0\0\x40"
        block = by_hand(b"\0\0", segment, 6, layout=0xD9, more=1)
        self.assertEqual(decode.decode_block(block, None, base), raw)

    def test_all_symbols(self) -> None:
        """Every symbol, in any bin, gives the value that the document says."""
        rng = random.Random(5)
        for width in (1, 2, 4, 8):
            for _ in range(20):
                spec = random_spec(rng, width, rng.randrange(width))
                base = rng.randbytes(256 * width)
                parts, values = [], []
                for symbol, b in enumerate(values_of(base, width)):
                    part, value = spec.any_part(symbol, b, rng)
                    parts.append(part)
                    values.append(value)
                block = coded(spec.recipe(), len(base), spec.joined(parts))
                with self.subTest(spec=spec):
                    back = decode.decode_block(block, None, base)
                    self.assertEqual(back, words_of(values, width))

    # Section 4.4

    def test_coders(self) -> None:
        rng = random.Random(6)
        base = rng.randbytes(2400)
        for coder in ALL_CODERS:
            for raw_bytes in (0, 1):
                spec = random_spec(rng, 2, raw_bytes, coder=coder)
                with self.subTest(spec=spec):
                    self.check(spec, near(base, 2), base)

    def test_constant_symbols(self) -> None:
        base = random.Random(7).randbytes(2600)
        self.check(BinSpec(coder=Constant(0)), base, base)
        flipped = bytes(byte ^ i % 2 << 7 for i, byte in enumerate(base))
        self.check(BinSpec(coder=Constant(0x80)), flipped, base)
        raw = random.Random(8).randbytes(2048)
        block = coded(BinSpec(coder=Constant(0x40)).recipe(), 2048, varint(1024) + raw)
        self.assertEqual(decode.decode_block(block, None, base[:2048]), raw)

    def test_segments_and_tails(self) -> None:
        rng = random.Random(9)
        for width in (1, 2, 4, 8):
            spec = random_spec(rng, width, width // 2)
            for count in (0, 1, 7, 8, 9, 1023, 1024, 1025, 2100):
                for tail in {0, width - 1}:
                    base = rng.randbytes(count * width + tail)
                    self.check(spec, near(base, width), base)

    def test_shared(self) -> None:
        base = random.Random(10).randbytes(3001)
        spec = BinSpec(bins=[(2, True, -1), (5, False, 2)], first=60, coder=EVEN)
        raw = near(base, 2)
        block = spec.shared_block(raw, base)
        self.assertEqual(decode.decode_block(block, spec.recipe(), base), raw)


class Rejects(RejectTest):
    """Every rule of rejection."""

    def refused(self, spec: BinSpec, message: str) -> None:
        self.check(b"\2\0" + spec.recipe(), message, None, b"")
        self.check(b"\3\0", message, spec.recipe(), b"")

    def changed(self, place: int, value: int, message: str, width: int = 2) -> None:
        """The recipe of a simple spec with one of its bytes changed, and a base beside it."""
        recipe = bytearray(BinSpec(width, width // 2).recipe() + bytes(99))
        recipe[place] = value
        self.check(b"\2\0" + recipe, message, None, b"")
        self.check(b"\3\0", message, bytes(recipe), b"")

    # Section 3.7

    def test_layout(self) -> None:
        for bits in (0x04, 0x0C):
            self.changed(0, 0xD1 | bits, "bit 2 of the layout")
        for bits in (0x24, 0x28, 0x2C):
            self.changed(0, 0xD1 | bits, "bits 2 and 3 of the layout of a palette")

    def test_raw_bytes(self) -> None:
        for width, raw_bytes in ((1, 1), (2, 2), (4, 4), (8, 8), (8, 255)):
            self.changed(1, raw_bytes, f"raw_bytes is {raw_bytes}", width)

    def test_segment_log2(self) -> None:
        for log2 in (0, 9, 19, 255):
            self.changed(2, log2, f"segment_log2 is {log2}")

    def test_exponent_bits(self) -> None:
        for width, bits in ((1, 0), (1, 8), (2, 0), (2, 12), (4, 12), (8, 255)):
            self.changed(3, bits, f"exponent_bits is {bits}", width)

    def test_bin_count(self) -> None:
        for count in (0, 33, 255):
            self.changed(6, count, f"recipe has {count} bins")

    def test_payload_bits(self) -> None:
        for shift, flip_bit in ((9, False), (127, False), (8, True), (127, True)):
            bits = shift + flip_bit
            spec = BinSpec(bins=[(0, False, 0), (shift, flip_bit, 0)])
            self.refused(spec, f"payload of a bin has {bits} bits")

    def test_flip_bits_of_integers(self) -> None:
        for shift in (0, 7):
            spec = BinSpec(integer=True, bins=[(0, False, 0), (shift, True, 0)])
            self.refused(spec, "bin of integers has a flip bit")

    def test_centre(self) -> None:
        for centre in (7, 127, -7, -128):
            self.refused(BinSpec(bins=[(0, False, centre)]), f"centre of a bin is {centre}")

    def test_row_count(self) -> None:
        for count in (9, 255):
            self.changed(9, count, f"recipe has {count} rows")

    def test_bounds(self) -> None:
        for bounds in (b"\0", b"\1\1", b"\2\1", b"\0\1", b"\1\3\3", b"\1\3\2", b"\xff\xff"):
            spec = BinSpec(bounds=bounds, rows=[range(16)] * (len(bounds) + 1))
            self.refused(spec, "bounds do not rise")

    def test_rows(self) -> None:
        for place in range(16):
            row = list(range(16))
            row[place] = (place + 1) % 16
            self.refused(BinSpec(bounds=b"\1", rows=[range(16), row]), "row has an entry twice")

    def test_coder(self) -> None:
        head = BinSpec().recipe()[:-1]
        self.check(b"\2\0" + head + b"\x0b", "unknown coder", None, b"")
        deep = head + b"\x08a" * 4 + bytes(5)
        self.check(b"\2\0" + deep, "more than 3 apart coders", None, b"")

    def test_recipe_ends_early(self) -> None:
        rows = [range(16)] * 3
        recipe = BinSpec(bins=[(1, True, 3)] * 2, bounds=b"\1\2", rows=rows, coder=EVEN).recipe()
        for size in range(len(recipe)):
            self.check(b"\2\0" + recipe[:size], "ends before", None, b"")
            self.check(b"\3\0", "ends before", recipe[:size], b"")
        self.check(b"\3\0", "left over in the shared recipe", recipe + b"\0", b"")

    def test_base_missing(self) -> None:
        for raw in (b"", b"x", b"xy"):
            self.check(BinSpec().block(raw, raw), "needs a base and none is given")

    def test_base_of_another_length(self) -> None:
        block = BinSpec().block(b"abcd", b"abcd")
        for base in (b"", b"abc", b"abcde", b"abcdef"):
            self.check(block, "base has", None, base)

    # Section 4.4

    def hand(self, bins: bytes, segment: bytes, message: str, more: int = 0) -> None:
        """Two values, near a base of zeros."""
        raw_len = 2 << more
        block = by_hand(bins, segment, raw_len, layout=0xD0 | more, more=more)
        self.check(block, message, None, bytes(raw_len))

    def test_number_of_exceptions(self) -> None:
        self.hand(b"\0\0", b"\0" b"\0\x40", "1 exceptions where 0 are listed")
        self.hand(b"\0\0", b"\1\0" b"\0\0", "0 exceptions where 1 are listed")
        self.hand(b"\0\0", b"\1\0" b"\x40\x40", "2 exceptions where 1 are listed")
        self.hand(b"\0\0", b"\2\0\0" b"\xc0\x40", "1 exceptions where 2 are listed")

    def test_more_exceptions_than_there_is_room_for(self) -> None:
        for count in (3, 4, 1 << 20, (1 << 64) - 1):
            self.hand(b"\0\0", varint(count) + b"\0\0", "ends before")
            self.hand(b"\0\0", b"\0\0" + varint(count) + b"\0\0", "ends before", more=1)

    def test_count_of_exceptions_is_a_varint(self) -> None:
        self.hand(b"\0\0", b"\x80\0" b"\0\0", "varint is longer than needed")
        self.hand(b"\0\0", b"\xff" * 10 + b"\1", "varint is longer than 10 bytes")

    def test_padding(self) -> None:
        for byte in (4, 8, 0x80):
            self.hand(b"\1\0", b"\0" b"\0\0" + bytes([byte]), "padding of payloads")
        self.hand(b"\x82\0", b"\0" b"\0\0" b"\x40", "padding of payloads")

    def test_segment_too_short(self) -> None:
        for segment in (b"", b"\0", b"\0\0", b"\0\0\0"):
            self.hand(b"\1\0", segment, "ends before")
        self.hand(b"\x08\0", b"\0" b"\0\0" b"\0", "ends before")
        self.hand(b"\0\0", b"\0\0\0\0", "ends before", more=1)

    def test_segment_too_long(self) -> None:
        self.hand(b"\0\0", b"\0" b"\0\0" b"\0", "left over in the segment")
        self.hand(b"\1\0", b"\0" b"\0\0" b"\0\0", "left over in the segment")

    def test_truncation_at_every_length(self) -> None:
        rng = random.Random(11)
        base = rng.randbytes(301)
        for coder in (EVEN, Apart(0, Gaps(1), Raw())):
            spec = random_spec(rng, 2, 1, coder=coder)
            block = spec.block(near(base, 2), base)
            for size in range(len(block)):
                self.check(block[:size], "", None, base)
            self.check(block + b"\0", "left over in the block", None, base)


class Damage(unittest.TestCase):
    """Damaged blocks decode or are Corrupt, and raise nothing else."""

    def test_random_damage(self) -> None:
        rng = random.Random(12)
        base = rng.randbytes(150)
        for width in (1, 2, 4, 8):
            for raw_bytes in range(width):
                block = random_spec(rng, width, raw_bytes).block(near(base, width), base)
                for _ in range(100):
                    damaged = bytearray(block)
                    for _ in range(rng.randrange(1, 4)):
                        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
                    try:
                        decode.decode_block(bytes(damaged), None, base)
                    except decode.Corrupt as error:
                        self.assertRegex(str(error), r"\A[^A-Z\n]+\Z")


if __name__ == "__main__":
    unittest.main()
