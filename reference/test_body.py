"""Tests of decode.py by docs/format.md, section 4: the coded body."""

from __future__ import annotations

import unittest

import decode
from builders import (
    CHAIN,
    HUFFMAN,
    PACKED,
    RANS,
    RANS_FLAGS,
    TEXT,
    AcceptTest,
    Apart,
    Coder,
    Constant,
    Gaps,
    Packed,
    Raw,
    RejectTest,
    Runs,
    Spec,
    coded,
    offsets_spec,
    sparse_values,
    u16,
    u24,
    varint,
    wide_spec,
    wide_values,
)


class Accepts(AcceptTest):
    """What decodes."""

    def test_tail_bytes(self) -> None:
        for width in (2, 4, 8):
            for size in (0, 1, width - 1, width + 1, 2 * width - 1):
                self.check(Spec(width, 8, [Raw()] * width), TEXT[:size])

    def test_segment_sizes(self) -> None:
        for log2 in (12, 18):
            block = coded(bytes([0, 8, log2, 0]), len(TEXT), TEXT)
            self.assertEqual(decode.decode_block(block), TEXT)

    def test_offsets_row_bounds(self) -> None:
        self.check(offsets_spec(rows=b"\3"), b"abcd")
        self.check(offsets_spec(rows=b"\3\4"), b"abcdef")
        self.check(offsets_spec(col=b"\5", first=0, rows=b"\1\2\3"), b"abcdef")

    def test_offsets_without_values(self) -> None:
        self.check(offsets_spec(first=0, rows=b""), b"x")
        self.check(offsets_spec(rows=b"\3"), b"")

    def test_sparse(self) -> None:
        for flags in (Raw(), RANS_FLAGS, Runs(), Packed(255), CHAIN):
            for size in (1, 8, 9, 1024, 1500):
                self.check(Spec(2, 8, [Raw(), Packed(255)], flags=flags), sparse_values(size))

    def test_sparse_wide(self) -> None:
        self.check(wide_spec(flags=Raw(), word_map=2), wide_values(700) + bytes(1200))

    def test_sparse_all_zero(self) -> None:
        pairs: list[tuple[Coder, Coder]] = [
            (HUFFMAN, RANS), (CHAIN, PACKED), (Runs(), Constant(3)), (Raw(), Raw()),
            (Gaps(1), Apart(0, Gaps(0), RANS)),
        ]
        for planes in pairs:
            self.check(Spec(2, 8, planes, flags=Constant(0)), bytes(3000))

    def test_sparse_flagged_zero(self) -> None:
        block = coded(bytes([16, 8, 10]) + b"\0\0", 2, b"\3\0\1")
        self.assertEqual(decode.decode_block(block), b"\0\1")

    def test_records_least_significant_first(self) -> None:
        block = coded(bytes([2, 8, 10]) + b"\0\1\7\0\0", 8, b"\1\2\4\5\6\x10")
        self.assertEqual(decode.decode_block(block), b"\1\2\7\4\5\6\7\x10")


class Rejects(RejectTest):
    """Every rule of rejection."""

    def test_first_outside_row(self) -> None:
        self.check(offsets_spec(first=7).block(b""), "first column is outside")

    def test_unknown_rows_coder(self) -> None:
        block = b"\2\0" + offsets_spec().recipe() + b"\5\x0a"
        self.check(block, "unknown coder")

    def test_rows_stream(self) -> None:
        block = b"\2\0" + offsets_spec().recipe() + b"\5\2\1\0\2"
        self.check(block, "padding of a packed")

    def test_index_too_small(self) -> None:
        self.check(b"\2\3" + Spec().recipe() + u24(2) + b"abc", "ends before")

    def test_index_too_large(self) -> None:
        self.check(b"\2\3" + Spec().recipe() + u24(4) + b"abc", "ends before")

    def test_index_moved_bound(self) -> None:
        block = b"\2" + varint(1025) + Spec().recipe() + u24(1023) + u24(2) + bytes(1025)
        self.check(block, "ends before")
        block = b"\2" + varint(1025) + Spec().recipe() + u24(1025) + u24(0) + bytes(1025)
        self.check(block, "left over in the segment")

    def test_flags_beyond_values(self) -> None:
        recipe = bytes([16, 8, 10])
        self.check(coded(recipe + b"\0\0", 3, b"\x0fabcd"), "zero flags beyond")
        self.check(coded(recipe + b"\1\377\0", 3, b"abc"), "zero flags beyond")

    def test_segment_too_long(self) -> None:
        self.check(coded(bytes([0, 8, 10, 0]), 3, b"abcd"), "left over in the segment")
        self.check(coded(bytes([0, 8, 10, 1, 0]), 3, b"a"), "left over in the segment")

    def test_segment_too_short(self) -> None:
        self.check(coded(bytes([0, 8, 10, 0]), 3, b"ab"), "ends before")

    def test_exceptions_missing(self) -> None:
        recipe = bytes([1, 16, 10]) + u16(0) + b"\0"
        self.check(coded(recipe, 4, b"\1\377"), "ends before")

    def test_exceptions_left_over(self) -> None:
        recipe = bytes([1, 16, 10]) + u16(0) + b"\0"
        self.check(coded(recipe, 4, b"\1\1\0\0"), "left over in the segment")


if __name__ == "__main__":
    unittest.main()
