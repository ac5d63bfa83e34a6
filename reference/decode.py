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
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

MAX_RAW_LEN = 1 << 26
MAX_RECIPE_LEN = 1 << 21
MAX_COLUMNS = 1 << 20
MAX_VARINT_BYTES = 10
STORED, CONSTANT, CODED, CODED_SHARED = range(4)
MAP_NONE, MAP_ROTATE, MAP_ZIGZAG = range(3)
WIDE_EXCEPTION = 255
MAX_LEVELS = 12
MAX_CHAIN_SYMBOLS = 31
MAX_CODE_LENGTH = 12
SLOTS = 4096
LANES = 32
STATE_LOW = 1 << 16


class Corrupt(Exception):
    """The block is rejected; the message is one lower-case line."""


def require(condition: bool, message: str) -> None:
    """Reject the block unless the condition holds."""
    if not condition:
        raise Corrupt(message)


# Section 1: conventions


class Reader:
    """Section 1: fields read in order from a string of bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0

    def left(self) -> int:
        """Number of bytes not read yet."""
        return len(self.data) - self.pos

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        require(count <= self.left(), "ends before a field it needs")
        self.pos += count
        return self.data[self.pos - count : self.pos]

    def array(self, count: int) -> Bytes:
        """The next `count` bytes, as an array."""
        return np.frombuffer(self.take(count), dtype=np.uint8)

    def uint(self, size: int) -> int:
        """A little-endian unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def varint(self, max_bytes: int = MAX_VARINT_BYTES) -> int:
        """An unsigned LEB128 number of at most 64 bits, in its shortest form."""
        value = 0
        for i in range(max_bytes):
            byte = self.uint(1)
            value |= (byte & 127) << (7 * i)
            if byte < 128:
                require(byte > 0 or i == 0, "varint is longer than needed")
                require(value < 1 << 64, "varint does not fit 64 bits")
                return value
        raise Corrupt(f"varint is longer than {max_bytes} bytes")

    def finish(self, what: str) -> None:
        """Reject bytes left over after the last field."""
        require(self.left() == 0, f"bytes left over in the {what}")


# Section 2: the block


def decode_block(block: bytes, shared_recipe: bytes | None = None) -> bytes:
    """Section 2: the original bytes of a block. The shared recipe is used by kind 3 only."""
    reader = Reader(bytes(block))
    kind = reader.uint(1)
    require(kind <= CODED_SHARED, f"unknown block kind {kind}")
    raw_len = reader.varint()
    require(raw_len <= MAX_RAW_LEN, "raw_len is larger than 64 mib")
    if kind == STORED:
        raw = reader.take(raw_len)
    elif kind == CONSTANT:
        raw = read_constant_block(reader, raw_len)
    elif kind == CODED:
        raw = read_coded_body(reader, read_recipe(reader), raw_len)
    else:
        raw = read_coded_body(reader, parse_shared_recipe(shared_recipe), raw_len)
    reader.finish("block")
    return raw


def read_constant_block(reader: Reader, raw_len: int) -> bytes:
    """Section 2, constant: one value of `width` bytes, repeated and cut at `raw_len`."""
    width = reader.uint(1)
    require(width in (1, 2, 4, 8), f"width of a constant block is {width}")
    value = reader.take(width)
    return (value * (raw_len // width + 1))[:raw_len]


def parse_shared_recipe(shared_recipe: bytes | None) -> Recipe:
    """Section 2, coded with a shared recipe: the recipe that stands outside the block."""
    if shared_recipe is None:
        raise Corrupt("the block needs a shared recipe and none is given")
    reader = Reader(bytes(shared_recipe))
    recipe = read_recipe(reader)
    reader.finish("shared recipe")
    return recipe


# Section 3: the recipe


@dataclass(frozen=True)
class Raw:
    """Section 3.5, id 0."""


@dataclass(frozen=True)
class Constant:
    """Section 3.5, id 1."""

    value: int


@dataclass(frozen=True)
class Packed:
    """Section 3.5, id 2."""

    mask: int
    rest: int


@dataclass(frozen=True)
class Chain:
    """Section 3.5, id 3: the symbols of each level; a level of d bits has 2^d - 1."""

    levels: tuple[bytes, ...]


@dataclass(frozen=True)
class Huffman:
    """Section 3.5, id 4: (symbol, length) for each string of the next 12 bits."""

    table: list[tuple[int, int]]


@dataclass(frozen=True)
class Rans:
    """Section 3.5, id 5: for each slot its symbol s, f(s) and slot - c(s)."""

    symbol: Bytes
    frequency: Words
    rank: Words


@dataclass(frozen=True)
class Runs:
    """Section 3.5, id 6."""


Coder = Raw | Constant | Packed | Chain | Huffman | Rans | Runs


@dataclass(frozen=True)
class Columns:
    """Section 3.4: the `columns` field of a recipe."""

    base: int
    col: Bytes


@dataclass(frozen=True)
class Recipe:
    """Section 3: all that the coded body needs to be read."""

    width: int
    word_map: int
    symbol_bits: int
    segment_log2: int
    bias: int
    flags_coder: Coder | None
    plane_coders: tuple[Coder, ...]
    columns: Columns | None


def read_recipe(reader: Reader) -> Recipe:
    """Section 3: the recipe."""
    start = reader.pos
    layout = reader.uint(1)
    width = 1 << (layout & 3)
    word_map = layout >> 2 & 3
    sparse, offsets = bool(layout & 16), bool(layout & 32)
    require(word_map <= MAP_ZIGZAG, "unknown word map 3")
    require(layout < 64, "high bits of the layout are not 0")
    require(not (sparse and offsets), "sparse and offsets together")
    symbol_bits = reader.uint(1)
    require(1 <= symbol_bits <= min(16, 8 * width), f"symbol_bits is {symbol_bits}")
    segment_log2 = reader.uint(1)
    require(10 <= segment_log2 <= 20, f"segment_log2 is {segment_log2}")
    bias = reader.uint(2) if symbol_bits > 8 else 0
    require(bias < 1 << symbol_bits, "bias does not fit the symbol")
    flags_coder = read_coder(reader) if sparse else None
    planes = 1 + len(remainder_plane_bits(width, symbol_bits))
    coders = tuple(read_coder(reader) for _ in range(planes))
    columns = read_columns(reader) if offsets else None
    require(reader.pos - start <= MAX_RECIPE_LEN, "recipe is larger than 2 mib")
    return Recipe(
        width, word_map, symbol_bits, segment_log2, bias, flags_coder, coders, columns
    )


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


def read_coder(reader: Reader) -> Coder:
    """Section 3.5: a coder's id and parameters."""
    coder_id = reader.uint(1)
    if coder_id == 0:
        return Raw()
    if coder_id == 1:
        return Constant(reader.uint(1))
    if coder_id == 2:
        return read_packed_parameters(reader)
    if coder_id == 3:
        return read_chain_parameters(reader)
    if coder_id == 4:
        return read_huffman_parameters(reader)
    if coder_id == 5:
        return read_rans_parameters(reader)
    require(coder_id == 6, f"unknown coder {coder_id}")
    return Runs()


def read_packed_parameters(reader: Reader) -> Packed:
    """Section 3.5: the mask and the rest."""
    mask, rest = reader.uint(1), reader.uint(1)
    require(mask != 0, "mask of a packed coder is 0")
    require(mask & rest == 0, "rest of a packed coder meets its mask")
    return Packed(mask, rest)


# Section 4: the coded body


def read_coded_body(reader: Reader, recipe: Recipe, raw_len: int) -> bytes:
    """Section 4: the coded body."""
    count, tail_len = divmod(raw_len, recipe.width)
    tail = reader.take(tail_len)
    first = read_first(reader, recipe.columns) if recipe.columns else 0
    size = 1 << recipe.segment_log2
    starts = range(0, count, size)
    index = [reader.uint(3) for _ in starts]
    segments = [Reader(reader.take(length)) for length in index]
    offsets = read_offsets(reader, recipe.columns, first, count) if recipe.columns else None
    values = bytearray()
    for start, segment in zip(starts, segments, strict=True):
        values += read_segment(segment, recipe, offsets, start, min(size, count - start))
    return bytes(values) + tail


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


def read_zero_flags(reader: Reader, coder: Coder, count: int) -> NDArray[np.bool_]:
    """Section 4.1: for each value of a sparse segment, whether it is coded."""
    bits = np.unpackbits(read_stream(coder, reader, (count + 7) // 8), bitorder="little")
    require(not bits[count:].any(), "zero flags beyond the last value")
    return bits[:count].astype(np.bool_)


def read_segment(
    reader: Reader, recipe: Recipe, offsets: Offsets | None, start: int, count: int
) -> bytes:
    """Section 4.1: the `count` values from value `start` of the block, as original bytes."""
    coded = np.ones(count, dtype=np.bool_)
    if recipe.flags_coder:
        coded = read_zero_flags(reader, recipe.flags_coder, count)
    shift = np.zeros(1, dtype=np.uint64)
    if offsets:
        shift = offsets.of_values(start, count)
    values = np.zeros(count, dtype=np.uint64)
    values[coded] = read_coded_values(reader, recipe, shift, int(np.count_nonzero(coded)))
    reader.finish("segment")
    return values.astype(f"<u{recipe.width}").tobytes()


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


# Section 5: streams


def read_stream(coder: Coder, reader: Reader, n: int) -> Bytes:
    """Section 5: the `n` bytes of a stream."""
    if isinstance(coder, Raw):
        return reader.array(n)
    if isinstance(coder, Constant):
        return np.full(n, coder.value, dtype=np.uint8)
    if isinstance(coder, Packed):
        return read_packed(coder, reader, n)
    if isinstance(coder, Chain):
        return read_chain(coder, reader, n)
    if isinstance(coder, Huffman):
        return read_huffman(coder, reader, n)
    if isinstance(coder, Rans):
        return read_rans(coder, reader, n)
    return read_runs(reader, n)


def read_packed(coder: Packed, reader: Reader, n: int) -> Bytes:
    """Section 5.1, packed."""
    places = [bit for bit in range(8) if coder.mask >> bit & 1]
    total = n * len(places)
    bits = np.unpackbits(reader.array((total + 7) // 8), bitorder="little")
    require(not bits[total:].any(), "padding of a packed stream is not 0")
    fields = bits[:total].reshape(n, len(places))
    plane = np.full(n, coder.rest, dtype=np.uint8)
    for field, place in enumerate(places):
        plane |= fields[:, field] << np.uint8(place)
    return plane


def read_runs(reader: Reader, n: int) -> Bytes:
    """Section 5.1, runs."""
    plane = bytearray()
    while len(plane) < n:
        token = reader.varint()
        length = (token >> 1) + 1
        require(length <= n - len(plane), "run is longer than its stream")
        plane += reader.take(1) * length if token & 1 else reader.take(length)
    return np.frombuffer(bytes(plane), dtype=np.uint8)


def read_chain_parameters(reader: Reader) -> Chain:
    """Section 5.2: the levels, their shape and symbols."""
    count = reader.uint(1)
    require(1 <= count <= MAX_LEVELS, f"chain has {count} levels")
    shape = reader.uint(2)
    require(shape < 1 << count, "shape of a chain has bits beyond its levels")
    sizes = [3 if shape >> level & 1 else 1 for level in range(count)]
    require(sum(sizes) <= MAX_CHAIN_SYMBOLS, f"chain has {sum(sizes)} symbols")
    return Chain(tuple(reader.take(size) for size in sizes))


def read_digits(reader: Reader, bits: int, n: int) -> Bytes:
    """Section 5.2: the digits, of `bits` bits, of the `n` bytes that reach a level."""
    groups, partial = divmod(n, 64)
    words = np.unpackbits(reader.array(groups * bits * 8), bitorder="little")
    full = words.reshape(groups, bits, 64).transpose(1, 0, 2).reshape(bits, groups * 64)
    size = (partial + 7) // 8
    strings = np.unpackbits(reader.array(bits * size), bitorder="little")
    rest = strings.reshape(bits, size * 8)
    require(not rest[:, partial:].any(), "padding of a chain stream is not 0")
    digits = np.zeros(n, dtype=np.uint8)
    for bit in range(bits):
        digits |= np.concatenate([full[bit], rest[bit, :partial]]) << np.uint8(bit)
    return digits


def read_chain(coder: Chain, reader: Reader, n: int) -> Bytes:
    """Section 5.2: a chain's levels, then the escaped bytes."""
    plane = np.zeros(n, dtype=np.uint8)
    reaching = np.arange(n)
    for symbols in coder.levels:
        largest = len(symbols)
        digits = read_digits(reader, largest.bit_length(), len(reaching))
        named = digits < largest
        plane[reaching[named]] = np.frombuffer(symbols, dtype=np.uint8)[digits[named]]
        reaching = reaching[~named]
    plane[reaching] = reader.array(len(reaching))
    return plane


def read_symbol_range(reader: Reader) -> range:
    """Sections 5.3 and 5.4: the symbols `first` to `last`."""
    first, last = reader.uint(1), reader.uint(1)
    require(first < last, "first symbol is not below the last")
    return range(first, last + 1)


def read_huffman_parameters(reader: Reader) -> Huffman:
    """Section 5.3: the code lengths."""
    symbols = read_symbol_range(reader)
    packed = reader.take((len(symbols) + 1) // 2)
    nibbles = [nibble for byte in packed for nibble in (byte & 15, byte >> 4)]
    require(not any(nibbles[len(symbols) :]), "unused code length is not 0")
    require(max(nibbles) <= MAX_CODE_LENGTH, "code length is larger than 12")
    present = sorted((n, s) for s, n in zip(symbols, nibbles, strict=False) if n)
    total = sum(SLOTS >> length for length, _ in present)
    require(total == SLOTS, "huffman code is not complete")
    return Huffman(canonical_table(present))


def canonical_table(present: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Section 5.3: the decoding table of a complete code given as sorted (length, symbol)."""
    table = [(0, 0)] * SLOTS
    code, previous = -1, present[0][0]
    for length, symbol in present:
        code = (code + 1) << (length - previous)
        previous = length
        start = int(f"{code:0{length}b}"[::-1], 2)
        for slot in range(start, SLOTS, 1 << length):
            table[slot] = (symbol, length)
    return table


def read_huffman(coder: Huffman, reader: Reader, n: int) -> Bytes:
    """Section 5.3: the four parts of a stream."""
    quarter = (n + 3) // 4
    lengths = [reader.varint() for _ in range(4)]
    plane = bytearray()
    for length in lengths:
        count = min(quarter, n - len(plane))
        plane += decode_huffman_part(coder, reader.take(length), count)
    return np.frombuffer(bytes(plane), dtype=np.uint8)


def decode_huffman_part(coder: Huffman, part: bytes, count: int) -> bytes:
    """Section 5.3: the `count` bytes of a part; bits beyond its end read as 0 at first."""
    table = coder.table
    plane = bytearray(count)
    window = held = read = used = 0
    for i in range(count):
        if held < MAX_CODE_LENGTH:
            window |= int.from_bytes(part[read : read + 6], "little") << held
            read += 6
            held += 48
        plane[i], length = table[window & (SLOTS - 1)]
        window >>= length
        held -= length
        used += length
    require(len(part) == (used + 7) // 8, "huffman part has not the length of its bits")
    require(used % 8 == 0 or part[-1] >> used % 8 == 0, "padding of a huffman part is not 0")
    return bytes(plane)


def read_rans_parameters(reader: Reader) -> Rans:
    """Section 5.4: the frequencies."""
    symbols = read_symbol_range(reader)
    frequencies = [reader.varint(max_bytes=2) for _ in symbols]
    require(max(frequencies) < SLOTS, "frequency is not below 4096")
    require(sum(frequencies) == SLOTS, "frequencies do not sum to 4096")
    frequency = np.array(frequencies, dtype=np.uint64)
    below = np.cumsum(frequency, dtype=np.uint64) - frequency
    which = np.repeat(np.arange(len(symbols)), frequencies)
    rank = np.arange(SLOTS, dtype=np.uint64) - below[which]
    return Rans((which + symbols.start).astype(np.uint8), frequency[which], rank)


def read_rans(coder: Rans, reader: Reader, n: int) -> Bytes:
    """Section 5.4: a stream, decoded a row of 32 lanes at a time."""
    word_count = reader.varint()
    states = np.frombuffer(reader.take(4 * LANES), dtype="<u4").astype(np.uint64)
    require(bool((states >= STATE_LOW).all()), "rans state is below 2^16")
    words = np.frombuffer(reader.take(2 * word_count), dtype="<u2").astype(np.uint64)
    plane = np.zeros(n, dtype=np.uint8)
    used = 0
    for start in range(0, n, LANES):
        row = plane[start : start + LANES]
        lanes = states[: len(row)]
        slots = lanes & np.uint64(SLOTS - 1)
        row[:] = coder.symbol[slots]
        lanes[:] = coder.frequency[slots] * (lanes >> np.uint64(12)) + coder.rank[slots]
        low = np.flatnonzero(lanes < STATE_LOW)
        require(used + len(low) <= word_count, "rans stream has too few words")
        lanes[low] = (lanes[low] << np.uint64(16)) | words[used : used + len(low)]
        used += len(low)
    require(used == word_count, "rans stream has words left over")
    require(bool((states == STATE_LOW).all()), "rans state does not end at 2^16")
    return plane


# The command line


@dataclass(frozen=True)
class Case:
    """One record of a batch file."""

    shared: bytes | None
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
    block = read_counted(file)
    expect_ok = read_exactly(file, 1) == b"\1"
    return Case(shared or None, block, expect_ok, read_counted(file))


def check_case(case: Case) -> str | None:
    """Why the decoder does not do what the case expects, or None."""
    try:
        raw = decode_block(case.block, case.shared)
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
    parser.add_argument("-o", "--output", type=Path, help="where the original bytes go")
    parser.add_argument("--batch", type=Path, help="check all cases of this file instead")
    options = parser.parse_args(arguments)
    single = options.block is not None and options.output is not None
    if options.batch is None and not single:
        parser.error("give BLOCK and -o OUT, or --batch FILE")
    if options.batch is not None and (options.block or options.shared or options.output):
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
        options.output.write_bytes(decode_block(options.block.read_bytes(), shared))
    except (Corrupt, BatchError, OSError) as error:
        print(f"decode.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
