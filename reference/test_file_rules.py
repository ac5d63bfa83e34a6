"""Tests of decode_file.py by docs/format.md, sections 6 and 7: every rule of rejection."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from itertools import pairwise

from builders import u16, varint
from decode import Corrupt
from decode_file import Unsupported, decode_file
from file_builders import (
    HEADER,
    Span,
    constant,
    digest,
    file_of,
    index_of,
    item,
    one_span_file,
    piece,
    plain_span,
    seal,
    shared_span,
    small_file,
    stored,
)

ABC = plain_span(b"abc")
ZERO = b"\0"


class RejectTest(unittest.TestCase):
    """Base of tests of rules of rejection, each with the message of that rule."""

    def check(self, file: bytes, message: str) -> None:
        with self.assertRaisesRegex(Corrupt, message):
            decode_file(file)

    def index(self, index: bytes, message: str, span: Span = ABC) -> None:
        """A file with the pieces of `span` and an index of any bytes."""
        self.check(seal(span.pieces(), index, len(span.raw)), message)

    def span(self, fields: bytes, message: str, span: Span = ABC) -> None:
        self.index(index_of([fields], [item(span.raw)]), f"index: span 0: {message}", span)

    def items(self, spans: Sequence[Span], items: Sequence[bytes], message: str) -> None:
        self.check(file_of(spans, items), message)


class RejectsFile(RejectTest):
    """Section 6: the header, the footer and their lengths."""

    def test_too_short(self) -> None:
        """A file without room for a header and a footer is rejected."""
        file = seal(b"", b"", 0)
        self.assertEqual(len(file), 80)
        for size in range(80):
            self.check(file[:size], "shorter than a header and a footer")
            self.check(file[80 - size :], "shorter than a header and a footer")

    def test_magic(self) -> None:
        """Each byte of the magic counts, also when footer_hash is right."""
        index = index_of([ABC.fields()], [item(ABC.raw)])
        for place in range(8):
            header = bytearray(HEADER)
            header[place] ^= 1
            file = seal(ABC.pieces(), index, 3, header=bytes(header))
            self.check(file, "does not start as an lmc file")

    def test_end_magic(self) -> None:
        """Each byte of the end magic counts."""
        for place in range(1, 9):
            file = bytearray(one_span_file(ABC))
            file[-place] ^= 1
            self.check(bytes(file), "does not end as an lmc file")

    def test_footer_hash(self) -> None:
        """footer_hash covers the header and all fields before it, and itself."""
        file = one_span_file(ABC)
        places = [*range(8, 16), *range(len(file) - 64, len(file) - 8)]
        for place in places:
            damaged = bytearray(file)
            damaged[place] ^= 128
            self.check(bytes(damaged), "hash of the header and the footer is wrong")

    def test_index_hash(self) -> None:
        """index_hash covers all of the index, and is looked at before the index is."""
        file = one_span_file(ABC)
        index = index_of([ABC.fields()], [item(ABC.raw)], 0)
        for place in range(len(file) - 64 - len(index), len(file) - 64):
            damaged = bytearray(file)
            damaged[place] ^= 255
            self.check(bytes(damaged), "hash of the index is wrong")

    def test_index_too_long(self) -> None:
        """An index of more than 2^28 bytes is rejected before it is looked for."""
        for length in ((1 << 28) + 1, (1 << 64) - 1):
            self.check(seal(b"", b"", 0, index_len=length), f"index_len is {length}")

    def test_parts_are_not_the_file(self) -> None:
        """The lengths of the parts are those of the file, neither more nor less."""
        index = index_of([ABC.fields()], [item(ABC.raw)])
        for body_len in (0, 4, 6, (1 << 64) - 1):
            self.check(seal(ABC.pieces(), index, 3, body_len=body_len), "the file has")
        for index_len in (0, len(index) - 1, len(index) + 1, 1 << 28):
            self.check(seal(ABC.pieces(), index, 3, index_len=index_len), "the file has")

    def test_bytes_between_parts(self) -> None:
        """Bytes added before, between or after the parts are rejected."""
        file = small_file()
        for place in range(len(file) + 1):
            self.check(file[:place] + ZERO + file[place:], "")


class Refuses(unittest.TestCase):
    """Section 6: whole files of later versions, which are not damage."""

    def test_version(self) -> None:
        """Another version is refused by its number, whatever the lengths would say."""
        for version in (0, 2, 256, 65535):
            header = HEADER[:8] + u16(version) + HEADER[10:]
            for lengths in ({}, {"body_len": 7}, {"index_len": 1 << 40}):
                file = seal(b"new", b"newer", 3, header=header, **lengths)
                with self.assertRaisesRegex(Unsupported, f"has version {version},"):
                    decode_file(file)

    def test_reserved_bytes(self) -> None:
        """Bytes of the header that are not 0 are refused as those of a later version."""
        for place in range(10, 16):
            header = bytearray(HEADER)
            header[place] = 64
            with self.assertRaisesRegex(Unsupported, "a later version"):
                decode_file(seal(b"", b"", 0, header=bytes(header)))

    def test_damage_before_age(self) -> None:
        """A damaged version is damage, not age."""
        file = bytearray(one_span_file(ABC))
        file[8] = 2
        with self.assertRaisesRegex(Corrupt, "hash of the header"):
            decode_file(bytes(file))


class RejectsIndex(RejectTest):
    """Sections 7.2 and 7.3: the fields of the index."""

    def test_index_truncated(self) -> None:
        """An index that ends early is rejected at every length."""
        span = shared_span(600)
        index = index_of([span.fields()], [item(span.raw)])
        for size in range(len(index)):
            self.index(index[:size], "index: .*ends before", span)

    def test_index_left_over(self) -> None:
        """No byte follows the last item."""
        index = index_of([ABC.fields()], [item(ABC.raw)])
        self.index(index + ZERO, "left over in the index")

    def test_kind(self) -> None:
        """Kinds other than 0, 1 and 2 are rejected."""
        for kind in (3, 63, 64 + 3, 128 + 3, 128 + 64 + 3, 255):
            index = index_of([ABC.fields()], [item(ABC.raw)], kind)
            self.index(index, f"unknown kind {kind % 64}")

    def test_orders_without_bases(self) -> None:
        """Bit 6 of the kind needs bit 7."""
        for kind in (64, 64 + 1, 64 + 2):
            index = index_of([ABC.fields()], [item(ABC.raw)], kind)
            self.index(index, "bases have orders, but the file has no bases")

    def test_counts(self) -> None:
        """Counts that no index can hold are rejected, without memory for them."""
        fields, last = ABC.fields(), item(ABC.raw)
        for count in (2, 1 << 32, (1 << 64) - 1):
            self.index(b"\1" + varint(count) + fields, "span 1: ends before")
            self.index(b"\1\1" + fields + varint(count) + last, "item 1: ends before")

    def test_varints(self) -> None:
        """Varints of the index follow section 1."""
        fields, last = ABC.fields(), item(ABC.raw)
        self.index(b"\1\x81\0" + fields + b"\1" + last, "longer than needed")
        self.index(b"\1\1" + fields + b"\x81\0" + last, "longer than needed")
        self.index(b"\1\1" + fields + b"\1\x83\0" + last[1:], "item 0: .*longer than needed")
        self.span(b"\x83\0" + fields[1:], ".*longer than needed")
        self.span(b"\3\0\x0a\x80\0" + piece(stored(b"abc")), ".*longer than needed")
        self.span(b"\3\0\x0a\0\x85\0" + fields[5:], ".*longer than needed")
        self.index(b"\1" + b"\xff" * 9 + b"\2", "does not fit 64 bits")
        self.index(b"\1" + b"\xff" * 10 + b"\1", "longer than 10 bytes")

    def test_span_length(self) -> None:
        """A span has 1 to 2^24 bytes."""
        for raw_len in (0, (1 << 24) + 1, 1 << 63):
            self.span(varint(raw_len) + ABC.fields()[1:], f"raw_len is {raw_len}")

    def test_reference_without_bases(self) -> None:
        """Bit 7 of dtype is rejected in a file that names no bases."""
        for dtype in (128, 128 + 22, 255):
            fields = Span(ABC.raw, ABC.blocks, b"", dtype).fields()
            self.span(fields, "span has a reference, but the file has no bases")

    def test_block_log2(self) -> None:
        """block_log2 is 10 to 24."""
        for log2 in (0, 9, 25, 255):
            fields = Span(ABC.raw, ABC.blocks, block_log2=log2).fields()
            self.span(fields, f"block_log2 is {log2}")

    def test_recipe_length(self) -> None:
        """A shared recipe has at most 2^21 bytes."""
        span = Span(ABC.raw, ABC.blocks, bytes((1 << 21) + 1))
        self.span(span.fields(), "recipe has 2097153 bytes", span)

    def test_block_length(self) -> None:
        """A block has 1 byte to 5 more than its original bytes."""
        self.span(b"\3\0\x0a\0\0" + digest(b""), "block of 3 original bytes has 0", ABC)
        span = Span(ABC.raw, [b"\1\3\4aaaa!!"])
        self.span(span.fields(), "block of 3 original bytes has 9", span)
        last = Span(bytes(1025), [constant(ZERO, 1024), b"\1\1\4" + bytes(4)])
        self.span(last.fields(), "block of 1 original bytes has 7", last)

    def test_block_count(self) -> None:
        """A span has as many blocks as block_log2 gives."""
        for count in (1, 3):
            span = Span(bytes(1025), [constant(ZERO, 1024)] * count)
            self.check(one_span_file(span), "index: ")

    def test_pieces_are_not_the_body(self) -> None:
        """The pieces' lengths add up to body_len."""
        index = index_of([ABC.fields()], [item(ABC.raw)])
        self.check(seal(ABC.pieces() + ZERO, index, 3), "pieces have 5 bytes, the body 6")
        self.check(seal(ABC.pieces()[1:], index, 3), "pieces have 5 bytes, the body 4")
        self.check(seal(b"x", index_of([], [item(b"")]), 0), "pieces have 0 bytes, the body 1")

    def test_spans_are_not_the_original(self) -> None:
        """The spans' original bytes add up to original_len."""
        index = index_of([ABC.fields()], [item(ABC.raw)])
        for length in (0, 2, 4, (1 << 64) - 1):
            self.check(seal(ABC.pieces(), index, length), "spans have 3 bytes, the original")


class RejectsBody(RejectTest):
    """Section 7.3: the pieces."""

    def test_piece_hashes(self) -> None:
        """Every byte of a recipe and of a block is covered by the hash of its piece."""
        span = shared_span(600)
        file = one_span_file(span)
        for place in range(16, 16 + len(span.pieces()), 7):
            damaged = bytearray(file)
            damaged[place] ^= 1
            what = "the recipe" if place < 16 + len(span.recipe) else "block [01]"
            self.check(bytes(damaged), f"span 0: hash of {what} is wrong")

    def test_pieces_swapped(self) -> None:
        """Two blocks of one length that changed places are rejected."""
        span = Span(bytes(2048), [constant(b"a", 1024), constant(b"b", 1024)])
        body = span.blocks[1] + span.blocks[0]
        index = index_of([span.fields()], [item(span.raw)])
        self.check(seal(body, index, 2048), "hash of block 0 is wrong")

    def test_long_blocks(self) -> None:
        """A block of more than 2^22 bytes is constant or the same as its base."""
        raw = bytes((1 << 22) + 1)
        span = Span(raw, [b"\0" + varint(len(raw)) + raw], block_log2=24)
        self.check(one_span_file(span), "raw_len is 4194305, too long for a block of kind 0")

    def test_block_raw_len(self) -> None:
        """A block's own raw_len is what block_log2 gives for it."""
        for block in (stored(b"ab"), constant(b"a", 4), constant(b"a", 1 << 26)):
            self.check(one_span_file(Span(b"abc", [block])), "raw_len is .*, the index says 3")
        span = Span(bytes(1027), [constant(ZERO, 1023), constant(ZERO, 4)])
        self.check(one_span_file(span), "block 0: raw_len is 1023, the index says 1024")
        span = Span(bytes(1027), [constant(ZERO, 1024), constant(ZERO, 1024)])
        self.check(one_span_file(span), "block 1: raw_len is 1024, the index says 3")

    def test_blocks(self) -> None:
        """A block that section 2 rejects is rejected with its file."""
        cases = {
            b"\0": "ends before",
            b"\0\3ab": "ends before",
            b"\0\3abcd": "left over in the block",
            b"\3\3": "none is given",
            b"\7\3": "unknown block kind",
        }
        for block, message in cases.items():
            self.check(one_span_file(Span(b"abc", [block])), f"span 0: block 0: .*{message}")

    def test_recipe(self) -> None:
        """A shared recipe that section 3 rejects is rejected, needed or not."""
        for block in [b"\3\3\3\0\0abc", b"\0\3abc"]:
            span = Span(b"abc", [block], b"\x0c\x08\x0a\0")
            self.check(one_span_file(span), "span 0: the recipe: unknown word map")

    def test_recipe_of_another_span(self) -> None:
        """A recipe is shared by the blocks of its own span alone."""
        first = shared_span(600)
        second = Span(first.raw, first.blocks)
        items = [item(first.raw), item(second.raw)]
        self.items([first, second], items, "span 1: block 0: .*none is given")


class RejectsItems(RejectTest):
    """Section 7.4: the items."""

    def test_lengths(self) -> None:
        """The items' lengths add up to original_len."""
        for raw in (b"", b"ab", b"abcd"):
            self.items([ABC], [item(raw)], "items have . bytes, the original 3")
        far = varint((1 << 64) - 1) + digest(b"")
        self.items([ABC], [far, varint(4) + digest(b"")], "items have .* bytes")

    def test_items_that_cut_spans(self) -> None:
        """An item that meets two spans and cuts one of them is rejected."""
        spans = [plain_span(raw) for raw in (b"abc", b"def", b"ghi")]
        for cuts in ((2, 7), (3, 5, 9), (2, 6, 9), (1, 9), (8, 9), (4, 9), (2, 3, 7, 9)):
            bounds = [0, *cuts] + ([9] if cuts[-1] < 9 else [])
            raw = b"abcdefghi"
            items = [item(raw[a:b]) for a, b in pairwise(bounds)]
            self.items(spans, items, "item . cuts a span and continues in another")

    def test_hashes(self) -> None:
        """Every item's hash is checked, of whatever spans it is made, none left out."""
        spans = [plain_span(raw) for raw in (b"ab", b"cd", b"efgh")]
        items = [item(b""), item(b"ab", b"cd"), item(b"e"), item(b"fgh")]
        for number, fields in enumerate(items):
            for place in (1, 16):
                wrong = bytearray(fields)
                wrong[place] ^= 16
                changed = [*items[:number], bytes(wrong), *items[number + 1 :]]
                self.items(spans, changed, f"hash of item {number} is wrong")

    def test_hash_of_the_wrong_thing(self) -> None:
        """Many spans are hashed by their hashes, one span by its bytes, and not the reverse."""
        spans = [plain_span(b"ab"), plain_span(b"cd")]
        self.items(spans, [varint(4) + digest(b"abcd")], "hash of item 0 is wrong")
        swapped = digest(digest(b"cd") + digest(b"ab"))
        self.items(spans, [varint(4) + swapped], "hash of item 0 is wrong")
        self.items([ABC], [varint(3) + digest(digest(b"abc"))], "hash of item 0 is wrong")

    def test_item_count(self) -> None:
        """Kind 0 has one item, kind 1 one or more."""
        both = [item(b"ab"), item(b"c")]
        self.check(file_of([ABC], both, kind=0), "kind 0 has one item, not 2")
        self.check(file_of([], [item(b"")] * 2, kind=0), "kind 0 has one item, not 2")
        self.check(file_of([], [], kind=0), "kind 0 has one item, not 0")
        self.check(file_of([], []), "kind 1 has no item")


if __name__ == "__main__":
    unittest.main()
