"""Sections 3.7 and 4.4 of docs/format.md: recipes by bins and their segments.

What goes in is a `Reader` and the words of the base; what comes out are the words of the values.
What is rejected raises `Corrupt`, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from classes import Counts, read_class_records, read_shape, sizes_of
from contexts import BY_CONTEXT, ByContext, read_by_context
from reader import Bytes, Reader, Words, require
from streams import Coder, read_coder, read_rans_by_context, read_stream

MAX_BINS = 32
MAX_PAYLOAD_BITS = 8
MAX_CENTRE = 6
MAX_ROWS = 8
EXCEPTION = 0x40


@dataclass(frozen=True)
class Bin:
    """Section 3.7: one of the bins of a recipe."""

    shift: int
    has_flip_bit: bool
    centre: int

    @property
    def payload_bits(self) -> int:
        """How many bits the payload of each value has."""
        return self.shift + self.has_flip_bit


@dataclass(frozen=True)
class BinRecipe:
    """Section 3.7: the fields of a recipe by bins."""

    width: int
    is_integer: bool
    raw_bytes: int
    segment_log2: int
    exponent_bits: int
    first: int
    bins: tuple[Bin, ...]
    bounds: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class BinBlock:
    """Section 3.7: a recipe by bins, with the coder of its symbols."""

    recipe: BinRecipe
    coder: Coder | ByContext

    @property
    def width(self) -> int:
        """Bytes of a value."""
        return self.recipe.width

    @property
    def segment_log2(self) -> int:
        """log2 of the values in a segment."""
        return self.recipe.segment_log2


def read_bin_recipe(reader: Reader, layout: int) -> BinBlock:
    """Section 3.7: a recipe by bins, after its layout."""
    require(layout & 4 == 0, "bit 2 of the layout is not 0")
    recipe = read_bin_fields(reader, layout)
    if reader.left() > 0 and reader.rest()[0] == BY_CONTEXT:
        reader.take(1)
        return BinBlock(recipe, read_by_context(reader))
    return BinBlock(recipe, read_coder(reader))


def read_bin_fields(reader: Reader, layout: int) -> BinRecipe:
    """Sections 3.7 and 3.8: the fields from `raw_bytes` to `rows`."""
    width, is_integer = 1 << (layout & 3), bool(layout & 8)
    raw_bytes, segment_log2, exponent_bits = read_shape(reader, width)
    first = reader.uint(2)
    bin_count = reader.uint(1)
    require(1 <= bin_count <= MAX_BINS, f"recipe has {bin_count} bins")
    bins = tuple(read_bin(reader) for _ in range(bin_count))
    has_flip_bit = any(own.has_flip_bit for own in bins)
    require(not (is_integer and has_flip_bit), "bin of integers has a flip bit")
    row_count = reader.uint(1)
    require(row_count <= MAX_ROWS, f"recipe has {row_count} rows")
    bounds = read_rising_bounds(reader, row_count)
    rows = tuple(read_row(reader) for _ in range(row_count))
    return BinRecipe(
        width, is_integer, raw_bytes, segment_log2, exponent_bits, first, bins, bounds, rows
    )


def read_bin(reader: Reader) -> Bin:
    """Section 3.7: a bin."""
    packed, centre = reader.take(2)
    own = Bin(packed & 127, packed > 127, centre - 256 if centre > 127 else centre)
    require(own.payload_bits <= MAX_PAYLOAD_BITS, f"payload of a bin has {own.payload_bits} bits")
    require(abs(own.centre) <= MAX_CENTRE, f"centre of a bin is {own.centre}")
    return own


def read_rising_bounds(reader: Reader, count: int) -> tuple[int, ...]:
    """Sections 3.7 and 3.8: the bounds between so many rows or contexts."""
    bounds = tuple(reader.take(max(count - 1, 0)))
    require(list(bounds) == sorted(set(bounds) - {0}), "bounds do not rise from above 0")
    return bounds


def places_between(bounds: tuple[int, ...], sizes: Counts) -> Counts:
    """Sections 3.7 and 3.8: how many bounds are less than or equal to each size."""
    places = np.zeros_like(sizes)
    for bound in bounds:
        places += bound <= sizes
    return places


def read_row(reader: Reader) -> tuple[int, ...]:
    """Section 3.7: the 16 entries of a row."""
    row = tuple(nibble for byte in reader.take(8) for nibble in (byte & 15, byte >> 4))
    require(len(set(row)) == 16, "row has an entry twice")
    return row


def read_bin_segment(reader: Reader, block: BinBlock, base: Words) -> Words:
    """Section 4.4: the values of a segment, as many as there are words of the base."""
    recipe, coder = block.recipe, block.coder
    listed = read_listed(reader, recipe, len(base))
    if isinstance(coder, ByContext):
        contexts = places_between(coder.bounds, bins_of(recipe, base)).astype(np.intp)
        symbols = read_rans_by_context(coder.tables, reader, contexts)
    else:
        symbols = read_stream(coder, reader, len(base))
    moves = read_moves(reader, recipe, base, symbols)
    return restore_values(recipe, base, symbols, listed, moves)


def bins_of(recipe: BinRecipe, base: Words) -> Counts:
    """Section 3.7: e, the number of the bin of each value, which the base alone decides."""
    sizes = sizes_of(base, recipe.width, recipe.exponent_bits, recipe.first)
    return np.minimum(sizes, len(recipe.bins) - 1)


def by_bin(entries: list[int], numbers: Counts) -> Counts:
    """What the bins of the values, which have these numbers, say."""
    return np.array(entries, dtype=np.int64)[numbers]


@dataclass(frozen=True)
class Listed:
    """Section 4.4: what comes before the symbols."""

    records: Words
    exceptions: Words


def read_listed(reader: Reader, recipe: BinRecipe, values: int) -> Listed:
    """Section 4.4, 1 and 2: the records, and the top bytes of the exceptions as numbers."""
    records = read_class_records(reader, recipe.raw_bytes, values)
    count = reader.varint()
    size = recipe.width - recipe.raw_bytes
    # a count that the segment cannot hold ends here, before numpy has to count so far
    require(count * size <= reader.left(), "ends before a field it needs")
    return Listed(records, read_class_records(reader, size, count))


def read_bin_payloads(reader: Reader, lengths: Counts) -> Words:
    """Section 4.4, 4: the payloads of these lengths, in one string of bits."""
    total = int(lengths.sum())
    bits = np.unpackbits(reader.array((total + 7) // 8), bitorder="little")
    require(not bits[total:].any(), "padding of payloads is not 0")
    starts = np.cumsum(lengths) - lengths
    payloads = np.zeros(len(lengths), dtype=np.uint64)
    for j in range(MAX_PAYLOAD_BITS):
        has = lengths > j
        payloads[has] |= bits[starts[has] + j].astype(np.uint64) << np.uint64(j)
    return payloads


def pairs_of(symbols: Bytes) -> tuple[Counts, Counts]:
    """Section 3.7: s and f of symbols, before the rows are undone."""
    low = symbols.astype(np.int64) & 127
    s = low - ((low & 64) << 1)
    return s, symbols.astype(np.int64) >> 7 ^ low >> 6


def undo_rows(recipe: BinRecipe, numbers: Counts, s: Counts, f: Counts) -> tuple[Counts, Counts]:
    """Section 3.7: s and f as they were before the row of each value."""
    if not recipe.rows:
        return s, f
    which = places_between(recipe.bounds, numbers)
    back = np.argsort(np.array(recipe.rows), axis=1)
    places = back[which, (s & 7) + 8 * f]
    inner = (s >= -4) & (s <= 3)
    low = places & 7
    return np.where(inner, low - ((low & 4) << 1), s), np.where(inner, places >> 3, f)


@dataclass(frozen=True)
class Moves:
    """Section 3.7: how values differ from their base; those of exceptions mean nothing."""

    q: Counts
    flipped: Counts


def read_moves(reader: Reader, recipe: BinRecipe, base: Words, symbols: Bytes) -> Moves:
    """Sections 4.4, 4 and 3.7: q, and whether the top bits differ, of symbols and payloads."""
    numbers = bins_of(recipe, base)
    lengths = by_bin([own.payload_bits for own in recipe.bins], numbers)
    payload = read_bin_payloads(reader, lengths).astype(np.int64)
    s, f = undo_rows(recipe, numbers, *pairs_of(symbols))
    shifts = by_bin([own.shift for own in recipe.bins], numbers)
    centres = by_bin([own.centre for own in recipe.bins], numbers)
    has_flip_bit = by_bin([own.has_flip_bit for own in recipe.bins], numbers)
    widths = np.int64(1) << shifts
    q = (s + centres) * widths + payload % widths - widths // 2
    flipped = f ^ (payload >> shifts & has_flip_bit)
    return Moves(q, np.zeros_like(f) if recipe.is_integer else flipped)


def restore_values(
    recipe: BinRecipe, base: Words, symbols: Bytes, listed: Listed, moves: Moves
) -> Words:
    """Section 3.7: the values."""
    is_exception = symbols == EXCEPTION
    found, expected = int(np.count_nonzero(is_exception)), len(listed.exceptions)
    require(found == expected, f"{found} exceptions where {expected} are listed")
    ones = np.uint64((1 << 8 * recipe.width) - 1)
    sign = np.uint64(0 if recipe.is_integer else 1 << (8 * recipe.width - 1))
    half = np.uint64(1 << (8 * recipe.raw_bytes - 1) if recipe.raw_bytes else 0)
    # words wrap at 64 bits; a sign of the base is too high to count, like all above the magnitude
    differences: Words = moves.q.astype(np.uint64) << np.uint64(8 * recipe.raw_bytes)
    magnitudes = (base + differences + listed.records - half) & (ones ^ sign)
    values: Words = magnitudes | ((base & sign) ^ (moves.flipped.astype(np.uint64) * sign))
    # of an exception only the low bytes count
    values[is_exception] &= np.uint64((1 << 8 * recipe.raw_bytes) - 1)
    values[is_exception] |= listed.exceptions << np.uint64(8 * recipe.raw_bytes)
    return values
