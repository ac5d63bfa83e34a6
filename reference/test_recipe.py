"""Tests of decode.py by docs/format.md, section 3: the recipe."""

from __future__ import annotations

import random
import unittest

import decode
from builders import (
    CHAIN,
    HUFFMAN,
    PACKED,
    RANS,
    TEXT,
    AcceptTest,
    Constant,
    Gaps,
    Packed,
    Raw,
    RejectTest,
    Runs,
    Spec,
    coded,
    offsets_spec,
    recipe_with_runs_columns,
    sparse_values,
    u16,
    varint,
    wide_spec,
    wide_values,
    words_of,
)


class Accepts(AcceptTest):
    """What decodes."""

    def test_largest_recipe(self) -> None:
        recipe = recipe_with_runs_columns(0)
        self.assertEqual(len(recipe), 1 << 21)
        block = b"\2\0" + recipe + b"\0" + b"\0"
        self.assertEqual(decode.decode_block(block), b"")

    def test_word_maps_and_widths(self) -> None:
        rng = random.Random(7)
        for word_map in range(3):
            for width in (1, 2, 4, 8):
                for bits in (1, 3, 8, 9, 12, 16):
                    if bits > 8 * width:
                        continue
                    planes = [Raw() for _ in range(1 + -(-(8 * width - bits) // 8))]
                    spec = Spec(width, bits, planes, word_map, bias=300 if bits > 8 else 0)
                    with self.subTest(spec=spec):
                        self.check(spec, rng.randbytes(width * 70))

    def test_zigzag_small_numbers(self) -> None:
        raw = words_of([0, 0xFFFF, 1, 0xFFFE, 0x7FFF, 0x8000], 2)
        block = coded(bytes([1 | 2 << 2, 8, 10]) + b"\0\0", 12,
                      words_of([0, 1, 2, 3, 0xFFFE, 0xFFFF], 2))
        self.assertEqual(decode.decode_block(block), raw)

    def test_rotate_hand_made(self) -> None:
        block = coded(bytes([1 | 1 << 2, 8, 10]) + b"\0\0", 2, words_of([0x0003], 2))
        self.assertEqual(decode.decode_block(block), words_of([0x8001], 2))

    def test_high_bits_of_narrow_planes_ignored(self) -> None:
        block = coded(bytes([0, 3, 10]) + b"\0\0", 1, b"\xe5\xfa")
        self.assertEqual(decode.decode_block(block), bytes([2 << 5 | 5]))

    def test_wide_symbols(self) -> None:
        self.check(wide_spec(), wide_values(1500))
        self.check(wide_spec(planes=[Raw(), Raw(), Packed(255), Raw()]), wide_values(1100))

    def test_wide_constant_plane(self) -> None:
        far = words_of([i << 16 for i in range(20)], 4)
        spec = wide_spec(planes=[Constant(255), Raw(), Raw(), Raw()])
        self.check(spec, far)

    def test_wide_exception_high_bits_ignored(self) -> None:
        recipe = bytes([1, 9, 10]) + u16(0) + b"\0\0"
        block = coded(recipe, 2, b"\5\377" + u16(0xFE03))
        self.assertEqual(decode.decode_block(block), u16(3 << 7 | 5))

    def test_wide_bias_wraps(self) -> None:
        block = coded(bytes([1, 9, 10]) + u16(511) + b"\0\0", 2, b"\5\3")
        self.assertEqual(decode.decode_block(block), u16(2 << 7 | 5))

    def test_offsets(self) -> None:
        raw = random.Random(8).randbytes(3000)
        self.check(offsets_spec(), raw)
        self.check(offsets_spec(first=0), raw)
        self.check(offsets_spec(rows_coder=Packed(255), col_coder=Runs()), raw)
        self.check(offsets_spec(rows_coder=Constant(7), rows=b"\7" * 215), raw)

    def test_offsets_coded_columns(self) -> None:
        raw = random.Random(9).randbytes(600)
        for coder in (HUFFMAN, RANS, CHAIN, PACKED):
            self.check(offsets_spec(col=TEXT[:200], col_coder=coder, rows=b"\5\6"), raw)

    def test_offsets_wide(self) -> None:
        rows = random.Random(10).randbytes(1005 // 3)
        spec = wide_spec(col=b"\0\377\7", base=8000, first=2, rows=rows)
        self.check(spec, wide_values(1003))


    def test_base_use_and_widths(self) -> None:
        rng = random.Random(14)
        for use in (1, 2):
            for width in (1, 2, 4, 8):
                for word_map in range(3):
                    for tail in (0, width - 1):
                        size = width * 1030 + tail
                        spec = Spec(width, 8, [Raw()] * width, word_map, base_use=use)
                        self.check(spec, rng.randbytes(size), rng.randbytes(size))

    def test_base_use_hand_made(self) -> None:
        base = u16(0x00FF) + u16(0xFFFF) + b"t"
        for layout, raw in ((65, [0x0FF0, 0x0000]), (129, [0x100E, 0xFFFE])):
            block = coded(bytes([layout, 8, 10]) + b"\0\0", 5, words_of([0x0F0F, 0xFFFF], 2), b"u")
            back = decode.decode_block(block, None, base)
            self.assertEqual(back, words_of(raw, 2) + b"u")

    def test_base_use_sparse(self) -> None:
        base = sparse_values(1500)
        raw = bytes(byte ^ (i % 50 == 0) for i, byte in enumerate(base))
        for use in (1, 2):
            self.check(Spec(2, 8, [Raw(), Raw()], flags=Gaps(3), base_use=use), raw, base)

    def test_base_use_wide_and_offsets(self) -> None:
        rng = random.Random(15)
        for use in (1, 2):
            self.check(wide_spec(base_use=use), wide_values(1500), wide_values(1500, 3))
            raw, base = rng.randbytes(3000), rng.randbytes(3000)
            self.check(offsets_spec(base_use=use), raw, base)


class Rejects(RejectTest):
    """Every rule of rejection."""

    def test_word_map(self) -> None:
        self.recipe(bytes([12, 8, 10, 0]), "unknown word map")

    def test_sparse_and_offsets(self) -> None:
        self.recipe(bytes([48, 8, 10, 0, 0, 1, 0, 0, 0, 0]), "sparse and offsets")

    def test_symbol_bits(self) -> None:
        for layout, bits in ((0, 0), (0, 9), (1, 17), (3, 17), (3, 0)):
            self.recipe(bytes([layout, bits, 10]), "symbol_bits is")

    def test_segment_log2(self) -> None:
        self.recipe(bytes([0, 8, 9, 0]), "segment_log2 is 9")
        self.recipe(bytes([0, 8, 19, 0]), "segment_log2 is 19")

    def test_bias(self) -> None:
        self.recipe(bytes([1, 9, 10]) + u16(512) + b"\0\0", "bias does not fit")

    def test_recipe_too_large(self) -> None:
        self.recipe(recipe_with_runs_columns(2) + b"\0\0", "recipe is larger")

    def test_no_columns(self) -> None:
        self.recipe(bytes([32, 8, 10, 0]) + varint(0) + u16(0) + b"\0", "a row has 0 values")

    def test_too_many_columns(self) -> None:
        columns = varint((1 << 20) + 1) + u16(0) + b"\1\0"
        self.recipe(bytes([32, 8, 10, 0]) + columns, "a row has 1048577 values")

    def test_columns_stream(self) -> None:
        columns = varint(3) + u16(0) + b"\2\1\0" + b"\x08"
        self.recipe(bytes([32, 8, 10, 0]) + columns, "padding of a packed")

    def test_unknown_coder(self) -> None:
        self.coder(b"\x0a", "unknown coder 10")
        self.coder(b"\377", "unknown coder 255")

    def test_packed_mask_zero(self) -> None:
        self.coder(b"\2\0\1", "mask of a packed coder is 0")

    def test_packed_rest_meets_mask(self) -> None:
        self.coder(b"\2\7\4", "meets its mask")


if __name__ == "__main__":
    unittest.main()
