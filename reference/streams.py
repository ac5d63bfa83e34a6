"""Sections 3.5 and 5 of docs/format.md: coders and the streams they code.

What goes in is a `Reader` at the start of a coder or a stream; what comes out are the bytes. A
field or a stream that is rejected raises `Corrupt`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from reader import Bytes, Reader, Words, require

MAX_LEVELS = 12
MAX_CHAIN_SYMBOLS = 31
MAX_CODE_LENGTH = 12
SLOTS = 4096
LANES = 32
STATE_LOW = 1 << 16
MAX_LOW_BITS = 24
MAX_APART_DEPTH = 3


# Section 3.5: coders


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


@dataclass(frozen=True)
class Gaps:
    """Section 3.5, id 7."""

    low_bits: int


@dataclass(frozen=True)
class Apart:
    """Section 3.5, id 8."""

    common: int
    flags: Coder
    others: Coder


@dataclass(frozen=True)
class Block:
    """Section 5.6: some symbols of one code length, or the escape, which has none."""

    depth: int
    length: int
    symbols: tuple[int, ...]


@dataclass(frozen=True)
class Tree:
    """Section 3.5, id 9: the sorted blocks."""

    blocks: tuple[Block, ...]


Coder = Raw | Constant | Packed | Chain | Huffman | Rans | Runs | Gaps | Apart | Tree


def read_coder(reader: Reader, apart_depth: int = 0) -> Coder:
    """Section 3.5: a coder's id and parameters. It is nested in `apart_depth` coders of id 8."""
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
    if coder_id == 6:
        return Runs()
    if coder_id == 7:
        return read_gaps_parameters(reader)
    if coder_id == 8:
        return read_apart_parameters(reader, apart_depth + 1)
    require(coder_id == 9, f"unknown coder {coder_id}")
    return read_tree_parameters(reader)


def read_packed_parameters(reader: Reader) -> Packed:
    """Section 3.5: the mask and the rest."""
    mask, rest = reader.uint(1), reader.uint(1)
    require(mask != 0, "mask of a packed coder is 0")
    require(mask & rest == 0, "rest of a packed coder meets its mask")
    return Packed(mask, rest)


def read_gaps_parameters(reader: Reader) -> Gaps:
    """Section 3.5: the bits of a gap that stand as they are."""
    low_bits = reader.uint(1)
    require(low_bits <= MAX_LOW_BITS, f"low_bits of a gaps coder is {low_bits}")
    return Gaps(low_bits)


def read_apart_parameters(reader: Reader, depth: int) -> Apart:
    """Section 3.5: the common byte and the two coders, which may be of the same id again."""
    require(depth <= MAX_APART_DEPTH, "more than 3 apart coders are nested")
    return Apart(reader.uint(1), read_coder(reader, depth), read_coder(reader, depth))


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
    if isinstance(coder, Runs):
        return read_runs(reader, n)
    if isinstance(coder, Gaps):
        return read_gaps(coder, reader, n)
    if isinstance(coder, Tree):
        return read_tree(coder, reader, n)
    return read_apart(coder, reader, n)


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


def read_gaps(coder: Gaps, reader: Reader, n: int) -> Bytes:
    """Section 5.1, gaps."""
    count = reader.varint()
    data = reader.rest()
    string = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little").tobytes()
    bits = np.zeros(8 * n, dtype=np.uint8)
    at = place = 0
    for _ in range(count):
        one = string.find(1, at)
        low_at = one + 1
        require(one >= 0 and low_at + coder.low_bits <= len(string), "ends before a gap does")
        # 24 bits at most, from any bit of a byte on, lie in 4 bytes
        low = int.from_bytes(data[low_at // 8 : low_at // 8 + 4], "little") >> low_at % 8
        place += (one - at << coder.low_bits) + low % (1 << coder.low_bits)
        require(place < 8 * n, "set bit is beyond the last byte")
        bits[place] = 1
        place += 1
        at = low_at + coder.low_bits
    reader.take((at + 7) // 8)
    require(not any(string[at : -(-at // 8) * 8]), "padding of a gaps stream is not 0")
    return np.packbits(bits, bitorder="little")


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


def read_code_lengths(reader: Reader, symbols: range) -> list[tuple[int, int]]:
    """Section 5.3: (length, symbol) of the symbols that are present."""
    packed = reader.take((len(symbols) + 1) // 2)
    nibbles = [nibble for byte in packed for nibble in (byte & 15, byte >> 4)]
    require(not any(nibbles[len(symbols) :]), "unused code length is not 0")
    require(max(nibbles) <= MAX_CODE_LENGTH, "code length is larger than 12")
    return sorted((n, s) for s, n in zip(symbols, nibbles, strict=False) if n)


def read_huffman_parameters(reader: Reader) -> Huffman:
    """Section 5.3: the code lengths."""
    present = read_code_lengths(reader, read_symbol_range(reader))
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
        table[start :: 1 << length] = [(symbol, length)] * (SLOTS >> length)
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
    frequencies = [0] * 256
    for symbol in symbols:
        frequencies[symbol] = reader.varint(max_bytes=2)
    return rans_table(frequencies)


def rans_table(frequencies: list[int]) -> Rans:
    """Section 5.4: what each slot is, by the frequencies of all symbols."""
    require(max(frequencies) < SLOTS, "frequency is not below 4096")
    require(sum(frequencies) == SLOTS, "frequencies do not sum to 4096")
    frequency = np.array(frequencies, dtype=np.uint64)
    below = np.cumsum(frequency, dtype=np.uint64) - frequency
    which = np.repeat(np.arange(256), frequencies)
    rank = np.arange(SLOTS, dtype=np.uint64) - below[which]
    return Rans(which.astype(np.uint8), frequency[which], rank)


def read_rans(coder: Rans, reader: Reader, n: int) -> Bytes:
    """Section 5.4: a stream."""
    return read_rans_by_context([coder], reader, np.zeros(n, dtype=np.intp))


def read_rans_by_context(
    tables: Sequence[Rans], reader: Reader, contexts: NDArray[np.intp]
) -> Bytes:
    """Sections 5.4 and 5.7: a stream of bytes in these contexts, decoded a row of 32 lanes at a
    time."""
    n = len(contexts)
    symbol = np.stack([table.symbol for table in tables])
    frequency = np.stack([table.frequency for table in tables])
    rank = np.stack([table.rank for table in tables])
    word_count = reader.varint()
    states = np.frombuffer(reader.take(4 * LANES), dtype="<u4").astype(np.uint64)
    require(bool((states >= STATE_LOW).all()), "rans state is below 2^16")
    words = np.frombuffer(reader.take(2 * word_count), dtype="<u2").astype(np.uint64)
    plane = np.zeros(n, dtype=np.uint8)
    used = 0
    for start in range(0, n, LANES):
        row = plane[start : start + LANES]
        lanes = states[: len(row)]
        slots = contexts[start : start + LANES], lanes & np.uint64(SLOTS - 1)
        row[:] = symbol[slots]
        lanes[:] = frequency[slots] * (lanes >> np.uint64(12)) + rank[slots]
        low = np.flatnonzero(lanes < STATE_LOW)
        require(used + len(low) <= word_count, "rans stream has too few words")
        lanes[low] = (lanes[low] << np.uint64(16)) | words[used : used + len(low)]
        used += len(low)
    require(used == word_count, "rans stream has words left over")
    require(bool((states == STATE_LOW).all()), "rans state does not end at 2^16")
    return plane


def read_flags(coder: Coder, reader: Reader, count: int, what: str) -> NDArray[np.bool_]:
    """Sections 4.1 and 5.5: one flag for each of `count` values or bytes."""
    bits = np.unpackbits(read_stream(coder, reader, (count + 7) // 8), bitorder="little")
    require(not bits[count:].any(), f"{what} beyond the last value")
    return bits[:count].astype(np.bool_)


def read_apart(coder: Apart, reader: Reader, n: int) -> Bytes:
    """Section 5.5: the flags, then the bytes other than the common one."""
    flags = read_flags(coder.flags, reader, n, "apart flags")
    plane = np.full(n, coder.common, dtype=np.uint8)
    plane[flags] = read_stream(coder.others, reader, int(np.count_nonzero(flags)))
    return plane


def read_tree_parameters(reader: Reader) -> Tree:
    """Section 5.6: the code lengths of the escape and of the symbols."""
    symbols = read_symbol_range(reader)
    escape = reader.uint(1)
    require(escape <= MAX_CODE_LENGTH, "code length of an escape is larger than 12")
    present = read_code_lengths(reader, symbols)
    lengths = [length for length, _ in present] + [escape] * (escape > 0)
    require(sum(SLOTS >> length for length in lengths) == SLOTS, "tree code is not complete")
    require(len(present) >= 2, "tree has fewer than two symbols")
    require(len(lengths) <= 256, "tree has all symbols and an escape")
    blocks: list[Block] = []
    for length in range(1, MAX_CODE_LENGTH + 1):
        left = [symbol for own, symbol in present if own == length]
        while left:
            k = len(left).bit_length() - 1
            blocks.append(Block(length - k, length, tuple(left[: 1 << k])))
            left = left[1 << k :]
    if escape > 0:
        blocks.append(Block(escape, escape, ()))
    return Tree(tuple(sorted(blocks, key=lambda b: (b.depth, b.length, not b.symbols))))


def read_bits(reader: Reader, count: int) -> Bytes:
    """Section 5.6: a string of bits of a tree's node."""
    bits = np.unpackbits(reader.array((count + 7) // 8), bitorder="little")
    require(not bits[count:].any(), "padding of a tree node is not 0")
    return bits[:count]


def read_tree(coder: Tree, reader: Reader, n: int) -> Bytes:
    """Section 5.6: the nodes of one depth after those of the one above."""
    plane = np.zeros(n, dtype=np.uint8)
    level = [(coder.blocks, np.arange(n))]
    depth = 0
    while level:
        children = []
        for blocks, places in level:
            if len(blocks) == 1:
                plane[places] = read_block(blocks[0], reader, len(places))
                continue
            goes_right = read_bits(reader, len(places)).astype(np.bool_)
            count = filled = 0
            while filled < SLOTS >> depth + 1:
                filled += SLOTS >> blocks[count].depth
                count += 1
            children.append((blocks[:count], places[~goes_right]))
            children.append((blocks[count:], places[goes_right]))
        level = children
        depth += 1
    return plane


def read_block(block: Block, reader: Reader, count: int) -> Bytes:
    """Section 5.6: the bytes that reach a node of one block."""
    if not block.symbols:
        return reader.array(count)
    k = block.length - block.depth
    fields = read_bits(reader, count * k).reshape(count, k)
    numbers = np.zeros(count, dtype=np.uint8)
    for bit in range(k):
        numbers |= fields[:, bit] << np.uint8(bit)
    return np.array(block.symbols, dtype=np.uint8)[numbers]
