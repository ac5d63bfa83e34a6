"""A second, independent decoder of the lmc block format, written from docs/format.md alone.

The functions follow the sections of that document and are named in its words. The one entry
point is `decode_block`; it raises `Corrupt`, and nothing else, for a block that is rejected.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from bins import BinBlock, read_bin_recipe, read_bin_segment
from changes import ChangeRecipe, read_change_recipe, read_change_segment
from classes import ClassRecipe, read_class_recipe, read_class_segment
from frames import read_frame, read_zstd_flags
from palettes import Palette, read_palette, read_palette_segment
from reader import Bytes, Corrupt, Reader, Words, require
from streams import Coder, Raw, read_coder, read_flags, read_stream

MAX_RAW_LEN = 1 << 26
MAX_RECIPE_LEN = 1 << 21
MAX_COLUMNS = 1 << 20
STORED, CONSTANT, CODED, CODED_SHARED, SAME, ZSTD = range(6)
MAP_NONE, MAP_ROTATE, MAP_ZIGZAG = range(3)
BASE_UNUSED, BASE_XOR, BASE_DIFFERENCE, OTHER_KINDS = range(4)
BY_CLASSES, BY_BINS, BY_CHANGES, PALETTE = range(4)
WIDE_EXCEPTION = 255


# Section 2: the block


def decode_block(
    block: bytes, shared_recipe: bytes | None = None, base: bytes | None = None
) -> bytes:
    """Section 2: the original bytes of a block.

    The shared recipe is used by kind 3 only, the base by kind 4 and by recipes and flags that say
    so.
    """
    reader = Reader(bytes(block))
    kind = reader.uint(1)
    require(kind <= ZSTD, f"unknown block kind {kind}")
    raw_len = reader.varint()
    require(raw_len <= MAX_RAW_LEN, "raw_len is larger than 64 mib")
    if kind == STORED:
        raw = reader.take(raw_len)
    elif kind == CONSTANT:
        raw = read_constant_block(reader, raw_len)
    elif kind == CODED:
        raw = read_coded_body(reader, read_recipe(reader), raw_len, base)
    elif kind == CODED_SHARED:
        raw = read_coded_body(reader, parse_shared_recipe(shared_recipe), raw_len, base)
    elif kind == SAME:
        raw = needed_base(base, raw_len)
    else:
        dictionary = needed_base(base, raw_len) if read_zstd_flags(reader) else None
        raw = read_frame(reader, raw_len, dictionary)
    reader.finish("block")
    return raw


def read_constant_block(reader: Reader, raw_len: int) -> bytes:
    """Section 2, constant: one value of `width` bytes, repeated and cut at `raw_len`."""
    width = reader.uint(1)
    require(width in (1, 2, 4, 8), f"width of a constant block is {width}")
    value = reader.take(width)
    return (value * (raw_len // width + 1))[:raw_len]


def needed_base(base: bytes | None, raw_len: int) -> bytes:
    """Sections 1 and 2: the base of a block that cannot do without it."""
    if base is None:
        raise Corrupt("the block needs a base and none is given")
    require(len(base) == raw_len, f"base has {len(base)} bytes, the block {raw_len}")
    return bytes(base)


def parse_shared_recipe(shared_recipe: bytes | None) -> AnyRecipe:
    """Section 2, coded with a shared recipe: the recipe that stands outside the block."""
    if shared_recipe is None:
        raise Corrupt("the block needs a shared recipe and none is given")
    reader = Reader(bytes(shared_recipe))
    recipe = read_recipe(reader)
    reader.finish("shared recipe")
    return recipe


# Section 3: the recipe


@dataclass(frozen=True)
class Columns:
    """Section 3.4: the `columns` field of a recipe."""

    base: int
    col: Bytes


@dataclass(frozen=True)
class Recipe:
    """Section 3: the fields of a recipe by planes."""

    width: int
    base_use: int
    word_map: int
    symbol_bits: int
    segment_log2: int
    bias: int
    flags_coder: Coder | None
    plane_coders: tuple[Coder, ...]
    columns: Columns | None


AnyRecipe = Recipe | ClassRecipe | BinBlock | ChangeRecipe | Palette


def read_recipe(reader: Reader) -> AnyRecipe:
    """Section 3: the recipe, of any kind."""
    start = reader.pos
    layout = reader.uint(1)
    kind = layout >> 4 & 3
    recipe: AnyRecipe
    if layout >> 6 != OTHER_KINDS:
        recipe = read_plane_recipe(reader, layout)
    elif kind == BY_CLASSES:
        recipe = read_class_recipe(reader, layout)
    elif kind == BY_BINS:
        recipe = read_bin_recipe(reader, layout)
    elif kind == BY_CHANGES:
        recipe = read_change_recipe(reader, layout)
    else:
        recipe = read_palette(reader, layout)
    require(reader.pos - start <= MAX_RECIPE_LEN, "recipe is larger than 2 mib")
    return recipe


def read_plane_recipe(reader: Reader, layout: int) -> Recipe:
    """Section 3: a recipe by planes, after its layout."""
    width = 1 << (layout & 3)
    base_use, word_map = layout >> 6, layout >> 2 & 3
    sparse, offsets = bool(layout & 16), bool(layout & 32)
    require(word_map <= MAP_ZIGZAG, "unknown word map 3")
    require(not (sparse and offsets), "sparse and offsets together")
    symbol_bits = reader.uint(1)
    require(1 <= symbol_bits <= min(16, 8 * width), f"symbol_bits is {symbol_bits}")
    segment_log2 = reader.uint(1)
    require(10 <= segment_log2 <= 18, f"segment_log2 is {segment_log2}")
    bias = reader.uint(2) if symbol_bits > 8 else 0
    require(bias < 1 << symbol_bits, "bias does not fit the symbol")
    flags_coder = read_coder(reader) if sparse else None
    planes = 1 + len(remainder_plane_bits(width, symbol_bits))
    coders = tuple(read_coder(reader) for _ in range(planes))
    columns = read_columns(reader) if offsets else None
    return Recipe(
        width, base_use, word_map, symbol_bits, segment_log2, bias, flags_coder, coders, columns
    )


def undo_base_use(base_use: int, values: Words, base: Words) -> Words:
    """Section 3: the tensor's values, of which only the low bits of a value's width count."""
    if base_use == BASE_UNUSED:
        return values
    return values ^ base if base_use == BASE_XOR else values + base


def invert_word_map(word_map: int, words: Words, width: int) -> Words:
    """Section 3.1: the values of mapped words."""
    one = np.uint64(1)
    if word_map == MAP_NONE:
        return words
    if word_map == MAP_ROTATE:
        return (words >> one) | ((words & one) << np.uint64(8 * width - 1))
    ones = np.uint64((1 << (8 * width)) - 1)
    return (words >> one) ^ ((words & one) * ones)


def remainder_plane_bits(width: int, symbol_bits: int) -> list[int]:
    """Section 3.2: how many bits each plane below the symbol holds, in order."""
    remainder = 8 * width - symbol_bits
    partial = [remainder % 8] if remainder % 8 else []
    return partial + [8] * (remainder // 8)


def merge_planes(recipe: Recipe, symbols: Words, planes: list[Bytes]) -> Words:
    """Section 3.2: mapped words of the symbols and the planes below them."""
    words = symbols
    widths = remainder_plane_bits(recipe.width, recipe.symbol_bits)
    for bits, plane in zip(widths, planes, strict=True):
        low = plane & np.uint8((1 << bits) - 1)
        words = (words << np.uint64(bits)) | low.astype(np.uint64)
    return words


def read_exceptions(reader: Reader, plane: Bytes) -> Words:
    """Section 4.2: one u16 for each byte 255 of a wide symbol's plane."""
    count = int(np.count_nonzero(plane == WIDE_EXCEPTION))
    return np.frombuffer(reader.take(2 * count), dtype="<u2").astype(np.uint64)


def restore_symbols(recipe: Recipe, plane: Bytes, exceptions: Words, offsets: Words) -> Words:
    """Section 3.3: the symbols of a symbol plane. The bias of a symbol not wide is 0."""
    v = plane.astype(np.uint64) + np.uint64(recipe.bias)
    if recipe.symbol_bits > 8:
        v[plane == WIDE_EXCEPTION] = exceptions
    return (v + offsets) & np.uint64((1 << recipe.symbol_bits) - 1)


def read_columns(reader: Reader) -> Columns:
    """Section 3.4: the `columns` field."""
    count = reader.varint()
    require(1 <= count <= MAX_COLUMNS, f"a row has {count} values")
    base = reader.uint(2)
    return Columns(base, read_stream(read_coder(reader), reader, count))


@dataclass(frozen=True)
class Offsets:
    """Section 3.4: what the offsets of a block's values are made of."""

    columns: Columns
    first: int
    rows: Bytes

    def of_values(self, start: int, count: int) -> Words:
        """Offsets of the values from `start`, not reduced to 2^S."""
        places = np.arange(self.first + start, self.first + start + count)
        row, column = np.divmod(places, len(self.columns.col))
        total = self.rows[row].astype(np.uint64) + self.columns.col[column]
        return total + np.uint64(self.columns.base)


# Section 4: the coded body


def read_coded_body(
    reader: Reader, recipe: AnyRecipe, raw_len: int, base: bytes | None
) -> bytes:
    """Sections 4 and 4.3 to 4.6: the coded body."""
    count, tail_len = divmod(raw_len, recipe.width)
    base_words = read_base_words(recipe, raw_len, base)
    tail = reader.take(tail_len)
    columns = recipe.columns if isinstance(recipe, Recipe) else None
    first = read_first(reader, columns) if columns else 0
    size = 1 << recipe.segment_log2
    starts = range(0, count, size)
    index = [reader.uint(3) for _ in starts]
    segments = [Reader(reader.take(length)) for length in index]
    offsets = read_offsets(reader, columns, first, count) if columns else None
    values = bytearray()
    for start, segment in zip(starts, segments, strict=True):
        here = base_words[start : start + size]
        if isinstance(recipe, ClassRecipe):
            words = read_class_segment(segment, recipe, here)
        elif isinstance(recipe, BinBlock):
            words = read_bin_segment(segment, recipe, here)
        elif isinstance(recipe, ChangeRecipe):
            words = read_change_segment(segment, recipe, here)
        elif isinstance(recipe, Palette):
            words = read_palette_segment(segment, recipe, min(size, count - start))
        else:
            words = read_segment(segment, recipe, offsets, start, min(size, count - start))
            words = undo_base_use(recipe.base_use, words, here)
        segment.finish("segment")
        values += words.astype(f"<u{recipe.width}").tobytes()
    return bytes(values) + tail


def read_base_words(recipe: AnyRecipe, raw_len: int, base: bytes | None) -> Words:
    """Sections 3 and 3.6 to 3.8: the words of the base; none if the recipe does not use them."""
    is_unused = isinstance(recipe, Recipe) and recipe.base_use == BASE_UNUSED
    if is_unused or isinstance(recipe, Palette):
        return np.zeros(0, dtype=np.uint64)
    data = needed_base(base, raw_len)[: raw_len - raw_len % recipe.width]
    return np.frombuffer(data, dtype=f"<u{recipe.width}").astype(np.uint64)


def read_first(reader: Reader, columns: Columns) -> int:
    """Section 4: the field `first`."""
    first = reader.varint()
    require(first < len(columns.col), "first column is outside the row")
    return first


def read_offsets(reader: Reader, columns: Columns, first: int, count: int) -> Offsets:
    """Section 4: the field `rows` of a block of `count` values."""
    width = len(columns.col)
    row_count = (first + count + width - 1) // width
    return Offsets(columns, first, read_stream(read_coder(reader), reader, row_count))


def read_segment(
    reader: Reader, recipe: Recipe, offsets: Offsets | None, start: int, count: int
) -> Words:
    """Section 4.1: the `count` values from value `start` of the block."""
    coded = np.ones(count, dtype=np.bool_)
    if recipe.flags_coder:
        coded = read_flags(recipe.flags_coder, reader, count, "zero flags")
    shift = np.zeros(1, dtype=np.uint64)
    if offsets:
        shift = offsets.of_values(start, count)
    values = np.zeros(count, dtype=np.uint64)
    values[coded] = read_coded_values(reader, recipe, shift, int(np.count_nonzero(coded)))
    return values


def read_coded_values(reader: Reader, recipe: Recipe, offsets: Words, count: int) -> Words:
    """Section 4.2: the records, then the streams, of `count` values."""
    records = read_records(reader, recipe.plane_coders, count)
    planes = []
    exceptions = np.zeros(0, dtype=np.uint64)
    for place, coder in enumerate(recipe.plane_coders):
        raw = isinstance(coder, Raw)
        planes.append(records.pop(0) if raw else read_stream(coder, reader, count))
        if place == 0 and recipe.symbol_bits > 8:
            exceptions = read_exceptions(reader, planes[0])
    symbols = restore_symbols(recipe, planes[0], exceptions, offsets)
    words = merge_planes(recipe, symbols, planes[1:])
    return invert_word_map(recipe.word_map, words, recipe.width)


def read_records(reader: Reader, coders: tuple[Coder, ...], count: int) -> list[Bytes]:
    """Section 4.2: the raw planes, in the order of section 3.2."""
    raw = sum(isinstance(coder, Raw) for coder in coders)
    records = reader.array(raw * count).reshape(count, raw)
    return [records[:, place] for place in reversed(range(raw))]


# The command line


@dataclass(frozen=True)
class Case:
    """One record of a batch file."""

    shared: bytes | None
    base: bytes | None
    block: bytes
    expect_ok: bool
    raw: bytes


class BatchError(Exception):
    """The batch file itself is cut short."""


def read_exactly(file: BinaryIO, count: int) -> bytes:
    """The next `count` bytes of a batch file."""
    data = file.read(count)
    if len(data) < count:
        raise BatchError("batch file ends inside a case")
    return data


def read_counted(file: BinaryIO) -> bytes:
    """A u32 length and that many bytes of a batch file."""
    return read_exactly(file, int.from_bytes(read_exactly(file, 4), "little"))


def read_case(file: BinaryIO) -> Case | None:
    """The next case of a batch file, None at its end."""
    head = file.read(4)
    if not head:
        return None
    if len(head) < 4:
        raise BatchError("batch file ends inside a case")
    shared = read_exactly(file, int.from_bytes(head, "little"))
    base = read_counted(file) if read_exactly(file, 1) == b"\1" else None
    block = read_counted(file)
    expect_ok = read_exactly(file, 1) == b"\1"
    return Case(shared or None, base, block, expect_ok, read_counted(file))


def check_case(case: Case) -> str | None:
    """Why the decoder does not do what the case expects, or None."""
    try:
        raw = decode_block(case.block, case.shared, case.base)
    except Corrupt as error:
        return f"rejected: {error}" if case.expect_ok else None
    except Exception as error:  # a bug of this decoder: report it with its case and go on
        return f"failed: {error!r}"
    if not case.expect_ok:
        return "accepted, should be rejected"
    if raw != case.raw:
        return f"gives other bytes ({len(raw)}, expected {len(case.raw)})"
    return None


def run_batch(file: BinaryIO) -> int:
    """Check all cases of a batch file; the number of mismatches."""
    count = mismatches = 0
    while case := read_case(file):
        reason = check_case(case)
        if reason:
            mismatches += 1
            print(f"case {count}: {reason}")
        count += 1
    print(f"{count} cases checked, {mismatches} mismatches")
    return mismatches


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """The command line's arguments."""
    parser = argparse.ArgumentParser(description="Decode an lmc block.")
    parser.add_argument("block", nargs="?", type=Path, help="block file")
    parser.add_argument("--shared", type=Path, help="file of the shared recipe")
    parser.add_argument("--base", type=Path, help="file of the base, as long as the original")
    parser.add_argument("-o", "--output", type=Path, help="where the original bytes go")
    parser.add_argument("--batch", type=Path, help="check all cases of this file instead")
    options = parser.parse_args(arguments)
    single = options.block is not None and options.output is not None
    if options.batch is None and not single:
        parser.error("give BLOCK and -o OUT, or --batch FILE")
    others = (options.block, options.shared, options.base, options.output)
    if options.batch is not None and any(others):
        parser.error("--batch stands alone")
    return options


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit status."""
    options = parse_arguments(arguments)
    try:
        if options.batch:
            with options.batch.open("rb") as file:
                return 1 if run_batch(file) else 0
        shared = options.shared.read_bytes() if options.shared else None
        base = options.base.read_bytes() if options.base else None
        options.output.write_bytes(decode_block(options.block.read_bytes(), shared, base))
    except (Corrupt, BatchError, OSError) as error:
        print(f"decode.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
