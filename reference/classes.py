"""Sections 3.6 and 4.3 of docs/format.md: recipes by classes and their segments.

What goes in is a `Reader` and the words of the base; what comes out are the words of the values.
What is rejected raises `Corrupt`, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from reader import Bytes, Reader, Words, require
from streams import Coder, read_coder, read_stream

Counts = NDArray[np.int64]

MAX_EXPONENT_BITS = 11
MAX_CONTEXTS = 16
MAX_SIZE = 255
MAX_FLIP = 128


@dataclass(frozen=True)
class ClassRecipe:
    """Section 3.6: the fields of a recipe by classes."""

    width: int
    sign_in_symbol: bool
    top_in_symbol: bool
    raw_bytes: int
    segment_log2: int
    exponent_bits: int
    first: int
    bounds: tuple[int, ...]
    coders: tuple[Coder, ...]

    @property
    def flip(self) -> int:
        """F: what is added to a symbol if the top bits differ, and one more than the largest."""
        classes = 8 * (self.width - self.raw_bytes) + 1
        return classes << (self.sign_in_symbol + self.top_in_symbol)


def read_shape(reader: Reader, width: int) -> tuple[int, int, int]:
    """Sections 3.6 to 3.8: `raw_bytes`, `segment_log2` and `exponent_bits`."""
    raw_bytes = reader.uint(1)
    require(raw_bytes < width, f"raw_bytes is {raw_bytes}")
    segment_log2 = reader.uint(1)
    require(10 <= segment_log2 <= 18, f"segment_log2 is {segment_log2}")
    exponent_bits = reader.uint(1)
    fits = 1 <= exponent_bits <= min(MAX_EXPONENT_BITS, 8 * width - 1)
    require(fits, f"exponent_bits is {exponent_bits}")
    return raw_bytes, segment_log2, exponent_bits


def read_class_recipe(reader: Reader, layout: int) -> ClassRecipe:
    """Section 3.6: a recipe by classes, after its layout."""
    width = 1 << (layout & 3)
    raw_bytes, segment_log2, exponent_bits = read_shape(reader, width)
    contexts = reader.uint(1)
    require(1 <= contexts <= MAX_CONTEXTS, f"recipe has {contexts} contexts")
    first = reader.uint(2)
    bounds = tuple(reader.take(contexts - 1))
    require(list(bounds) == sorted(set(bounds), reverse=True), "bounds do not fall")
    coders = tuple(read_coder(reader) for _ in range(contexts))
    recipe = ClassRecipe(
        width, bool(layout & 4), bool(layout & 8), raw_bytes, segment_log2, exponent_bits, first,
        bounds, coders,
    )
    require(recipe.flip <= MAX_FLIP, f"symbols go up to {2 * recipe.flip - 1}")
    return recipe


def read_class_segment(reader: Reader, recipe: ClassRecipe, base: Words) -> Words:
    """Section 4.3: the values of a segment, as many as there are words of the base."""
    records = read_class_records(reader, recipe.raw_bytes, len(base))
    symbols = read_class_symbols(reader, recipe, contexts_of(recipe, base))
    require(not (symbols >= 2 * recipe.flip).any(), "symbol is too large")
    parts = cut_symbols(recipe, symbols)
    payloads = read_payloads(reader, payload_bits(recipe, parts), recipe.width - recipe.raw_bytes)
    return restore_values(recipe, base, records, parts, payloads)


def contexts_of(recipe: ClassRecipe, base: Words) -> Counts:
    """Section 3.6: the context of each value, which the base alone decides."""
    sizes = sizes_of(base, recipe.width, recipe.exponent_bits, recipe.first)
    contexts = np.zeros_like(sizes)
    for bound in recipe.bounds:
        contexts += bound > sizes
    return contexts


def sizes_of(base: Words, width: int, exponent_bits: int, first: int) -> Counts:
    """Sections 3.6 to 3.8: by how much E', the bits just below the top bit of each word of the
    base, are above `first`, at most 255."""
    exponents = base >> np.uint64(8 * width - 1 - exponent_bits)
    exponents &= np.uint64((1 << exponent_bits) - 1)
    return np.clip(exponents.astype(np.int64) - first, 0, MAX_SIZE)


def read_class_records(reader: Reader, raw_bytes: int, count: int) -> Words:
    """Sections 4.3 and 4.4, 1: the low bytes of the differences."""
    rows = reader.array(raw_bytes * count).reshape(count, raw_bytes).astype(np.uint64)
    records = np.zeros(count, dtype=np.uint64)
    for place in range(raw_bytes):
        records |= rows[:, place] << np.uint64(8 * place)
    return records


def read_class_symbols(reader: Reader, recipe: ClassRecipe, contexts: Counts) -> Bytes:
    """Section 4.3, 2: the symbols, each from the stream of its context."""
    symbols = np.zeros(len(contexts), dtype=np.uint8)
    for context, coder in enumerate(recipe.coders):
        members = contexts == context
        symbols[members] = read_stream(coder, reader, int(np.count_nonzero(members)))
    return symbols


@dataclass(frozen=True)
class SymbolParts:
    """Section 3.6: what symbols say. The sign and the top bit are 0 where they say nothing."""

    classes: Counts
    top: Words
    negative: Words
    flipped: Words


def cut_symbols(recipe: ClassRecipe, symbols: Bytes) -> SymbolParts:
    """Section 3.6: the parts of symbols below 2F."""
    flipped, rest = np.divmod(symbols.astype(np.int64), recipe.flip)
    nothing = np.zeros_like(rest)
    negative = top = nothing
    if recipe.sign_in_symbol:
        rest, negative = np.divmod(rest, 2)
    if recipe.top_in_symbol:
        rest, top = np.divmod(rest, 2)
    return SymbolParts(rest, *(part.astype(np.uint64) for part in (top, negative, flipped)))


def low_bits(recipe: ClassRecipe, parts: SymbolParts) -> Counts:
    """Section 3.6: p, how many bits of |q| are in each payload."""
    return np.maximum(parts.classes - 1 - recipe.top_in_symbol, 0)


def payload_bits(recipe: ClassRecipe, parts: SymbolParts) -> Counts:
    """Section 3.6: how many bits each payload has."""
    low = low_bits(recipe, parts)
    return low if recipe.sign_in_symbol else low + (parts.classes > 0)


def read_payloads(reader: Reader, lengths: Counts, strings: int) -> Words:
    """Section 4.3, 3: payloads of these lengths, up to 8 bits of each from every string."""
    payloads = np.zeros(len(lengths), dtype=np.uint64)
    for i in range(strings):
        here = np.clip(lengths - 8 * i, 0, 8)
        total = int(here.sum())
        length = (total + 7) // 8
        if i < strings - 1:
            stated = reader.varint()
            require(stated == length, f"string of payloads of {stated} bytes, {length} expected")
        bits = np.unpackbits(reader.array(length), bitorder="little")
        require(not bits[total:].any(), "padding of a string of payloads is not 0")
        starts = np.cumsum(here) - here
        for j in range(8):
            has = here > j
            payloads[has] |= bits[starts[has] + j].astype(np.uint64) << np.uint64(8 * i + j)
    return payloads


def restore_values(
    recipe: ClassRecipe, base: Words, records: Words, parts: SymbolParts, payloads: Words
) -> Words:
    """Section 3.6: the values."""
    negative = parts.negative
    q = payloads.copy()
    if not recipe.sign_in_symbol:
        # the sign of a payload without bits is 0, as all else of it
        place = low_bits(recipe, parts).astype(np.uint64)
        negative = q >> place & np.uint64(1)
        q ^= negative << place
    for least, bit in ((1, np.ones_like(q)), (2, parts.top)):
        has = parts.classes >= least
        q[has] |= bit[has] << (parts.classes[has] - least).astype(np.uint64)
    q = np.where(negative == 1, np.uint64(0) - q, q)
    top = np.uint64(1 << (8 * recipe.width - 1))
    half = np.uint64(1 << (8 * recipe.raw_bytes - 1) if recipe.raw_bytes else 0)
    # words wrap at 64 bits; the base's top bit is too high to count, like all above the magnitude
    magnitudes = base + (q << np.uint64(8 * recipe.raw_bytes)) + records - half
    return (magnitudes & (top - np.uint64(1))) | ((base & top) ^ (parts.flipped * top))
