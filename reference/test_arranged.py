"""Tests of decode_file.py by docs/format.md, section 7.6: files of kind 2."""

from __future__ import annotations

import random
import unittest
from collections.abc import Sequence

from arranged_builders import (
    ARRANGED,
    Ranges,
    arranged,
    arranged_file,
    items_of,
    leaves_base,
    leaves_hash,
    outside,
    spans_of,
    stretch_item,
)
from builders import varint
from decode import Corrupt
from decode_file import decode_file, read_file
from file_builders import (
    Span,
    constant,
    digest,
    file_of,
    index_of,
    item,
    plain_span,
    reference,
    same,
    seal,
    stored,
)

RAW = random.Random(4).randbytes(900)
SOME = ((3, 10), (10, 200), (350, 351), (400, 850))
TEN = b"0123456789"


def content_file(spans: Sequence[Span], items: Sequence[bytes], original: bytes) -> bytes:
    """A file of kind 2 of any spans and items."""
    return file_of(spans, items, ARRANGED, content=leaves_hash(original))


def constant_span(count: int) -> Span:
    """A span of many zeros."""
    return Span(bytes(count), [constant(b"\0", count)], block_log2=24)


class Accepts(unittest.TestCase):
    """What decodes."""

    def check(self, file: bytes, raw: bytes) -> None:
        self.assertEqual(decode_file(file), raw)

    def test_stretches(self) -> None:
        """Stretches come back to where they were, at the ends and beside each other too."""
        everything = ((0, 900),)
        cases = [SOME, everything, ((0, 1),), ((899, 900),), ((0, 450), (450, 900))]
        cases += [((1, 2), (3, 4), (5, 6)), tuple((i, i + 1) for i in range(0, 900, 2))]
        for ranges in cases:
            self.check(arranged_file(RAW, ranges), RAW)

    def test_by_hand(self) -> None:
        """Bytes outside of stretches come first, and what is left of them comes last."""
        spans = [plain_span(b"0189"), plain_span(b"23"), plain_span(b"4567")]
        items = [item(b"0189"), stretch_item(2, b"23"), stretch_item(0, b"4567")]
        self.check(content_file(spans, items, TEN), TEN)
        spans = [plain_span(b"0459"), plain_span(b"123678")]
        items = [item(b"0459"), stretch_item(1, b"123"), stretch_item(2, b"678")]
        self.check(content_file(spans, items, TEN), TEN)

    def test_empty_original(self) -> None:
        """An original of no bytes has no stretches, and one item."""
        self.check(content_file([], [item(b"")], b""), b"")

    def test_nothing_outside(self) -> None:
        """Without bytes outside of stretches, the first item is there and has none."""
        items = [item(b""), stretch_item(0, b"0123"), stretch_item(0, b"456789")]
        self.check(content_file([plain_span(TEN)], items, TEN), TEN)

    def test_items_of_several_spans(self) -> None:
        """The first item and stretches may be made of spans, or many of one span."""
        spans = [plain_span(raw) for raw in (b"01", b"89", b"2", b"34", b"5", b"67")]
        items = [item(b"01", b"89"), stretch_item(2, b"2", b"34", b"5")]
        items += [stretch_item(0, b"6"), stretch_item(0, b"7")]
        self.check(content_file(spans, items, TEN), TEN)

    def test_no_bases(self) -> None:
        """Bit 7 of the kind may be set, and bit 6 with it, without any base."""
        self.check(arranged_file(RAW, SOME, bases=[]), RAW)
        self.check(arranged_file(RAW, SOME, bases=[], has_orders=True), RAW)

    def test_content_hash(self) -> None:
        """The content hash is that of the leaves of the original, whatever the stretches are."""
        data = bytes(range(256)) * 257
        leaves = [data[:65536], data[65536:]]
        for start in (1, 65535, 65536, 65537):
            spans = [Span(data[:start], self.blocks(data[:start]), block_log2=16)]
            spans += [Span(data[start:], self.blocks(data[start:]), block_log2=16)]
            items = [item(data[:start]), stretch_item(start, data[start:])]
            found = read_file(content_file(spans, items, data))
            expected = (digest(digest(leaves[0]) + digest(leaves[1])),)
            self.assertEqual((found.data, found.content_hashes), (data, expected))
        self.assertEqual(read_file(arranged_file(b"", ())).content_hashes, (digest(b""),))

    def blocks(self, data: bytes) -> list[bytes]:
        return [stored(data[start : start + 65536]) for start in range(0, len(data), 65536)]

    def test_own_references(self) -> None:
        """References to this file count its bytes in the order of its stretches."""
        raw = b"ab0123cd0123ef"
        ranges = ((2, 6), (8, 12))
        self.assertEqual(arranged(raw, ranges), b"abcdef01230123")
        spans = [*spans_of(raw, ranges)[:2], Span(b"0123", [same(4)], reference=reference(0, 6))]
        self.check(arranged_file(raw, ranges, spans, bases=[]), raw)
        raw = b"ab" + b"bcde" + b"cdef"
        spans = [plain_span(b"abcdef"), Span(b"bcde", [same(4)], reference=reference(0, 1))]
        self.check(arranged_file(raw, ((2, 6),), spans, bases=[]), raw)

    def test_longest_first_item(self) -> None:
        """The first item may have 2^26 bytes."""
        spans = [constant_span(1 << 24)] * 4
        items = [item(*[span.raw for span in spans]), stretch_item(5, b"x")]
        found = decode_file(content_file([*spans, plain_span(b"x")], items, self.long_original()))
        self.assertEqual(found, self.long_original())

    def long_original(self) -> bytes:
        return bytes(5) + b"x" + bytes((1 << 26) - 5)

    def test_long_stretch(self) -> None:
        """A stretch may have more bytes than a first item."""
        spans = [constant_span(1 << 24)] * 4 + [plain_span(b"\0")]
        items = [item(b""), stretch_item(0, *[span.raw for span in spans])]
        original = bytes((1 << 26) + 1)
        self.check(content_file(spans, items, original), original)


class Rejects(unittest.TestCase):
    """Every rule of rejection."""

    def check(self, file: bytes, message: str) -> None:
        with self.assertRaisesRegex(Corrupt, message):
            decode_file(file)

    def items(
        self, items: Sequence[bytes], message: str, spans: Sequence[Span] | None = None
    ) -> None:
        """A file of ten bytes, by default in a span of four and one of six."""
        made = [plain_span(b"0189"), plain_span(b"234567")] if spans is None else spans
        self.check(content_file(made, items, TEN), message)

    def index(self, index: bytes, message: str) -> None:
        self.check(seal(stored(TEN), index, 10), f"index: {message}")

    # Section 7.2

    def test_truncated(self) -> None:
        """An index that ends early is rejected at every length, and one with more at its end."""
        spans = spans_of(RAW, SOME)
        fields, items = [span.fields() for span in spans], items_of(RAW, SOME)
        index = index_of(fields, items, ARRANGED, [leaves_base(TEN)], leaves_hash(RAW))
        body = b"".join(span.pieces() for span in spans)
        for size in range(len(index)):
            self.check(seal(body, index[:size], 900), "index: .*ends before")
        self.check(seal(body, index + b"\0", 900), "bytes left over in the index")

    # Section 7.4

    def test_no_items(self) -> None:
        """There is at least one item, also without any bytes."""
        self.check(content_file([], [], b""), "kind 2 has no item")

    def test_item_lengths(self) -> None:
        """Items have as many bytes as the original."""
        self.items([item(b"0189"), stretch_item(2, b"23456")], "items have 9 bytes")
        self.items([item(b"0189"), stretch_item(2, b"2345678")], "items have 11 bytes")

    def test_item_that_cuts_spans(self) -> None:
        """A stretch lies in one span or is made of whole ones."""
        spans = [plain_span(raw) for raw in (b"0189", b"234", b"567")]
        items = [item(b"0189"), stretch_item(2, b"23"), stretch_item(0, b"4567")]
        self.items(items, "item 2 cuts a span and continues in another", spans)

    def test_item_hashes(self) -> None:
        """Items have the hashes that they are given, also if the content hash is right."""
        items = [item(b"0189"), stretch_item(2, b"234"), stretch_item(0, b"567")]
        for number, fields in enumerate(items):
            wrong = fields[:-1] + bytes([fields[-1] ^ 1])
            changed = [*items[:number], wrong, *items[number + 1 :]]
            self.items(changed, f"hash of item {number} is wrong")

    # Section 7.6

    def test_stretch_of_no_bytes(self) -> None:
        """Only the first item may have no bytes."""
        self.items([item(b"0189"), stretch_item(0, b""), stretch_item(2, b"234567")], "no bytes")
        self.items([item(b"0189"), stretch_item(2, b"234567"), stretch_item(2, b"")], "no bytes")
        self.check(content_file([], [item(b""), stretch_item(0, b"")], b""), "no bytes")

    def test_bytes_without_stretches(self) -> None:
        """An original that has bytes has stretches."""
        for spans in ([plain_span(TEN)], [plain_span(TEN[:5]), plain_span(TEN[5:])]):
            items = [item(*[span.raw for span in spans])]
            self.items(items, "original has bytes, but no stretches", spans)

    def test_first_item_ends_in_a_span(self) -> None:
        """No span holds bytes of the first item and others."""
        message = "item 0 does not end where a span ends"
        items = [item(b"0189"), stretch_item(2, b"234567")]
        self.items(items, message, [plain_span(b"0189234567")])
        cut = [item(b"0189"), stretch_item(2, b"2"), stretch_item(0, b"34567")]
        self.items(cut, message, [plain_span(b"01892"), plain_span(b"34567")])
        items = [item(b"018"), stretch_item(2, b"9"), stretch_item(0, b"234567")]
        self.items(items, message)

    def test_first_item_too_long(self) -> None:
        """The first item has at most 2^26 bytes."""
        spans = [constant_span(1 << 24)] * 4 + [plain_span(b"\0")]
        items = [item(*[span.raw for span in spans]), stretch_item(0, b"x")]
        original = b"x" + bytes((1 << 26) + 1)
        file = content_file([*spans, plain_span(b"x")], items, original)
        self.check(file, "index: item 0 has 67108865 bytes")

    def test_more_bytes_before_than_there_are(self) -> None:
        """The bytes before all stretches are in the first item."""
        message = "bytes before stretches, item 0 has 4"
        for before in (5, 6, 1 << 32, (1 << 64) - 1):
            self.items([item(b"0189"), stretch_item(before, b"234567")], message)
            late = [stretch_item(0, b"234"), stretch_item(before, b"567")]
            self.items([item(b"0189"), *late], message)
        both = [stretch_item(2, b"234"), stretch_item(3, b"567")]
        self.items([item(b"0189"), *both], f"5 {message}")
        most = (1 << 64) - 1
        both = [stretch_item(most, b"234"), stretch_item(2, b"567")]
        self.items([item(b"0189"), *both], message)

    def test_too_many_stretches(self) -> None:
        """There are at most 2^20 stretches."""
        start = bytes([ARRANGED]) + leaves_hash(TEN) + varint(1) + plain_span(TEN).fields()
        for count in ((1 << 20) + 1, 1 << 40, (1 << 64) - 2):
            self.index(start + varint(count + 1), f"original has {count} stretches")
        self.index(start + varint((1 << 20) + 1), "item 0: ends before")

    def test_varints(self) -> None:
        """`before` is a varint like any other, and the first item has none."""
        good = stretch_item(2, b"234567")
        self.items([item(b"0189"), b"\x82\0" + good[1:]], "item 1: .*longer than needed")
        self.items([item(b"0189"), good[:1] + b"\x86\0" + good[2:]], "item 1: .*longer than needed")
        self.items([stretch_item(0, b"0189"), good], "index: ")

    def test_content_hash(self) -> None:
        """Every bit of the content hash counts."""
        spans, items = spans_of(TEN, ((2, 8),)), items_of(TEN, ((2, 8),))
        for bit in range(128):
            wrong = bytearray(leaves_hash(TEN))
            wrong[bit // 8] ^= 1 << bit % 8
            self.check(file_of(spans, items, ARRANGED, content=wrong), "content hash is wrong")

    def test_content_hash_of_the_wrong_thing(self) -> None:
        """It is that of leaves, of bytes in their own order, and not that of items."""
        ranges = ((2, 8),)
        first, second = outside(TEN, ranges), TEN[2:8]
        wrong = [digest(TEN), leaves_hash(arranged(TEN, ranges)), digest(arranged(TEN, ranges))]
        wrong += [digest(digest(first) + digest(second)), digest(digest(digest(TEN)))]
        spans, items = spans_of(TEN, ranges), items_of(TEN, ranges)
        for content in wrong:
            file = file_of(spans, items, ARRANGED, content=content)
            self.check(file, "content hash is wrong")

    def test_wrong_place(self) -> None:
        """A stretch that is put elsewhere gives another original."""
        for before in (0, 1, 3, 4):
            items = [item(b"0189"), stretch_item(before, b"234567")]
            self.items(items, "content hash is wrong")

    def test_own_reference_in_the_order_of_the_original(self) -> None:
        """A reference to bytes that come later among the arranged ones is rejected."""
        raw = b"ab0123cd0123ef"
        spans = spans_of(raw, ((2, 6), (8, 12)))
        for start in (7, 8, 10):
            wrong = [*spans[:2], Span(b"0123", [same(4)], reference=reference(0, start))]
            file = arranged_file(raw, ((2, 6), (8, 12)), wrong, bases=[])
            self.check(file, "index: span 2: reference ends beyond its span's start")
        wrong = [*spans[:2], Span(b"0123", [same(4)], reference=reference(0, 2))]
        file = arranged_file(raw, ((2, 6), (8, 12)), wrong, bases=[])
        self.check(file, "hash of item 2 is wrong")

    def test_damage(self) -> None:
        """An index damaged before its hash was made gives the original or is Corrupt."""
        rng = random.Random(5)
        ranges: Ranges = ((1, 3), (3, 4), (6, 9))
        spans = spans_of(TEN, ranges)
        fields = [span.fields() for span in spans]
        index = index_of(fields, items_of(TEN, ranges), ARRANGED, content=leaves_hash(TEN))
        body = b"".join(span.pieces() for span in spans)
        for _ in range(1500):
            damaged = bytearray(index)
            for _ in range(rng.randrange(1, 3)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            try:
                found = decode_file(seal(body, bytes(damaged), 10))
            except Corrupt as error:
                self.assertRegex(str(error), r"\A[^A-Z\n]+\Z")
            else:
                self.assertEqual(found, TEN)


if __name__ == "__main__":
    unittest.main()
