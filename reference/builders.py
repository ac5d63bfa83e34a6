"""Blocks for the tests, made by tiny encoders from docs/format.md that share no code with
decode.py, and the base classes of the tests of blocks."""

from __future__ import annotations

import random
import unittest
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import decode
from field_builders import bit_string, u16, u24, u32, varint

SEGMENT_LOG2 = 10


# Tiny encoders, from the document


class Raw:
    parameters = b"\0"

    def stream(self, data: bytes) -> bytes:
        return data


@dataclass
class Constant:
    value: int

    @property
    def parameters(self) -> bytes:
        return bytes([1, self.value])

    def stream(self, data: bytes) -> bytes:
        assert set(data) <= {self.value}
        return b""


@dataclass
class Packed:
    mask: int
    rest: int = 0

    @property
    def parameters(self) -> bytes:
        return bytes([2, self.mask, self.rest])

    def stream(self, data: bytes) -> bytes:
        places = [bit for bit in range(8) if self.mask >> bit & 1]
        assert all(byte & ~self.mask & 255 == self.rest for byte in data)
        return bit_string([(byte >> place & 1, 1) for byte in data for place in places])


@dataclass
class Chain:
    levels: list[bytes]

    @property
    def parameters(self) -> bytes:
        shape = sum(1 << i for i, symbols in enumerate(self.levels) if len(symbols) == 3)
        return bytes([3, len(self.levels)]) + u16(shape) + b"".join(self.levels)

    def stream(self, data: bytes) -> bytes:
        out = b""
        for symbols in self.levels:
            digits = [symbols.find(byte) % (len(symbols) + 1) for byte in data]
            for start in range(0, len(digits), 64):
                group = digits[start : start + 64]
                for bit in range(2 if len(symbols) == 3 else 1):
                    out += bit_string([(digit >> bit & 1, 1) for digit in group])
            data = bytes(byte for byte in data if byte not in symbols)
        return out + data


@dataclass
class Huffman:
    lengths: dict[int, int]

    @property
    def parameters(self) -> bytes:
        first, last = min(self.lengths), max(self.lengths)
        nibbles = [(self.lengths.get(symbol, 0), 4) for symbol in range(first, last + 1)]
        return bytes([4, first, last]) + bit_string(nibbles)

    def codes(self) -> dict[int, str]:
        codes: dict[int, str] = {}
        code, previous = 0, 0
        for symbol in sorted(self.lengths, key=lambda s: (self.lengths[s], s)):
            length = self.lengths[symbol]
            code <<= length - previous
            codes[symbol] = format(code, f"0{length}b")
            code, previous = code + 1, length
        return codes

    def parts(self, data: bytes) -> list[bytes]:
        codes, quarter = self.codes(), -(-len(data) // 4)
        slices = [data[i * quarter : (i + 1) * quarter] for i in range(4)]
        strings = ["".join(codes[byte] for byte in part) for part in slices]
        return [bit_string([(int(bit), 1) for bit in string]) for string in strings]

    def stream(self, data: bytes) -> bytes:
        parts = self.parts(data)
        return b"".join(varint(len(part)) for part in parts) + b"".join(parts)


@dataclass
class Rans:
    frequencies: dict[int, int]

    @property
    def parameters(self) -> bytes:
        first, last = min(self.frequencies), max(self.frequencies)
        counts = [self.frequencies.get(symbol, 0) for symbol in range(first, last + 1)]
        return bytes([5, first, last]) + b"".join(map(varint, counts))

    def encode(self, data: bytes) -> tuple[list[int], list[int]]:
        states, words = [1 << 16] * 32, []
        for i in reversed(range(len(data))):
            x, f = states[i % 32], self.frequencies[data[i]]
            c = sum(count for symbol, count in self.frequencies.items() if symbol < data[i])
            if x >= f << 20:
                words.append(x & 0xFFFF)
                x >>= 16
            states[i % 32] = (x // f << 12) + c + x % f
        return states, words[::-1]

    def stream(self, data: bytes) -> bytes:
        return rans_stream(*self.encode(data))


def rans_stream(states: list[int], words: list[int]) -> bytes:
    return varint(len(words)) + b"".join(map(u32, states)) + b"".join(map(u16, words))


class Runs:
    parameters = b"\6"

    def stream(self, data: bytes) -> bytes:
        """Runs of four and more repeated, the bytes between them as literals."""
        out, literals, at = b"", b"", 0
        while at < len(data):
            length = len(data[at:]) - len(data[at:].lstrip(data[at : at + 1]))
            if length < 4:
                literals += data[at : at + length]
            else:
                out += self.literal(literals) + varint((length - 1) << 1 | 1) + data[at : at + 1]
                literals = b""
            at += length
        return out + self.literal(literals)

    def literal(self, data: bytes) -> bytes:
        return varint((len(data) - 1) << 1) + data if data else b""


@dataclass
class Gaps:
    low_bits: int

    @property
    def parameters(self) -> bytes:
        return bytes([7, self.low_bits])

    def stream(self, data: bytes) -> bytes:
        places = [i for i in range(8 * len(data)) if data[i // 8] >> i % 8 & 1]
        gaps = [b - a - 1 for a, b in pairwise([-1, *places])]
        return varint(len(gaps)) + self.codes(gaps)

    def codes(self, gaps: Sequence[int]) -> bytes:
        """The string of bits of some gaps."""
        fields: list[tuple[int, int]] = []
        for gap in gaps:
            zeros, low = divmod(gap, 1 << self.low_bits)
            fields += [(1 << zeros, zeros + 1), (low, self.low_bits)]
        return bit_string(fields)


@dataclass
class Apart:
    common: int
    flags: Coder
    others: Coder

    @property
    def parameters(self) -> bytes:
        return bytes([8, self.common]) + self.flags.parameters + self.others.parameters

    def stream(self, data: bytes) -> bytes:
        flags = bit_string([(byte != self.common, 1) for byte in data])
        others = bytes(byte for byte in data if byte != self.common)
        return self.flags.stream(flags) + self.others.stream(others)


@dataclass
class Tree:
    lengths: dict[int, int]
    escape: int = 0

    @property
    def parameters(self) -> bytes:
        first, last = min(self.lengths), max(self.lengths)
        nibbles = [(self.lengths.get(symbol, 0), 4) for symbol in range(first, last + 1)]
        return bytes([9, first, last, self.escape]) + bit_string(nibbles)

    def blocks(self) -> dict[str, list[int]]:
        """The symbols by the code of their block; the escape has none."""
        sized: list[tuple[int, int, int, list[int]]] = []
        for length in range(1, 13):
            symbols = sorted(s for s, own in self.lengths.items() if own == length)
            for k in reversed(range(9)):
                if len(symbols) >> k & 1:
                    sized.append((length - k, length, 0, symbols[: 1 << k]))
                    symbols = symbols[1 << k :]
        if self.escape:
            sized.append((self.escape, self.escape, 1, []))
        codes: dict[str, list[int]] = {}
        places = 0
        for depth, _, _, symbols in sorted(sized):
            codes[format(places, "012b")[:depth]] = symbols
            places += 1 << 12 - depth
        return codes

    def stream(self, data: bytes) -> bytes:
        blocks = self.blocks()
        code_of = {symbol: code for code, symbols in blocks.items() for symbol in symbols}
        rest = next((code for code, symbols in blocks.items() if not symbols), None)
        codes = [code_of.get(byte, rest) or "" for byte in data]
        out = b""
        for depth in range(13):
            for node in sorted({code[:depth] for code in blocks if len(code) >= depth}):
                own = [i for i, code in enumerate(codes) if code.startswith(node)]
                if node not in blocks:
                    out += bit_string([(int(codes[i][depth]), 1) for i in own])
                elif not blocks[node]:
                    out += bytes(data[i] for i in own)
                else:
                    k = len(blocks[node]).bit_length() - 1
                    out += bit_string([(blocks[node].index(data[i]), k) for i in own])
        return out


Coder = Raw | Constant | Packed | Chain | Huffman | Rans | Runs | Gaps | Apart | Tree


@dataclass
class Spec:
    """A recipe and what else the encoder needs."""

    width: int = 1
    symbol_bits: int = 8
    planes: Sequence[Coder] = field(default_factory=lambda: [Raw()])
    word_map: int = 0
    bias: int = 0
    flags: Coder | None = None
    col: bytes = b""
    col_coder: Coder = field(default_factory=Raw)
    base: int = 0
    first: int = 0
    rows: bytes = b""
    rows_coder: Coder = field(default_factory=Raw)
    base_use: int = 0

    def recipe(self) -> bytes:
        layout = self.width.bit_length() - 1 | self.word_map << 2 | self.base_use << 6
        layout |= (16 if self.flags else 0) | (32 if self.col else 0)
        out = bytes([layout, self.symbol_bits, SEGMENT_LOG2])
        out += u16(self.bias) if self.symbol_bits > 8 else b""
        out += self.flags.parameters if self.flags else b""
        out += b"".join(coder.parameters for coder in self.planes)
        if self.col:
            out += varint(len(self.col)) + u16(self.base)
            out += self.col_coder.parameters + self.col_coder.stream(self.col)
        return out

    def offset(self, place: int) -> int:
        if not self.col:
            return 0
        row, column = divmod(self.first + place, len(self.col))
        return self.base + self.rows[row] + self.col[column]

    def mapped(self, value: int) -> int:
        bits = 8 * self.width
        sign = value >> (bits - 1)
        doubled = value << 1 & (1 << bits) - 1
        if self.word_map == 1:
            return doubled | sign
        if self.word_map == 2:
            return doubled ^ ((1 << bits) - 1) * sign
        return value

    def plane_bytes(self, value: int, place: int) -> tuple[list[int], list[int]]:
        """The bytes of a value, in plane order, and its exceptions."""
        word = self.mapped(value)
        remainder = 8 * self.width - self.symbol_bits
        v = ((word >> remainder) - self.offset(place)) % (1 << self.symbol_bits)
        exceptions: list[int] = []
        if self.symbol_bits > 8:
            near = self.bias <= v < self.bias + 255
            exceptions = [] if near else [v]
            v = v - self.bias if near else 255
        out = [v]
        if remainder % 8:
            out.append(word >> (remainder - remainder % 8) & (1 << remainder % 8) - 1)
        out += [word >> 8 * i & 255 for i in reversed(range(remainder // 8))]
        return out, exceptions

    def segment(self, values: list[int], start: int) -> bytes:
        out = b""
        if self.flags:
            out += self.flags.stream(bit_string([(value != 0, 1) for value in values]))
            values = [value for value in values if value]
        parts = [self.plane_bytes(value, start + i) for i, value in enumerate(values)]
        raw = [i for i, coder in enumerate(self.planes) if isinstance(coder, Raw)]
        out += bytes(part[0][i] for part in parts for i in reversed(raw))
        for i, coder in enumerate(self.planes):
            if i not in raw:
                out += coder.stream(bytes(part[0][i] for part in parts))
            if i == 0:
                out += b"".join(u16(v) for part in parts for v in part[1])
        return out

    def against(self, value: int, base: int) -> int:
        """What stands for a value with this use of the base."""
        if self.base_use == 1:
            return value ^ base
        return (value - base) % (1 << 8 * self.width)

    def body(self, raw: bytes, base: bytes = b"") -> bytes:
        values = values_of(raw, self.width)
        count = len(values)
        if self.base_use:
            pairs = zip(values, values_of(base, self.width), strict=True)
            values = [self.against(value, other) for value, other in pairs]
        size = 1 << SEGMENT_LOG2
        starts = range(0, count, size)
        segments = [self.segment(values[start : start + size], start) for start in starts]
        out = raw[count * self.width :]
        if self.col:
            out += varint(self.first)
        out += b"".join(u24(len(s)) for s in segments) + b"".join(segments)
        if self.col:
            out += self.rows_coder.parameters + self.rows_coder.stream(self.rows)
        return out

    def block(self, raw: bytes, base: bytes = b"") -> bytes:
        return b"\2" + varint(len(raw)) + self.recipe() + self.body(raw, base)

    def shared_block(self, raw: bytes, base: bytes = b"") -> bytes:
        return b"\3" + varint(len(raw)) + self.body(raw, base)


def coded(recipe: bytes, raw_len: int, segment: bytes, head: bytes = b"") -> bytes:
    """A coded block of one segment, from its parts."""
    return b"\2" + varint(raw_len) + recipe + head + u24(len(segment)) + segment


def plain(parameters: bytes, raw_len: int, stream: bytes) -> bytes:
    """A block of bytes with one plane of the coder given by its parameters."""
    return coded(bytes([0, 8, 10]) + parameters, raw_len, stream)


def values_of(raw: bytes, width: int) -> list[int]:
    """The whole values of original bytes."""
    ends = range(width, len(raw) + 1, width)
    return [int.from_bytes(raw[end - width : end], "little") for end in ends]


def words_of(values: list[int], width: int) -> bytes:
    return b"".join(value.to_bytes(width, "little") for value in values)


TEXT = bytes(random.Random(1).choices(b"abcdefg", [40, 20, 10, 10, 5, 5, 1], k=2500))
HUFFMAN = Huffman({97: 1, 98: 2, 99: 4, 100: 4, 101: 4, 102: 5, 103: 5})
RANS = Rans({97: 1500, 98: 1000, 99: 500, 100: 500, 101: 300, 102: 200, 103: 96})
TREE = Tree({97: 2, 98: 2, 99: 2, 100: 4, 101: 4, 102: 4}, escape=4)
CHAIN = Chain([b"abc", b"d", b"e"])
PACKED = Packed(0b00000111, 0b01100000)
APART = Apart(97, Gaps(1), Apart(98, Raw(), HUFFMAN))
RUNS_DATA = b"xyz" + b"a" * 900 + b"bc" + b"\0" * 600 + b"q"


def wide_spec(**changes: Any) -> Spec:
    """Values of 4 bytes, symbols of 13 bits: planes of 13, 3, 8 and 8 bits."""
    base = Spec(4, 13, [Runs(), Packed(7), Raw(), Raw()], bias=1000)
    return Spec(**{**vars(base), **changes})


def wide_values(count: int, seed: int = 2) -> bytes:
    rng = random.Random(seed)
    symbols = rng.choices([1000, 1001, 1254, 1255, 999, 0, 8191], k=count)
    return words_of([symbol << 19 | rng.getrandbits(19) for symbol in symbols], 4)


def offsets_spec(**changes: Any) -> Spec:
    """Seven values of two bytes in a row; the block starts in column 5."""
    rows = bytes(random.Random(3).randbytes(-(-(5 + 1500) // 7)))
    base = Spec(2, 5, [Packed(31), Raw(), Raw()], col=b"\1\2\3\4\5\6\377", base=65535)
    return Spec(**{**vars(base), "first": 5, "rows": rows, **changes})


def sparse_values(count: int) -> bytes:
    rng = random.Random(4)
    return words_of([rng.randrange(1, 65536) * (rng.random() < 0.3) for _ in range(count)], 2)


@dataclass
class Sample:
    """A block, what is given with it and its original bytes."""

    block: bytes
    raw: bytes
    shared: bytes | None = None
    base: bytes | None = None

    def decode(self) -> bytes:
        return decode.decode_block(self.block, self.shared, self.base)


def samples() -> dict[str, Sample]:
    """Blocks of every coder and feature; all small."""
    data, wide, pairs = TEXT[:150], wide_values(40), TEXT[:61]
    offsets = offsets_spec(rows=bytes(range(5)))
    spec = Spec(2, 8, [HUFFMAN, Raw()])
    mixed = words_of([97 << 8 | i for i in range(30)], 2)
    sparse = Spec(2, 8, [Raw(), Raw()], flags=RANS_FLAGS)
    xor, difference = Spec(4, 8, [Raw()] * 4, base_use=1), Spec(2, 8, [Raw()] * 2, base_use=2)
    old = TEXT[200:350]
    return {
        "stored": Sample(b"\0\3abc", b"abc"),
        "constant": Sample(b"\1\7\4wxyz", b"wxyzwxy"),
        "packed": Sample(Spec(planes=[PACKED]).block(data), data),
        "runs": Sample(Spec(planes=[Runs()]).block(RUNS_DATA), RUNS_DATA),
        "chain": Sample(Spec(planes=[CHAIN]).block(data), data),
        "huffman": Sample(Spec(planes=[HUFFMAN]).block(data), data),
        "rans": Sample(Spec(planes=[RANS]).block(data), data),
        "tree": Sample(Spec(planes=[TREE]).block(data), data),
        "gaps": Sample(Spec(planes=[Gaps(1)]).block(data), data),
        "apart": Sample(Spec(planes=[APART]).block(data), data),
        "wide": Sample(wide_spec().block(wide), wide),
        "offsets": Sample(offsets.block(pairs), pairs),
        "sparse": Sample(sparse.block(sparse_values(64)), sparse_values(64)),
        "shared": Sample(spec.shared_block(mixed), mixed, spec.recipe()),
        "same": Sample(b"\4\3", b"abc", base=b"abc"),
        "xor": Sample(xor.block(data, old), data, base=old),
        "difference": Sample(difference.shared_block(data, old), data, difference.recipe(), old),
    }


RANS_FLAGS = Rans({i: 16 for i in range(256)})


def recipe_with_runs_columns(more: int) -> bytes:
    """A recipe of 2^21 + `more` bytes: 2^20 columns, in tokens of one literal and of two."""
    head = bytes([32, 8, 10]) + b"\0" + varint(1 << 20) + u16(0) + b"\6"
    pairs = len(head) - more
    return head + b"\2xy" * pairs + b"\0z" * ((1 << 20) - 2 * pairs)


class AcceptTest(unittest.TestCase):
    """Base of tests of blocks that decode."""

    def check(self, spec: Spec, raw: bytes, base: bytes = b"") -> None:
        self.assertEqual(decode.decode_block(spec.block(raw, base), None, base), raw)


class RejectTest(unittest.TestCase):
    """Base of tests of rules of rejection, each with the message of that rule."""

    def check(
        self,
        block: bytes,
        message: str,
        shared: bytes | None = None,
        base: bytes | None = None,
    ) -> None:
        with self.assertRaisesRegex(decode.Corrupt, message):
            decode.decode_block(block, shared, base)

    def recipe(self, recipe: bytes, message: str) -> None:
        self.check(b"\2\0" + recipe, message)
        self.check(b"\3\0", message, recipe)

    def coder(self, parameters: bytes, message: str) -> None:
        self.recipe(bytes([0, 8, 10]) + parameters, message)
        self.recipe(bytes([16, 8, 10]) + parameters, message)
        self.recipe(bytes([32, 8, 10]) + b"\0" + varint(9) + u16(0) + parameters, message)
