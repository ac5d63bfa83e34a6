"""Tests of convert.py by docs/format.md, section 7.5: conversions, by bits."""

from __future__ import annotations

import random
import struct
import unittest
from fractions import Fraction

from builders import u16, u32, values_of, words_of
from convert import convert

SPECIAL = [
    0x00000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x33000000, 0x33000001, 0x33800000,
    0x387FC000, 0x387FE000, 0x387FFFFF, 0x38800000, 0x3F800000, 0x3F801000, 0x3F803000,
    0x3F808000, 0x3F818000, 0x477FDFFF, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x477FFFFF,
    0x47800000, 0x7F7FFFFF, 0x7F7F8000, 0x7F800000, 0x7F800001, 0x7F80FFFF, 0x7FC00000, 0x7FFFFFFF,
]


def one(conversion: int, bits: int) -> int:
    return int.from_bytes(convert(conversion, u32(bits)), "little")


def pairs(conversion: int, numbers: list[int]) -> list[tuple[int, int]]:
    """Numbers below infinity, and what they are converted to."""
    finite = [bits for bits in numbers if bits < 0x7F800000]
    made = convert(conversion, words_of(finite, 4))
    return list(zip(finite, values_of(made, 2), strict=True))


def value(bits: int, exponent_bits: int, mantissa_bits: int) -> Fraction:
    """The value of a magnitude that is not NaN; infinity as the next power of 2."""
    exponent, mantissa = divmod(bits, 1 << mantissa_bits)
    bias = (1 << exponent_bits - 1) - 1
    if exponent == 0:
        return Fraction(mantissa) * Fraction(2) ** (1 - bias - mantissa_bits)
    whole = mantissa + (1 << mantissa_bits)
    return Fraction(whole) * Fraction(2) ** (exponent - bias - mantissa_bits)


class Conversions(unittest.TestCase):
    """What comes out of each, for bits that were thought of and for any."""

    def check(self, conversion: int, expected: dict[int, int]) -> None:
        for bits, made in expected.items():
            with self.subTest(bits=hex(bits)):
                self.assertEqual(hex(one(conversion, bits)), hex(made))
                if made != 0x7E00:
                    self.assertEqual(one(conversion, bits | 1 << 31), made | 1 << 15)

    def numbers(self) -> list[int]:
        rng = random.Random(1)
        near = [bits + step for bits in SPECIAL for step in (-1, 0, 1) if bits + step >= 0]
        small = [rng.randrange(0x32000000, 0x48000000) for _ in range(1500)]
        halves = [rng.randrange(0x6600, 0x9000) << 15 | 0x1000 for _ in range(300)]
        magnitudes = near + small + halves + [rng.getrandbits(31) for _ in range(300)]
        return [bits & 0x7FFFFFFF for bits in magnitudes]

    def test_none(self) -> None:
        self.assertEqual(convert(0, b"abc"), b"abc")

    def test_order(self) -> None:
        """Every four bytes give two, in order."""
        data = u32(0x3F800000) + u32(0xC0490FDB) + u32(0x00000000)
        self.assertEqual(convert(2, data), u16(0x3F80) + u16(0xC049) + u16(0))
        for conversion in (1, 2, 3, 4):
            self.assertEqual(convert(conversion, b""), b"")
            self.assertEqual(convert(conversion, data * 9), convert(conversion, data) * 9)

    def test_bf16_nearest(self) -> None:
        self.check(1, {
            0x3F800000: 0x3F80, 0x3F807FFF: 0x3F80, 0x3F808000: 0x3F80, 0x3F808001: 0x3F81,
            0x3F817FFF: 0x3F81, 0x3F818000: 0x3F82, 0x00000001: 0, 0x00008000: 0, 0x00008001: 1,
            0x7F7F7FFF: 0x7F7F, 0x7F7F8000: 0x7F80, 0x7F7FFFFF: 0x7F80, 0x7F800000: 0x7F80,
            0x7F800001: 0x7FC0, 0x7F80FFFF: 0x7FC0, 0x7FBF0000: 0x7FFF, 0x7FFFFFFF: 0x7FFF,
        })

    def test_bf16_cut(self) -> None:
        self.check(2, {bits: bits >> 16 for bits in SPECIAL})

    def test_f16_nearest(self) -> None:
        self.check(3, {
            0x3F800000: 0x3C00, 0x3F801000: 0x3C00, 0x3F801001: 0x3C01, 0x3F803000: 0x3C02,
            0x477FE000: 0x7BFF, 0x477FEFFF: 0x7BFF, 0x477FF000: 0x7C00, 0x47800000: 0x7C00,
            0x7F7FFFFF: 0x7C00, 0x7F800000: 0x7C00, 0x38800000: 0x0400, 0x387FE000: 0x0400,
            0x387FDFFF: 0x03FF, 0x33800000: 0x0001, 0x33000001: 0x0001, 0x33000000: 0x0000,
            0x33C00000: 0x0002, 0x00000001: 0x0000,
        })

    def test_f16_cut(self) -> None:
        self.check(4, {
            0x3F800000: 0x3C00, 0x3F801FFF: 0x3C00, 0x3F802000: 0x3C01, 0x477FDFFF: 0x7BFE,
            0x477FE000: 0x7BFF, 0x47800000: 0x7BFF, 0x7F7FFFFF: 0x7BFF, 0x7F800000: 0x7C00,
            0x38800000: 0x0400, 0x387FFFFF: 0x03FF, 0x33800000: 0x0001, 0x337FFFFF: 0x0000,
        })

    def test_f16_nan(self) -> None:
        """NaN loses all of its bits but the sign."""
        for conversion in (3, 4):
            for bits in (0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x7F80FFFF):
                self.assertEqual(one(conversion, bits), 0x7E00)
                self.assertEqual(one(conversion, bits | 1 << 31), 0xFE00)

    def test_every_f16_comes_back(self) -> None:
        halves = [bits for bits in range(1 << 16) if bits & 0x7FFF <= 0x7C00]
        floats = struct.unpack(f"<{len(halves)}e", words_of(halves, 2))
        data = struct.pack(f"<{len(halves)}f", *floats)
        for conversion in (3, 4):
            self.assertEqual(convert(conversion, data), words_of(halves, 2))

    def test_every_bf16_comes_back(self) -> None:
        words = list(range(1 << 16))
        data = words_of([bits << 16 for bits in words], 4)
        self.assertEqual(convert(2, data), words_of(words, 2))
        quiet = [bits | 0x40 if bits & 0x7FFF > 0x7F80 else bits for bits in words]
        self.assertEqual(convert(1, data), words_of(quiet, 2))

    def wide(self, conversion: int, halves: list[int]) -> list[int]:
        return values_of(convert(conversion, words_of(halves, 2)), 4)

    def test_bf16_to_f32(self) -> None:
        """A bf16 is the upper half of an f32, whatever it is."""
        words = list(range(1 << 16))
        self.assertEqual(self.wide(5, words), [bits << 16 for bits in words])

    def test_f16_to_f32(self) -> None:
        """Every f16 that is not NaN has an f32 of its value; NaN keeps all of its bits."""
        numbers = {
            0x0000: 0x00000000, 0x0001: 0x33800000, 0x0002: 0x34000000, 0x0003: 0x34400000,
            0x03FF: 0x387FC000, 0x0400: 0x38800000, 0x3C00: 0x3F800000, 0x7BFF: 0x477FE000,
            0x7C00: 0x7F800000, 0x7C01: 0x7F802000, 0x7E00: 0x7FC00000, 0x7FFF: 0x7FFFE000,
        }
        for bits, made in numbers.items():
            self.assertEqual(self.wide(6, [bits, bits | 1 << 15]), [made, made | 1 << 31])
        halves = [bits for bits in range(1 << 16) if bits & 0x7FFF <= 0x7C00]
        floats = struct.unpack(f"<{len(halves)}e", words_of(halves, 2))
        expected = struct.unpack(f"<{len(halves)}I", struct.pack(f"<{len(halves)}f", *floats))
        self.assertEqual(self.wide(6, halves), list(expected))

    def test_to_f32_and_back(self) -> None:
        """What went to f32 comes back, however it does."""
        words = words_of([bits for bits in range(1 << 16) if bits & 0x7FFF <= 0x7C00], 2)
        for there, back in ((5, 1), (5, 2), (6, 3), (6, 4)):
            self.assertEqual(convert(back, convert(there, words)), words)

    def test_order_to_f32(self) -> None:
        """Every two bytes give four, in order."""
        data = u16(0x3F80) + u16(0xC049) + u16(0)
        self.assertEqual(convert(5, data), u32(0x3F800000) + u32(0xC0490000) + u32(0))
        for conversion in (5, 6):
            self.assertEqual(convert(conversion, b""), b"")
            self.assertEqual(convert(conversion, data * 9), convert(conversion, data) * 9)

    def test_nearest_by_fractions(self) -> None:
        """No other number is nearer, and none as near has an even last bit instead."""
        for conversion, shape in ((1, (8, 7)), (3, (5, 10))):
            infinity = ((1 << shape[0]) - 1) << shape[1]
            for bits, made in pairs(conversion, self.numbers()):
                exact = value(bits, 8, 23)
                away = abs(value(made, *shape) - exact)
                others = [other for other in (made - 1, made + 1) if 0 <= other <= infinity]
                for other in others:
                    far = abs(value(other, *shape) - exact)
                    with self.subTest(conversion=conversion, bits=hex(bits)):
                        self.assertTrue(away < far or away == far and made % 2 == 0)

    def test_cut_by_fractions(self) -> None:
        """Nothing larger that is finite is at or below the number."""
        for bits, made in pairs(4, self.numbers()):
            exact = value(bits, 8, 23)
            self.assertLessEqual(made, 0x7BFF)
            self.assertLessEqual(value(made, 5, 10), exact)
            if made < 0x7BFF:
                self.assertGreater(value(made + 1, 5, 10), exact)


if __name__ == "__main__":
    unittest.main()
