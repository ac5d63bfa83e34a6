"""Sections 3.8 and 4.5 of docs/format.md: recipes by changes and their segments.

What goes in is a `Reader` and the words of the base; what comes out are the words of the values.
What is rejected raises `Corrupt`, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from bins import (
    BinRecipe,
    Moves,
    places_between,
    read_bin_fields,
    read_listed,
    read_moves,
    read_rising_bounds,
    restore_values,
)
from classes import sizes_of
from numpy.typing import NDArray
from reader import Bytes, Reader, Words, require
from streams import Coder, read_coder, read_flags, read_stream

Flags = NDArray[np.bool_]

MAX_FLAG_CONTEXTS = 8


@dataclass(frozen=True)
class Contexts:
    """Section 3.8: a set of contexts."""

    bounds: tuple[int, ...]
    coders: tuple[Coder, ...]


@dataclass(frozen=True)
class ChangeRecipe:
    """Section 3.8: the fields of a recipe by changes."""

    has_lengths: bool
    bins: BinRecipe
    coder: Coder
    changed: Contexts
    uncommon: Contexts

    @property
    def width(self) -> int:
        """W."""
        return self.bins.width

    @property
    def segment_log2(self) -> int:
        """log2 of the values in a segment."""
        return self.bins.segment_log2


def read_change_recipe(reader: Reader, layout: int) -> ChangeRecipe:
    """Section 3.8: a recipe by changes, after its layout."""
    bins = read_bin_fields(reader, layout)
    coder = read_coder(reader)
    changed = read_contexts(reader)
    require(len(changed.coders) > 0, "flags of changed values have no context")
    return ChangeRecipe(bool(layout & 4), bins, coder, changed, read_contexts(reader))


def read_contexts(reader: Reader) -> Contexts:
    """Section 3.8: contexts."""
    count = reader.uint(1)
    require(count <= MAX_FLAG_CONTEXTS, f"flags have {count} contexts")
    bounds = read_rising_bounds(reader, count)
    return Contexts(bounds, tuple(read_coder(reader) for _ in range(count)))


def read_change_segment(reader: Reader, recipe: ChangeRecipe, base: Words) -> Words:
    """Section 4.5: the values of a segment, as many as there are words of the base."""
    changed = read_context_flags(reader, recipe, recipe.changed, base)
    own = base[changed]
    listed = read_listed(reader, recipe.bins, len(own))
    symbols = read_symbols(reader, recipe, own)
    moves = put_zero_back(recipe, read_moves(reader, recipe.bins, own, symbols))
    values = base.copy()
    values[changed] = restore_values(recipe.bins, own, symbols, listed, moves)
    return values


def read_context_flags(
    reader: Reader, recipe: ChangeRecipe, contexts: Contexts, base: Words
) -> Flags:
    """Section 4.5, 1 and 3: a flag for each value with this base, from the stream of its
    context."""
    bins = recipe.bins
    sizes = sizes_of(base, bins.width, bins.exponent_bits, bins.first)
    places = places_between(contexts.bounds, sizes)
    flags = np.zeros(len(base), dtype=np.bool_)
    for context, coder in enumerate(contexts.coders):
        members = places == context
        source = Reader(reader.take(reader.varint())) if recipe.has_lengths else reader
        flags[members] = read_flags(coder, source, int(np.count_nonzero(members)), "flags")
        if recipe.has_lengths:
            source.finish("stream of flags")
    return flags


def read_symbols(reader: Reader, recipe: ChangeRecipe, base: Words) -> Bytes:
    """Section 4.5, 3: the symbols of the changed values, which have this base."""
    others = np.ones(len(base), dtype=np.bool_)
    if recipe.uncommon.coders:
        others = read_context_flags(reader, recipe, recipe.uncommon, base)
    symbols = np.zeros(len(base), dtype=np.uint8)
    symbols[others] = read_stream(recipe.coder, reader, int(np.count_nonzero(others)))
    return symbols


def put_zero_back(recipe: ChangeRecipe, moves: Moves) -> Moves:
    """Section 3.8: q as it was before 0 was left out, where it was."""
    if recipe.bins.raw_bytes > 0:
        return moves
    return Moves(moves.q + ((moves.flipped == 0) & (moves.q >= 0)), moves.flipped)
