"""Tests of decode.py by docs/format.md, sections 3.6 and 4.3: recipes by classes."""

from __future__ import annotations

import random
import unittest

import decode
from builders import (
    CHAIN,
    Apart,
    Coder,
    Constant,
    Gaps,
    Huffman,
    Packed,
    Rans,
    Raw,
    RejectTest,
    Runs,
    coded,
    u16,
    words_of,
)
from class_builders import ClassSpec, near

EVEN = Rans({symbol: 16 for symbol in range(256)})
ALL_CODERS: list[Coder] = [
    Raw(), Packed(255), CHAIN, EVEN, Runs(), Gaps(2), Apart(0, Gaps(1), Raw()),
    Huffman({symbol: 8 for symbol in range(256)}),
]


def specs(width: int) -> list[ClassSpec]:
    """Every layout and number of raw bytes that a width allows."""
    bits = [(sign, top) for sign in (False, True) for top in (False, True)]
    made = [ClassSpec(width, *both, raw_bytes) for both in bits for raw_bytes in range(width)]
    return [spec for spec in made if spec.flip <= 128]


def by_hand(layout: int, raw_bytes: int, segment: bytes, raw_len: int) -> bytes:
    """A block of one raw context, whose exponent has 3 bits."""
    recipe = bytes([layout, raw_bytes, 10, 3, 1, 0, 0]) + b"\0"
    return coded(recipe, raw_len, segment)


class Accepts(unittest.TestCase):
    """What decodes."""

    def check(self, spec: ClassSpec, raw: bytes, base: bytes) -> None:
        self.assertEqual(decode.decode_block(spec.block(raw, base), None, base), raw)

    def hand(
        self, layout: int, segment: bytes, raw: bytes, base: bytes, raw_bytes: int = 0
    ) -> None:
        block = by_hand(layout, raw_bytes, segment, len(raw))
        self.assertEqual(decode.decode_block(block, None, base), raw)

    # Section 3.6

    def test_widths_and_layouts(self) -> None:
        rng = random.Random(1)
        for width in (1, 2, 4, 8):
            for spec in specs(width):
                base = rng.randbytes(150 * width)
                with self.subTest(spec=spec):
                    self.check(spec, near(base, width), base)
                    self.check(spec, rng.randbytes(len(base)), base)

    def test_all_layouts_are_there(self) -> None:
        self.assertEqual([len(specs(width)) for width in (1, 2, 4, 8)], [4, 8, 15, 25])

    def test_extreme_values(self) -> None:
        for width in (1, 2, 4, 8):
            top = 1 << 8 * width - 1
            extremes = [0, 1, top - 1, top, top + 1, 2 * top - 1, top >> 1, top >> 1 | top]
            pairs = [(x, b) for x in extremes for b in extremes]
            raw = words_of([x for x, _ in pairs], width)
            base = words_of([b for _, b in pairs], width)
            for spec in specs(width):
                with self.subTest(spec=spec):
                    self.check(spec, raw, base)

    def test_sign_and_top_bit_in_payload(self) -> None:
        # |q| 3: class 2, payload 1 and the sign above it
        self.hand(0xC0, b"\2\2" b"\x0d", b"\x13\x0d", b"\x10\x10")

    def test_sign_in_symbol(self) -> None:
        # classes 2, 2 and 3, their payloads 1, 0 and 2
        self.hand(0xC4, b"\4\5\7" b"\x09", b"\x13\x0e\x0a", b"\x10\x10\x10")

    def test_top_bit_in_symbol(self) -> None:
        # 3 is class 2 with a top bit and no more but its sign; -5 is class 3, 0 and 1
        self.hand(0xC8, b"\5\6" b"\x06", b"\x13\x0b", b"\x10\x10")

    def test_sign_and_top_bit_in_symbol(self) -> None:
        self.hand(0xCC, b"\x0a\x0d" b"\1", b"\x13\x0b", b"\x10\x10")

    def test_flipped(self) -> None:
        # F is 9: classes 0 and 1 with the other top bit, and a payload that is a minus
        self.hand(0xC0, b"\x09\x0a" b"\1", b"\x90\x0f", b"\x10\x90")

    def test_raw_bytes(self) -> None:
        # 1, -1, 128 and -129, with half of 256 added, are 0, 0, 1 and -1 times 256 and a byte
        base = words_of([0x1000] * 4, 2)
        raw = words_of([0x1001, 0x0FFF, 0x1080, 0x0F7F], 2)
        self.hand(0xC1, b"\x81\x7f\0\xff" b"\0\0\1\1" b"\2", raw, base, raw_bytes=1)

    def test_payload_of_two_strings(self) -> None:
        # 0x5a3 and -0x402 are class 11: 10 bits, with the sign on top
        base, raw = words_of([0x1000, 0x1000], 2), words_of([0x15A3, 0x1000 - 0x402], 2)
        first, second = 0x1A3, 0x402
        low = b"\2" + bytes([first & 255, second & 255])
        high = bytes([first >> 8 | second >> 8 << 3])
        self.hand(0xC1, b"\x0b\x0b" + low + high, raw, base)

    def test_top_bit_of_a_small_class(self) -> None:
        """A top bit of class 0 or 1 counts for nothing."""
        self.hand(0xC8, b"\0\1\2\3" b"\1", b"\x10\x10\x0f\x11", b"\x10" * 4)

    def test_sign_of_class_0(self) -> None:
        self.hand(0xC4, b"\0\1\x12\x13", b"\x10\x10\x90\x90", b"\x10" * 4)

    def test_differences_that_wrap(self) -> None:
        """Differences that no encoder would write are cut to the bits of a magnitude."""
        # class 8, payload 7f: 255 more or less
        self.hand(0xC4, b"\x10\x11" b"\xff\x3f", b"\x0f\x11", b"\x10\x10")
        self.hand(0xC4, b"\x10\x11" b"\xff\x3f", b"\x8f\x91", b"\x90\x90")

    def test_contexts(self) -> None:
        rng = random.Random(2)
        for width in (1, 2, 4, 8):
            base = rng.randbytes(200 * width)
            for contexts in (1, 2, 3, 16):
                for _ in range(4):
                    bounds = bytes(sorted(rng.sample(range(256), contexts - 1), reverse=True))
                    bits = rng.randrange(1, min(12, 8 * width))
                    first = rng.choice([0, 1, 3, 100, 1900, 65535])
                    coders = [rng.choice(ALL_CODERS) for _ in range(contexts)]
                    coders = [Raw() if coder is CHAIN else coder for coder in coders]
                    spec = ClassSpec(
                        width, raw_bytes=width - 1, exponent_bits=bits, first=first,
                        bounds=bounds, coders=coders,
                    )
                    with self.subTest(spec=spec):
                        self.check(spec, near(base, width), base)

    def test_context_by_hand(self) -> None:
        # exponents of 3 bits, less 1, at least 0: 0, 0, 1 and 6; of the bounds 6, 1 and 0 two,
        # two, one and none are greater
        recipe = bytes([0xC0, 0, 10, 3, 4, 1, 0, 6, 1, 0]) + b"\0\1\1\0\0"
        block = coded(recipe, 4, b"\0" b"\0\1" b"\2")
        back = decode.decode_block(block, None, b"\x8f\x10\x20\x70")
        self.assertEqual(back, b"\x8f\x11\x1f\x70")

    def test_size_is_at_most_255(self) -> None:
        """Exponents far above the first are all of size 255, which no bound is greater than."""
        base = words_of([2047 << 52, 256 << 52, 255 << 52, 254 << 52], 8)
        recipe = bytes([0xC3, 7, 10, 11, 2, 0, 0, 255]) + b"\1\0\1\x09"
        block = coded(recipe, 32, b"".join(u16(0x80)[:1] + bytes(6) for _ in range(4)))
        values = [int.from_bytes(base[i : i + 8], "little") for i in range(0, 32, 8)]
        half = 0x80 - (1 << 55)
        expected = [(value + half) % (1 << 63) for value in values]
        expected[3] |= 1 << 63
        self.assertEqual(decode.decode_block(block, None, base), words_of(expected, 8))

    # Section 4.3

    def test_coders(self) -> None:
        rng = random.Random(3)
        base = rng.randbytes(2400)
        for coder in ALL_CODERS:
            spec = ClassSpec(sign=True, bounds=b"\x40", coders=[coder, Raw()])
            self.check(spec, near(base, 2), base)
            spec = ClassSpec(sign=True, bounds=b"\x40", coders=[Raw(), coder])
            self.check(spec, near(base, 2), base)

    def test_contexts_without_values(self) -> None:
        """A context that no value has still has the fixed parts of its coder's stream."""
        base = b"\0\0" * 100
        for coder in [*ALL_CODERS, Constant(77)]:
            spec = ClassSpec(bounds=b"\3\2\1", coders=[coder, coder, coder, Raw()])
            self.check(spec, near(base, 2), base)
        self.check(ClassSpec(bounds=b"\0", coders=[Raw(), EVEN]), near(base, 2), base)

    def test_constant_symbols(self) -> None:
        base = random.Random(4).randbytes(2600)
        self.check(ClassSpec(coders=[Constant(0)]), base, base)
        flipped = bytes(byte ^ i % 2 << 7 for i, byte in enumerate(base))
        self.check(ClassSpec(coders=[Constant(17)]), flipped, base)

    def test_segments_and_tails(self) -> None:
        rng = random.Random(5)
        for width in (1, 2, 4, 8):
            spec = ClassSpec(width, raw_bytes=width // 2, exponent_bits=5)
            for count in (0, 1, 7, 8, 9, 1023, 1024, 1025, 2100):
                for tail in {0, width - 1}:
                    base = rng.randbytes(count * width + tail)
                    self.check(spec, near(base, width), base)

    def test_shared(self) -> None:
        base = random.Random(6).randbytes(3001)
        spec, raw = ClassSpec(top=True, coders=[EVEN]), near(base, 2)
        block = spec.shared_block(raw, base)
        self.assertEqual(decode.decode_block(block, spec.recipe(), base), raw)


class Rejects(RejectTest):
    """Every rule of rejection."""

    def class_recipe(self, place: int, value: int, message: str, width: int = 2) -> None:
        """The recipe of a simple spec with one of its bytes changed, and a base beside it."""
        recipe = bytearray(ClassSpec(width, raw_bytes=width // 2).recipe() + bytes(99))
        recipe[place] = value
        self.check(b"\2\0" + recipe, message, None, b"")
        self.check(b"\3\0", message, bytes(recipe), b"")

    # Section 3.6

    def test_layout(self) -> None:
        for layout in (0xF4, 0xF9, 0xFD, 0xFF):
            self.class_recipe(0, layout, "bits 2 and 3 of the layout of a palette")

    def test_raw_bytes(self) -> None:
        for width, raw_bytes in ((1, 1), (2, 2), (4, 4), (8, 8), (8, 255)):
            self.class_recipe(1, raw_bytes, f"raw_bytes is {raw_bytes}", width)

    def test_segment_log2(self) -> None:
        for log2 in (0, 9, 19, 255):
            self.class_recipe(2, log2, f"segment_log2 is {log2}")

    def test_exponent_bits(self) -> None:
        for width, bits in ((1, 0), (1, 8), (2, 0), (2, 12), (4, 12), (8, 255)):
            self.class_recipe(3, bits, f"exponent_bits is {bits}", width)

    def test_contexts(self) -> None:
        for contexts in (0, 17, 255):
            self.class_recipe(4, contexts, f"recipe has {contexts} contexts")

    def test_bounds(self) -> None:
        for bounds in (b"\1\1", b"\1\2", b"\0\0", b"\3\2\2", b"\3\1\2", b"\377\377"):
            spec = ClassSpec(bounds=bounds, coders=[Raw()] * (len(bounds) + 1))
            self.check(b"\2\0" + spec.recipe(), "bounds do not fall", None, b"")

    def test_too_many_symbols(self) -> None:
        large = [ClassSpec(8, sign=True), ClassSpec(8, top=True), ClassSpec(4, True, True)]
        large += [ClassSpec(8, True, True, raw_bytes) for raw_bytes in range(5)]
        for spec in large:
            with self.subTest(spec=spec):
                self.check(b"\2\0" + spec.recipe(), "symbols go up to", None, b"")

    def test_coders(self) -> None:
        head = ClassSpec(bounds=b"\1").recipe()[:8]
        self.check(b"\2\0" + head[:4] + b"\2" + head[5:] + b"\0\x0a", "unknown coder", None, b"")
        deep = ClassSpec().recipe()[:-1] + b"\x08a" * 4 + bytes(5)
        self.check(b"\2\0" + deep, "more than 3 apart coders", None, b"")

    def test_recipe_ends_early(self) -> None:
        recipe = ClassSpec(bounds=b"\5\3", coders=[Raw(), Packed(1), EVEN]).recipe()
        for size in range(len(recipe)):
            self.check(b"\2\0" + recipe[:size], "ends before", None, b"")
            self.check(b"\3\0", "ends before", recipe[:size], b"")
        self.check(b"\3\0", "left over in the shared recipe", recipe + b"\0", b"")

    def test_symbol_too_large(self) -> None:
        for spec in specs(1) + specs(2):
            base = b"\x10" * (2 * spec.width)
            for symbol in {2 * spec.flip, 255} - {256}:
                segment = bytes(2 * spec.raw_bytes) + bytes([0, symbol])
                block = coded(spec.recipe(), len(base), segment)
                with self.subTest(spec=spec, symbol=symbol):
                    self.check(block, "symbol is too large", None, base)

    def test_base_missing(self) -> None:
        for raw in (b"", b"x", b"xy"):
            self.check(ClassSpec().block(raw, raw), "needs a base and none is given")

    def test_base_of_another_length(self) -> None:
        block = ClassSpec().block(b"abcd", b"abcd")
        for base in (b"", b"abc", b"abcde", b"abcdef"):
            self.check(block, "base has", None, base)

    # Section 4.3

    def hand(self, layout: int, segment: bytes, message: str, raw_bytes: int = 0) -> None:
        """Two values of any width, near a base of zeros."""
        raw_len = 2 << (layout & 3)
        self.check(by_hand(layout, raw_bytes, segment, raw_len), message, None, bytes(raw_len))

    def test_padding(self) -> None:
        message = "padding of a string of payloads"
        self.hand(0xC0, b"\1\1\4", message)
        self.hand(0xC0, b"\1\1\x80", message)
        self.hand(0xC1, b"\1\x0a" + b"\2\0\2", message)
        self.hand(0xC1, b"\x0b\1" + b"\2\0\0\x08", message)

    def test_segment_too_short(self) -> None:
        self.hand(0xC0, b"\0", "ends before")
        self.hand(0xC0, b"\1\0", "ends before")
        self.hand(0xC1, b"\x0b\0", "ends before")
        self.hand(0xC1, b"\x0b\0\1\0", "ends before")
        self.hand(0xC1, b"\0\0\0", "ends before", raw_bytes=1)

    def test_segment_too_long(self) -> None:
        self.hand(0xC0, b"\0\0\0", "left over in the segment")
        self.hand(0xC1, b"\1\1\1\0\0", "left over in the segment")

    def test_length_of_a_string(self) -> None:
        for length in (b"\0", b"\2", b"\x81\1"):
            self.hand(0xC1, b"\1\1" + length + b"\0\0", "string of payloads of")

    def test_truncation_at_every_length(self) -> None:
        base = random.Random(7).randbytes(301)
        spec = ClassSpec(bounds=b"\x40", coders=[EVEN, Apart(0, Gaps(1), Raw())])
        block = spec.block(near(base, 2), base)
        for size in range(len(block)):
            self.check(block[:size], "", None, base)
        self.check(block + b"\0", "left over in the block", None, base)


class Damage(unittest.TestCase):
    """Damaged blocks decode or are Corrupt, and raise nothing else."""

    def test_random_damage(self) -> None:
        rng = random.Random(8)
        base = rng.randbytes(150)
        for width in (1, 2, 4, 8):
            for spec in specs(width):
                block = spec.block(near(base, width), base)
                for _ in range(60):
                    damaged = bytearray(block)
                    for _ in range(rng.randrange(1, 4)):
                        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
                    try:
                        decode.decode_block(bytes(damaged), None, base)
                    except decode.Corrupt as error:
                        self.assertRegex(str(error), r"\A[^A-Z\n]+\Z")


if __name__ == "__main__":
    unittest.main()
