"""Tests of decode_file.py by docs/format.md, section 7.6: orders of bases."""

from __future__ import annotations

import contextlib
import random
import struct
import tempfile
import unittest
from pathlib import Path

from arranged_builders import (
    ARRANGED,
    AS_THIS_FILE,
    IN_OWN_ORDER,
    ORDERS,
    Ranges,
    arranged,
    arranged_file,
    items_of,
    leaves_base,
    leaves_hash,
    order_of,
    outside,
    spans_of,
    stretch_item,
)
from builders import varint
from decode import Corrupt
from decode_file import NoBase, decode_file
from file_builders import (
    Span,
    base_of,
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

OLD = random.Random(6).randbytes(900)
SOME = ((3, 10), (10, 200), (350, 351), (400, 850))
OTHERS = ((0, 100), (500, 700))
FEW = ((1, 3), (5, 9))
ABC = plain_span(b"abc")
ANY_FILE, SAFETENSORS = 0, 1


def same_span(raw: bytes, fields: bytes) -> Span:
    """A span of up to 1024 bytes that is as its base."""
    return Span(raw, [same(len(raw))], reference=fields)


def as_base(ranges: Ranges, source: int = 1) -> list[Span]:
    """Spans of a file that is as the old one, with references to the order of its stretches."""
    parts = [outside(OLD, ranges), *[OLD[start:end] for start, end in ranges]]
    start, spans = 0, []
    for part in parts:
        if part:
            spans.append(same_span(part, reference(source, start)))
        start += len(part)
    return spans


class FolderTest(unittest.TestCase):
    """Base of tests that need files."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def put(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path


class Accepts(FolderTest):
    """What decodes."""

    def check(self, file: bytes, raw: bytes, old: bytes = OLD) -> None:
        self.assertEqual(decode_file(file, [self.put("given", old)]), raw)

    def unarranged(self, raw: bytes, fields: bytes, base: bytes, kind: int) -> bytes:
        """A file that is one span, of kind 0 or 1."""
        return file_of([same_span(raw, fields)], [item(raw)], kind | ORDERS, [base])

    def test_listed(self) -> None:
        """References count the bytes of a base in its order, in files of every kind."""
        for ranges in (SOME, OTHERS, ((0, 900),), ((899, 900),)):
            base = leaves_base(OLD) + order_of(ranges)
            read = arranged(OLD, ranges)
            for kind in (ANY_FILE, SAFETENSORS):
                for start in (0, 1, 250, 699):
                    raw = read[start : start + 201]
                    self.check(self.unarranged(raw, reference(1, start), base, kind), raw)
            file = arranged_file(OLD, ranges, as_base(ranges), [base], True)
            self.check(file, OLD)

    def test_by_hand(self) -> None:
        """Bytes outside of stretches come first, then the stretches."""
        base = leaves_base(b"0123456789") + varint(3) + varint(2) + varint(2) + b"\0\4"
        file = self.unarranged(b"0189234567", reference(1), base, ANY_FILE)
        self.check(file, b"0189234567", b"0123456789")

    def test_own_order(self) -> None:
        """A base may be in its own order where another one is not."""
        bases = [leaves_base(OLD, b"a") + order_of(OTHERS), leaves_base(OLD, b"b") + IN_OWN_ORDER]
        raws = arranged(OLD, OTHERS)[:300], OLD[:300]
        spans = [same_span(raw, reference(number)) for number, raw in enumerate(raws, 1)]
        file = file_of(spans, [item(*raws)], ANY_FILE | ORDERS, bases)
        self.check(file, b"".join(raws))

    def test_as_this_file(self) -> None:
        """A base may have the stretches of the file, and bytes of its own after them."""
        base = leaves_base(OLD) + AS_THIS_FILE
        self.check(arranged_file(OLD, SOME, as_base(SOME), [base], True), OLD)
        old, ranges = OLD + b"more", ((3, 253), (257, 307))
        first, second = old[3:253], old[257:307]
        spans = [plain_span(b"abcdefg")]
        spans += [same_span(first, reference(1, 604)), same_span(second, reference(1, 854))]
        raw = b"abc" + first + b"defg" + second
        base = leaves_base(old) + AS_THIS_FILE
        self.check(arranged_file(raw, ranges, spans, [base], True), raw, old)

    def test_only_references_count(self) -> None:
        """The content hash and the length of a base do not depend on its order."""
        wrong = digest(digest(arranged(OLD, OTHERS))) + varint(900) + b"\1x"
        raw = arranged(OLD, OTHERS)[:200]
        file = self.unarranged(raw, reference(1), wrong + order_of(OTHERS), ANY_FILE)
        with self.assertRaises(NoBase):
            decode_file(file, [self.put("given", OLD)])

    def test_kinds_of_bases(self) -> None:
        """A base with an order may be plain or of any kind, whatever stretches it has itself."""
        raw = arranged(OLD, OTHERS)[100:300]
        of_items = digest(digest(OLD[:500]) + digest(OLD[500:])) + varint(900) + b"\4base"
        parts = [plain_span(OLD[:500]), plain_span(OLD[500:])]
        items = [item(OLD[:500]), item(OLD[500:])]
        cases = [
            (leaves_base(OLD), OLD),
            (base_of(OLD), OLD),
            (base_of(OLD), file_of([plain_span(OLD)], [item(OLD)], ANY_FILE)),
            (of_items, file_of(parts, items, SAFETENSORS)),
            (leaves_base(OLD), arranged_file(OLD, OTHERS)),
            (leaves_base(OLD), arranged_file(OLD, SOME)),
        ]
        for base, old in cases:
            fields = base + order_of(OTHERS)
            self.check(self.unarranged(raw, reference(1, 100), fields, ANY_FILE), raw, old)

    def test_without_orders(self) -> None:
        """Without bit 6, bases of files of kind 2 and of any other are in their own order."""
        spans = [plain_span(b"abc"), same_span(OLD[5:305], reference(1, 5))]
        raw = b"ab" + OLD[5:305] + b"c"
        file = arranged_file(raw, ((2, 302),), spans, [leaves_base(OLD)])
        self.check(file, raw)
        self.check(file, raw, arranged_file(OLD, SOME))

    def test_conversions(self) -> None:
        """What is converted are the bytes that are read, across stretches too."""
        base = struct.pack("<ff", 1.5, -2.0)
        old = b"?" + base[:3] + b"??" + base[3:]
        fields = leaves_base(old) + order_of(((1, 4), (6, 11)))
        raw = b"\xc0\x3f\0\xc0"
        self.check(self.unarranged(raw, reference(1, 3, 2), fields, ANY_FILE), raw, old)
        raw = struct.pack("<IIII", *[half << 16 for half in struct.unpack("<4H", base)])
        self.check(self.unarranged(raw, reference(1, 3, 5), fields, ANY_FILE), raw, old)

    def test_limits(self) -> None:
        """A base has up to 2^20 stretches, and up to 2^26 bytes outside of them."""
        count = 1 << 20
        most = leaves_base(bytes(2 * count)) + varint(1 + count) + b"\1\1" * count
        self.check(self.unused(most), b"abc")
        for outside_len in (1, 1 << 26):
            base = bytes(16) + varint((1 << 40) + outside_len) + b"\1x"
            self.check(self.unused(base + varint(2) + varint(1) + varint(1 << 40)), b"abc")

    def test_long_base_in_its_own_order(self) -> None:
        """Only a base that has stretches is limited in what is outside of them."""
        base = bytes(16) + varint(1 << 40) + b"\1x" + IN_OWN_ORDER
        self.check(self.unused(base), b"abc")

    def unused(self, *bases: bytes) -> bytes:
        """A file that names bases it does not use."""
        return file_of([ABC], [item(b"abc")], ANY_FILE | ORDERS, bases)

    def test_most_stretches_together(self) -> None:
        """Bases have up to 2^23 stretches together."""
        self.check(many_stretches(1 << 13), bytes(1 << 13))


def many_stretches(count: int) -> bytes:
    """A file of this many stretches of a byte, with as many as it can of bases that have them."""
    raw = bytes(count)
    base = leaves_base(raw) + AS_THIS_FILE
    cuts = [raw[start : start + 1024] for start in range(0, count, 1024)]
    spans = [Span(raw, list(map(stored, cuts)))]
    items = [item(b""), *[stretch_item(0, b"\0")] * count]
    return file_of(spans, items, ARRANGED | ORDERS, [base] * 1024, leaves_hash(raw))


class Rejects(FolderTest):
    """Every rule of rejection."""

    def check(self, file: bytes, message: str) -> None:
        with self.assertRaisesRegex(Corrupt, message):
            decode_file(file)

    def order(self, order: bytes, message: str, length: int = 900) -> None:
        """A base of this order, the first or the second one, in files of every kind."""
        base = leaves_hash(OLD) + varint(length) + b"\1x"
        for bases in ([base + order], [leaves_base(OLD) + order_of(SOME), base + order]):
            place = f"index: base {len(bases)}: {message}"
            for kind in (ANY_FILE, SAFETENSORS):
                self.check(file_of([ABC], [item(b"abc")], kind | ORDERS, bases), place)
            self.check(arranged_file(OLD, OTHERS, None, bases, True), place)

    def test_as_this_file_without_kind_2(self) -> None:
        """Only a file of kind 2 has stretches that a base can have too."""
        for kind in (ANY_FILE, SAFETENSORS):
            file = file_of([ABC], [item(b"abc")], kind | ORDERS, [base_of(OLD) + AS_THIS_FILE])
            self.check(file, "base 1: order of this file, which is not arranged")

    def test_as_this_file_without_stretches(self) -> None:
        """An empty original has no stretches that a base can have too."""
        file = arranged_file(b"", (), None, [base_of(OLD) + AS_THIS_FILE], True)
        self.check(file, "order of this file, which has no stretches")

    def test_beyond_the_base(self) -> None:
        """Stretches end at or before the end of the base."""
        cases = [((0, 901),), ((900, 901),), ((901, 902),), ((0, 900), (900, 901))]
        cases += [((1 << 63, 1 << 64),), ((1, 1 << 64),)]
        for ranges in cases:
            self.order(order_of(ranges), "stretches end at .* beyond the base")
        most = varint((1 << 64) - 1)
        self.order(varint(3) + most + most + b"\2\1", "stretches end at .* beyond the base")

    def test_beyond_the_base_as_this_file(self) -> None:
        """The stretches of the file lie within the base too, if it has the same."""
        for length in (0, 699, 849):
            base = leaves_base(OLD[:length]) + AS_THIS_FILE
            file = arranged_file(OLD, SOME, None, [base], True)
            self.check(file, "index: base 1: stretches end at 850, beyond the base")

    def test_stretch_of_no_bytes(self) -> None:
        """Stretches are not empty."""
        self.order(varint(2) + b"\0\0", "stretch 0: stretch has no bytes")
        self.order(varint(3) + b"\1\1\1\0", "stretch 1: stretch has no bytes")

    def test_too_much_outside(self) -> None:
        """At most 2^26 bytes of a base are outside of its stretches."""
        message = "67108865 bytes are outside of stretches"
        self.order(varint(2) + b"\0\1", message, (1 << 26) + 2)
        self.order(varint(3) + b"\1\1\1\2", message, (1 << 26) + 4)
        base = bytes(16) + varint((1 << 26) + 699) + b"\1x" + AS_THIS_FILE
        file = arranged_file(OLD, SOME, None, [base], True)
        self.check(file, "base 1: .* bytes are outside of stretches")

    def test_too_many_stretches(self) -> None:
        """A base has at most 2^20 stretches."""
        for count in ((1 << 20) + 1, 1 << 23, (1 << 64) - 2):
            self.order(varint(1 + count), f"base has {count} stretches")
        self.check(self.header(varint(1 + (1 << 20))), "stretch 0: ends before")

    def header(self, order: bytes) -> bytes:
        """A file whose index ends with an order."""
        index = bytes([128 | ORDERS]) + varint(1) + leaves_base(OLD) + order
        return seal(stored(b"abc"), index, 3)

    def test_too_many_stretches_together(self) -> None:
        """Bases have at most 2^23 stretches together."""
        self.check(many_stretches((1 << 13) + 1), "index: bases have 8389632 stretches")

    def test_varints(self) -> None:
        """The fields of an order are varints like any others."""
        self.order(b"\x80\0", "varint is longer than needed")
        self.order(b"\x82\0\1\1", "varint is longer than needed")
        self.order(b"\2\x81\0\1", "stretch 0: varint is longer than needed")
        self.order(b"\2\1\x81\0", "stretch 0: varint is longer than needed")

    def test_truncated(self) -> None:
        """An index that ends early is rejected at every length."""
        bases = [leaves_base(OLD) + order for order in (order_of(SOME), IN_OWN_ORDER, AS_THIS_FILE)]
        spans, items = spans_of(OLD, FEW), items_of(OLD, FEW)
        fields = [span.fields() for span in spans]
        index = index_of(fields, items, ARRANGED | ORDERS, bases, leaves_hash(OLD))
        body = b"".join(span.pieces() for span in spans)
        for size in range(len(index)):
            self.check(seal(body, index[:size], 900), "index: .*ends before")

    def test_no_order(self) -> None:
        """With bit 6, every base has an order."""
        file = file_of([ABC], [item(b"abc")], ANY_FILE | ORDERS, [leaves_base(OLD)])
        self.check(file, "index: ")

    def test_reference_beyond_the_base(self) -> None:
        """What is read ends within the base, in whatever order."""
        for start in (897, 900, 1 << 40):
            span = same_span(b"abcd", reference(1, start))
            base = leaves_base(OLD) + order_of(SOME)
            file = file_of([span], [item(b"abcd")], ANY_FILE | ORDERS, [base])
            self.check(file, "index: span 0: reference ends beyond base 1")

    def test_wrong_order(self) -> None:
        """Bytes of a base in another order are not those of the item."""
        base = leaves_base(OLD) + order_of(SOME)
        file = file_of([same_span(OLD, reference(1))], [item(OLD)], ANY_FILE | ORDERS, [base])
        with self.assertRaisesRegex(Corrupt, "hash of item 0 is wrong"):
            decode_file(file, [self.put("given", OLD)])

    def test_damage(self) -> None:
        """An index damaged before its hash was made decodes, is Corrupt or has no base."""
        rng = random.Random(7)
        bases = [leaves_base(OLD) + order_of(SOME), leaves_base(OLD, b"b") + AS_THIS_FILE]
        spans, items = as_base(OTHERS, 2), items_of(OLD, OTHERS)
        fields = [span.fields() for span in spans]
        index = index_of(fields, items, ARRANGED | ORDERS, bases, leaves_hash(OLD))
        body = b"".join(span.pieces() for span in spans)
        given = [self.put("given", OLD)]
        self.assertEqual(decode_file(seal(body, index, 900), given), OLD)
        for _ in range(1500):
            damaged = bytearray(index)
            for _ in range(rng.randrange(1, 3)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            with contextlib.suppress(Corrupt, NoBase):
                self.assertEqual(decode_file(seal(body, bytes(damaged), 900), given), OLD)


if __name__ == "__main__":
    unittest.main()
