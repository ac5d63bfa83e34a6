"""Sections 3.7 and 4.4 of docs/format.md: recipes by bins and their segments.

What goes in is a `Reader` and the words of the base; what comes out are the words of the values.
What is rejected raises `Corrupt`, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from classes import MAX_EXPONENT_BITS, Counts, exponents_of, read_class_records
from streams import Bytes, Coder, Reader, Words, read_coder, read_stream, require

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
    raw_bytes: int
    segment_log2: int
    exponent_bits: int
    first: int
    bins: tuple[Bin, ...]
    bounds: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    coder: Coder


def read_bin_recipe(reader: Reader, layout: int) -> BinRecipe:
    """Section 3.7: a recipe by bins, after its layout."""
    require(layout & 0x2C == 0, "bits 2, 3 and 5 of the layout are not 0")
    width = 1 << (layout & 3)
    raw_bytes = reader.uint(1)
    require(raw_bytes < width, f"raw_bytes is {raw_bytes}")
    segment_log2 = reader.uint(1)
    require(10 <= segment_log2 <= 20, f"segment_log2 is {segment_log2}")
    exponent_bits = reader.uint(1)
    fits = 1 <= exponent_bits <= min(MAX_EXPONENT_BITS, 8 * width - 1)
    require(fits, f"exponent_bits is {exponent_bits}")
    first = reader.uint(2)
    bin_count = reader.uint(1)
    require(1 <= bin_count <= MAX_BINS, f"recipe has {bin_count} bins")
    bins = tuple(read_bin(reader) for _ in range(bin_count))
    row_count = reader.uint(1)
    require(row_count <= MAX_ROWS, f"recipe has {row_count} rows")
    bounds = tuple(reader.take(max(row_count - 1, 0)))
    require(list(bounds) == sorted(set(bounds) - {0}), "bounds do not rise from above 0")
    rows = tuple(read_row(reader) for _ in range(row_count))
    return BinRecipe(
        width, raw_bytes, segment_log2, exponent_bits, first, bins, bounds, rows,
        read_coder(reader),
    )


def read_bin(reader: Reader) -> Bin:
    """Section 3.7: a bin."""
    packed, centre = reader.take(2)
    own = Bin(packed & 127, packed > 127, centre - 256 if centre > 127 else centre)
    require(own.payload_bits <= MAX_PAYLOAD_BITS, f"payload of a bin has {own.payload_bits} bits")
    require(abs(own.centre) <= MAX_CENTRE, f"centre of a bin is {own.centre}")
    return own


def read_row(reader: Reader) -> tuple[int, ...]:
    """Section 3.7: the 16 entries of a row."""
    row = tuple(nibble for byte in reader.take(8) for nibble in (byte & 15, byte >> 4))
    require(len(set(row)) == 16, "row has an entry twice")
    return row


def read_bin_segment(reader: Reader, recipe: BinRecipe, base: Words) -> Words:
    """Section 4.4: the values of a segment, as many as there are words of the base."""
    records = read_class_records(reader, recipe.raw_bytes, len(base))
    exceptions = read_listed(reader, recipe)
    symbols = read_stream(recipe.coder, reader, len(base))
    is_exception = symbols == EXCEPTION
    found = int(np.count_nonzero(is_exception))
    require(found == len(exceptions), f"{found} exceptions where {len(exceptions)} are listed")
    numbers = bins_of(recipe, base)
    lengths = by_bin([own.payload_bits for own in recipe.bins], numbers)
    payloads = read_bin_payloads(reader, lengths)
    values = restore_values(recipe, base, records, (numbers, symbols), payloads)
    low = np.uint64((1 << 8 * recipe.raw_bytes) - 1)
    values[is_exception] &= low
    values[is_exception] |= exceptions << np.uint64(8 * recipe.raw_bytes)
    return values


def bins_of(recipe: BinRecipe, base: Words) -> Counts:
    """Section 3.7: e, the number of the bin of each value, which the base alone decides."""
    exponents = exponents_of(base, recipe.width, recipe.exponent_bits)
    return np.clip(exponents - recipe.first, 0, len(recipe.bins) - 1)


def by_bin(entries: list[int], numbers: Counts) -> Counts:
    """What the bins of the values, which have these numbers, say."""
    return np.array(entries, dtype=np.int64)[numbers]


def read_listed(reader: Reader, recipe: BinRecipe) -> Words:
    """Section 4.4, 2: the top bytes of the exceptions, as numbers."""
    count = reader.varint()
    size = recipe.width - recipe.raw_bytes
    # a count that the segment cannot hold ends here, before numpy has to count so far
    require(count * size <= reader.left(), "ends before a field it needs")
    return read_class_records(reader, size, count)


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
    which = np.zeros_like(numbers)
    for bound in recipe.bounds:
        which += bound <= numbers
    back = np.argsort(np.array(recipe.rows), axis=1)
    places = back[which, (s & 7) + 8 * f]
    inner = (s >= -4) & (s <= 3)
    low = places & 7
    return np.where(inner, low - ((low & 4) << 1), s), np.where(inner, places >> 3, f)


def restore_values(
    recipe: BinRecipe, base: Words, records: Words, coded: tuple[Counts, Bytes], payloads: Words
) -> Words:
    """Section 3.7: the values; of an exception only the low bytes count."""
    numbers, symbols = coded
    s, f = undo_rows(recipe, numbers, *pairs_of(symbols))
    shifts = by_bin([own.shift for own in recipe.bins], numbers)
    centres = by_bin([own.centre for own in recipe.bins], numbers)
    has_flip_bit = by_bin([own.has_flip_bit for own in recipe.bins], numbers)
    payload = payloads.astype(np.int64)
    widths = np.int64(1) << shifts
    q = (s + centres) * widths + payload % widths - widths // 2
    flipped = f ^ (payload >> shifts & has_flip_bit)
    top = np.uint64(1 << (8 * recipe.width - 1))
    half = np.uint64(1 << (8 * recipe.raw_bytes - 1) if recipe.raw_bytes else 0)
    # words wrap at 64 bits; the base's top bit is too high to count, like all above the magnitude
    differences: Words = q.astype(np.uint64) << np.uint64(8 * recipe.raw_bytes)
    magnitudes = base + differences + records - half
    return (magnitudes & (top - np.uint64(1))) | ((base & top) ^ (flipped.astype(np.uint64) * top))
