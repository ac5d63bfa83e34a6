"""The decoder of whole lmc files, written from docs/format.md, sections 6 and 7, alone.

The functions follow the sections of that document and are named in its words. The entry points
are `read_file` and `decode_file`. A file that is rejected raises `Corrupt`, a file of a later
version `Unsupported`, one whose base is not there `NoBase`; nothing that was decoded is given back
then.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from arrange import Order, OrdersOfBases, check_order_of_base, check_order_of_file
from bases import THIS_FILE, Base, Reference, read_bases, read_reference
from convert import convert
from decode import CONSTANT, MAX_RECIPE_LEN, SAME, decode_block, parse_shared_recipe
from hashes import HASH_LEN, content_hash, content_hash_of_leaves, content_hashes_of
from items import (
    ARRANGED,
    Item,
    bounds,
    check_hash,
    check_item_count,
    check_item_hashes,
    check_items_meet_spans,
    order_of_items,
    read_items,
    spans_that_meet,
)
from reader import Corrupt, Reader, inside, require

MAGIC = bytes.fromhex("89 4c 4d 43 0d 0a 1a 0a")
END_MAGIC = bytes.fromhex("0a 4c 4d 43 2d 45 4e 44")
VERSION = 1
HEADER_LEN = 16
FOOTER_LEN = 64
MAX_INDEX_LEN = 1 << 28
MAX_SPAN_LEN = 1 << 24
MIN_BLOCK_LOG2, MAX_BLOCK_LOG2 = 10, 24
MAX_CODED_BLOCK_LEN = 1 << 22
MAX_BLOCK_GROWTH = 5
HAS_ORDERS = 64
TOP_BIT = 128
EXIT_CORRUPT = 4
EXIT_OTHER = 1


class Unsupported(Exception):
    """The file is whole, but of a later version; the message is one lower-case line."""


class NoBase(Exception):
    """The file is whole, but not the base that it needs; the message is one line."""


# Section 6: the file


@dataclass(frozen=True)
class Original:
    """What a file holds, and its content hashes, of which a plain file may have two."""

    data: bytes
    content_hashes: tuple[bytes, ...]


def decode_file(source: Path | bytes, bases: Sequence[Path] = ()) -> bytes:
    """The original of a file, given by its path or its bytes, and paths of bases."""
    if isinstance(source, Path):
        return read_path(source, Shelf(bases)).data
    return read_file(source, Shelf(bases)).data


def read_path(path: Path, shelf: Shelf) -> Original:
    """The original of a file; bases are looked for beside it too."""
    return read_file(path.read_bytes(), shelf.beside(path))


def read_file(file: bytes, shelf: Shelf | None = None) -> Original:
    """Section 6: the parts of a file, each checked before it is used."""
    footer = read_footer(file)
    body_end = HEADER_LEN + footer.body_len
    index_bytes = file[body_end : body_end + footer.index_len]
    check_hash(index_bytes, footer.index_hash, "the index")
    with inside("index"):
        index = read_index(index_bytes)
        check_sums(index, footer)
        check_items_meet_spans(index.items, span_lens(index.spans))
        check_own_references(index.spans)
        check_orders(index)
    spans = read_body(file[HEADER_LEN:body_end], index, shelf or Shelf())
    data = b"".join(spans)
    check_item_hashes(index.items, spans, data)
    if index.content_hash is None:
        return Original(data, (content_hash([item.hash for item in index.items]),))
    data = index.order.restore(data)
    require(content_hash_of_leaves(data) == index.content_hash, "content hash is wrong")
    return Original(data, (index.content_hash,))


@dataclass(frozen=True)
class Footer:
    """Section 6.2: the fields that the rest of the file is found with."""

    body_len: int
    index_len: int
    index_hash: bytes
    original_len: int


def read_footer(file: bytes) -> Footer:
    """Sections 6.1 and 6.2: damage first, then age, then what only this version says."""
    require(len(file) >= HEADER_LEN + FOOTER_LEN, "file is shorter than a header and a footer")
    header, footer = file[:HEADER_LEN], file[-FOOTER_LEN:]
    require(header.startswith(MAGIC), "file does not start as an lmc file")
    require(footer.endswith(END_MAGIC), "file does not end as an lmc file")
    reader = Reader(footer)
    fields = Footer(reader.uint(8), reader.uint(8), reader.take(HASH_LEN), reader.uint(8))
    covered = header + footer[: reader.pos]
    check_hash(covered, reader.take(HASH_LEN), "the header and the footer")
    check_version(header)
    require(fields.index_len <= MAX_INDEX_LEN, f"index_len is {fields.index_len}")
    total = HEADER_LEN + fields.body_len + fields.index_len + FOOTER_LEN
    require(total == len(file), f"parts have {total} bytes, the file has {len(file)}")
    return fields


def check_version(header: bytes) -> None:
    """Section 6.1: refuse what a later version wrote."""
    reader = Reader(header)
    reader.take(len(MAGIC))
    version = reader.uint(2)
    if version != VERSION:
        raise Unsupported(f"file has version {version}, this decoder reads version {VERSION}")
    if any(reader.take(reader.left())):
        raise Unsupported("last 6 bytes of the header are not 0: a later version wrote the file")


# Section 7: the index


@dataclass(frozen=True)
class Piece:
    """Section 7.3: a recipe or a block, as the index lists it."""

    length: int
    hash: bytes


@dataclass(frozen=True)
class Span:
    """Section 7.3: a stretch of the original. What people read of it is not kept."""

    raw_len: int
    block_log2: int
    reference: Reference | None
    recipe: Piece | None
    blocks: tuple[Piece, ...]


@dataclass(frozen=True)
class Index:
    """Section 7.2: the fields of the index, and the order of the original and of each base."""

    bases: tuple[Base, ...]
    content_hash: bytes | None
    spans: tuple[Span, ...]
    items: tuple[Item, ...]
    order: Order
    orders: tuple[Order, ...]


def read_index(index: bytes) -> Index:
    """Section 7.2: the index."""
    reader = Reader(index)
    has_bases, kind = divmod(reader.uint(1), TOP_BIT)
    has_orders, kind = divmod(kind, HAS_ORDERS)
    require(kind <= ARRANGED, f"unknown kind {kind}")
    require(has_bases >= has_orders, "bases have orders, but the file has no bases")
    orders = OrdersOfBases() if has_orders else None
    bases = read_bases(reader, orders, kind == ARRANGED) if has_bases else None
    content = reader.take(HASH_LEN) if kind == ARRANGED else None
    spans = tuple(read_span(reader, number, bases) for number in range(reader.varint()))
    items = read_items(reader, kind)
    reader.finish("index")
    check_item_count(kind, len(items))
    order = order_of_items(items) if kind == ARRANGED else Order()
    known = orders.known(order) if orders else [Order() for _ in bases or ()]
    return Index(bases or (), content, spans, items, order, tuple(known))


def read_span(reader: Reader, number: int, bases: tuple[Base, ...] | None) -> Span:
    """Section 7.3: a span. With bases, of which there may be none, it may have a reference."""
    with inside(f"span {number}"):
        raw_len = reader.varint()
        require(1 <= raw_len <= MAX_SPAN_LEN, f"raw_len is {raw_len}")
        # what the bytes were taken for is for people alone
        has_reference = reader.uint(1) >= TOP_BIT
        block_log2 = reader.uint(1)
        require(MIN_BLOCK_LOG2 <= block_log2 <= MAX_BLOCK_LOG2, f"block_log2 is {block_log2}")
        reference = None
        if has_reference:
            reference = read_reference(reader, raw_len, bases)
        recipe = read_recipe_piece(reader)
        lengths = block_raw_lens(raw_len, block_log2)
        blocks = tuple(read_block_piece(reader, length) for length in lengths)
        return Span(raw_len, block_log2, reference, recipe, blocks)


def block_raw_lens(raw_len: int, block_log2: int) -> list[int]:
    """Section 7.3: the original bytes of each block of a span."""
    size = 1 << block_log2
    return [min(size, raw_len - start) for start in range(0, raw_len, size)]


def read_recipe_piece(reader: Reader) -> Piece | None:
    """Section 7.3: the field `recipe`."""
    length = reader.varint()
    require(length <= MAX_RECIPE_LEN, f"recipe has {length} bytes")
    return Piece(length, reader.take(HASH_LEN)) if length else None


def read_block_piece(reader: Reader, raw_len: int) -> Piece:
    """Section 7.3: one of the field `blocks`, for a block of `raw_len` original bytes."""
    length = reader.varint()
    fits = 1 <= length <= raw_len + MAX_BLOCK_GROWTH
    require(fits, f"block of {raw_len} original bytes has {length}")
    return Piece(length, reader.take(HASH_LEN))


def pieces_of(span: Span) -> list[Piece]:
    """Section 7.3: a span's pieces, in their order in the body."""
    return [*([span.recipe] if span.recipe else []), *span.blocks]


def span_lens(spans: Sequence[Span]) -> list[int]:
    """Section 7.3: the original bytes of each span."""
    return [span.raw_len for span in spans]


def check_sums(index: Index, footer: Footer) -> None:
    """Sections 7.3 and 7.4: the lengths that add up to those of the footer."""
    pieces = sum(piece.length for span in index.spans for piece in pieces_of(span))
    spans = sum(span_lens(index.spans))
    items = sum(item.length for item in index.items)
    body_len, original_len = footer.body_len, footer.original_len
    require(pieces == body_len, f"pieces have {pieces} bytes, the body {body_len}")
    require(spans == original_len, f"spans have {spans} bytes, the original {original_len}")
    require(items == original_len, f"items have {items} bytes, the original {original_len}")


def check_orders(index: Index) -> None:
    """Section 7.6: the order of the original, and those of the bases."""
    if index.content_hash is not None:
        check_order_of_file(index.order, index.items[0].length, span_lens(index.spans))
    for number, (base, order) in enumerate(zip(index.bases, index.orders, strict=True), 1):
        with inside(f"base {number}"):
            check_order_of_base(order, base.length)


# Section 7.3: the body


def read_body(body: bytes, index: Index, shelf: Shelf) -> list[bytes]:
    """Section 7.3: the original bytes of each span."""
    reader = Reader(body)
    originals: list[bytes] = []

    @cache
    def base_in_order(number: int) -> bytes:
        """Section 7.6: the bytes of a base, in its order."""
        return index.orders[number].arrange(shelf.original(index.bases[number]))

    for number, span in enumerate(index.spans):
        with inside(f"span {number}"):
            base = None
            if span.reference:
                is_own = span.reference.source == THIS_FILE
                place = span.reference.source - 1
                source = b"".join(originals) if is_own else base_in_order(place)
                base = base_of_span(span.reference, source)
            originals.append(read_span_pieces(reader, span, base))
    return originals


def read_span_pieces(reader: Reader, span: Span, base: bytes | None) -> bytes:
    """Section 7.3: the original bytes of one span, whose base is as long as it."""
    recipe = read_piece(reader, span.recipe, "the recipe") if span.recipe else None
    if recipe is not None:
        with inside("the recipe"):
            parse_shared_recipe(recipe)
    lengths = block_raw_lens(span.raw_len, span.block_log2)
    original = bytearray()
    for number, (piece, raw_len) in enumerate(zip(span.blocks, lengths, strict=True)):
        block = read_piece(reader, piece, f"block {number}")
        start = len(original)
        block_base = None if base is None else base[start : start + raw_len]
        with inside(f"block {number}"):
            check_block_raw_len(block, raw_len)
            original += decode_block(block, recipe, block_base)
    return bytes(original)


def read_piece(reader: Reader, piece: Piece, what: str) -> bytes:
    """Section 7.3: the bytes of a recipe or a block."""
    data = reader.take(piece.length)
    check_hash(data, piece.hash, what)
    return data


def check_block_raw_len(block: bytes, expected: int) -> None:
    """Section 7.3: what the block says of its length. Before it is decoded, which may be long."""
    reader = Reader(block)
    kind = reader.uint(1)
    raw_len = reader.varint()
    require(raw_len == expected, f"raw_len is {raw_len}, the index says {expected}")
    fits = raw_len <= MAX_CODED_BLOCK_LEN or kind in (CONSTANT, SAME)
    require(fits, f"raw_len is {raw_len}, too long for a block of kind {kind}")


# Section 7.5: bases and references


def check_own_references(spans: tuple[Span, ...]) -> None:
    """Section 7.5: references to this file's own original, of which no chain can be made."""
    span_bounds = bounds(span_lens(spans))
    for number, span in enumerate(spans):
        reference = span.reference
        if reference is None or reference.source != THIS_FILE:
            continue
        with inside(f"span {number}"):
            require(reference.end <= span_bounds[number], "reference ends beyond its span's start")
            for met in spans_that_meet(span_bounds, reference.start, reference.end):
                other = spans[met].reference
                chained = other is not None and other.source == THIS_FILE
                require(not chained, f"reference to span {met}, which has one to this file")


def base_of_span(reference: Reference, source: bytes) -> bytes:
    """Section 7.5: the base of a span, after the conversion; as long as the span."""
    return convert(reference.conversion, source[reference.start : reference.end])


def shown(content: bytes) -> str:
    """Section 7.1: a hash as it is shown."""
    return content[::-1].hex()


class Shelf:
    """Where bases are looked for: in files that are given, and beside the file by their names."""

    def __init__(
        self, given: Sequence[Path] = (), folder: Path | None = None, users: Sequence[Path] = ()
    ) -> None:
        self.given = given
        self.folder = folder
        self.users = users
        self.found: dict[Base, bytes] = {}

    def beside(self, file: Path) -> Shelf:
        """A shelf for the bases of this file, which itself, and its users, are none of."""
        return Shelf(self.given, file.parent, [*self.users, file.resolve()])

    def places(self, base: Base) -> list[Path]:
        """The files in which a base may be, compressed or not."""
        if self.folder is None:
            return [*self.given]
        return [*self.given, self.folder / base.name, self.folder / f"{base.name}.lmc"]

    def original(self, base: Base) -> bytes:
        """The original of a base."""
        if base not in self.found:
            self.found[base] = self.look_for(base)
        return self.found[base]

    def look_for(self, base: Base) -> bytes:
        """The original of a base, from the first file that has it."""
        reasons = []
        for place in self.places(base):
            try:
                original = self.open(place)
            except (Corrupt, Unsupported, NoBase, OSError) as error:
                reasons.append(f"{place}: {error}")
                continue
            hashes = original.content_hashes
            if base.hash in hashes and base.length == len(original.data):
                return original.data
            reasons.append(f"{place}: content hash is {' or '.join(map(shown, hashes))}")
        told = "; ".join(reasons) or "no file is given"
        raise NoBase(f"base {base.name} with content hash {shown(base.hash)}: {told}")

    def open(self, place: Path) -> Original:
        """What a file holds that may be a base: an lmc file, or any other as it is."""
        if place.resolve() in self.users:
            raise NoBase("it is the file that needs the base")
        data = place.read_bytes()
        if data.startswith(MAGIC):
            return read_file(data, self.beside(place))
        return Original(data, content_hashes_of(data))


# The command line


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """The command line's arguments."""
    parser = argparse.ArgumentParser(description="Check an lmc file, and give its original back.")
    parser.add_argument("file", type=Path, metavar="FILE.lmc", help="file to decode")
    parser.add_argument(
        "--base", type=Path, action="append", default=[], help="file to look for bases in"
    )
    parser.add_argument("-o", "--output", type=Path, help="where the original goes")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit status."""
    options = parse_arguments(arguments)
    try:
        original = read_path(options.file, Shelf(options.base))
        if options.output:
            options.output.write_bytes(original.data)
    except Corrupt as error:
        return fail(f"{options.file}: {error}", EXIT_CORRUPT)
    except (Unsupported, NoBase) as error:
        return fail(f"{options.file}: {error}", EXIT_OTHER)
    except OSError as error:
        return fail(str(error), EXIT_OTHER)
    print(f"{len(original.data)} bytes, content hash {shown(original.content_hashes[0])}")
    return 0


def fail(message: str, status: int) -> int:
    """Print an error; the exit status."""
    print(f"decode_file.py: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
