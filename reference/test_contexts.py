"""Tests of decode.py by docs/format.md, section 5.7: rANS by context."""

from __future__ import annotations

import random
import unittest
from typing import Any

import decode
from bin_builders import random_bounds, random_fields
from builders import RejectTest, values_of
from class_builders import near
from context_builders import ContextSpec, Table, fitted, numbers

HALF = {0: 2048, 0x40: 2048}


def plain(**changes: Any) -> ContextSpec:
    """Bytes with one bin and one table."""
    fields: dict[str, Any] = {"width": 1, "exponent_bits": 3, "tables": [Table(HALF)]}
    return ContextSpec(**{**fields, **changes})


class Accepts(unittest.TestCase):
    """What decodes."""

    def test_widths_and_contexts(self) -> None:
        rng = random.Random(1)
        for width in (1, 2, 4, 8):
            for count in (1, 2, 5, 16):
                base = rng.randbytes(150 * width)
                raw = near(base, width, rng.randrange(99))
                bounds = random_bounds(rng, count, 40)
                fields = random_fields(rng, width)
                spec = ContextSpec(width, 0, **{**fields, "context_bounds": bounds})
                pairs = zip(values_of(raw, width), values_of(base, width), strict=True)
                spec.tables = fitted(spec, [spec.coded(x, b) for x, b in pairs], rng)
                with self.subTest(spec=spec):
                    self.assertEqual(decode.decode_block(spec.block(raw, base), None, base), raw)

    def test_by_hand(self) -> None:
        """Steps from -1 to 1; the frequencies are 1, 4000, 0, and 95 of exceptions."""
        table = Table({0xFF: 1, 0: 4000, 1: 0, 0x40: 95}, low_bits=12)
        self.assertEqual(table.parameters[:5], b"\xff\3\0\0\x0c")
        raw = bytes(100)
        spec = plain(tables=[table])
        self.assertEqual(decode.decode_block(spec.block(raw, raw), None, raw), raw)


class Rejects(RejectTest):
    """Rules of rejection."""

    def reject(self, message: str, at: int, byte: int) -> None:
        """A block whose recipe has one byte changed, counted from the id on."""
        raw = bytes(40)
        block, recipe = plain().block(raw, raw), plain().recipe()
        start = block.index(recipe) + recipe.index(b"\x0a\1\0\1\0\0\3")
        damaged = block[: start + at] + bytes([byte]) + block[start + at + 1 :]
        self.check(damaged, message, base=raw)

    def test_count(self) -> None:
        self.reject("0 contexts of symbols", 1, 0)
        self.reject("17 contexts of symbols", 1, 17)

    def test_steps(self) -> None:
        self.reject("steps from -128 on", 2, 0x80)
        self.reject("65 steps from 0 on", 3, 65)

    def test_low_bits(self) -> None:
        self.reject("13 low bits", 6, 13)

    def test_bounds(self) -> None:
        raw = bytes(40)
        for bounds in (b"\0", b"\2\2", b"\3\2"):
            tables = [Table(HALF)] * (len(bounds) + 1)
            block = plain(context_bounds=bounds, tables=tables).block(raw, raw)
            self.check(block, "bounds do not rise", base=raw)

    def test_frequencies(self) -> None:
        raw = bytes(40)
        head = b"\x0a\1\0\1\0\0\2"
        good = plain().recipe()
        start = good.index(b"\x0a\1\0\1\0\0\3")
        for frequencies, message in (
            ([2048, 2047], "sum to 4096"),
            ([4096, 0], "from 0 to 4095"),
            ([5, -1], "from 0 to 4095"),
            ([2048, 9000], "from 0 to 4095"),
        ):
            recipe = good[:start] + head + numbers(frequencies, 2)
            block = plain().block(raw, raw).replace(good, recipe)
            with self.subTest(frequencies=frequencies):
                self.check(block, message, base=raw)

    def test_padding(self) -> None:
        raw = bytes(40)
        spec = plain(tables=[Table(HALF, low_bits=2)])
        good = spec.recipe()
        bad = good[:-1] + bytes([good[-1] | 0x80])
        self.check(spec.block(raw, raw).replace(good, bad), "padding of freq", base=raw)

    def test_changes_have_one_coder(self) -> None:
        """Section 3.8: id 10 is a coder of bins alone."""
        block = plain().block(bytes(40), bytes(40))
        at = block.index(plain().recipe())
        changed = block[:at] + bytes([0xE0]) + block[at + 1 :]
        self.check(changed, "coder", base=bytes(40))


if __name__ == "__main__":
    unittest.main()
