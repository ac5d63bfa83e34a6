"""Tests of decode.py on blocks made here by tiny encoders, which share no code with it."""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
import unittest
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import decode

SEGMENT_LOG2 = 10


# Tiny encoders, from the document


def varint(value: int) -> bytes:
    """Section 1."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def u24(value: int) -> bytes:
    return value.to_bytes(3, "little")


def u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def bit_string(fields: list[tuple[int, int]]) -> bytes:
    """(value, bits) fields, lowest bit first, padded with 0 to a whole byte."""
    total = at = 0
    for value, bits in fields:
        total |= value << at
        at += bits
    return total.to_bytes((at + 7) // 8, "little")


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


Coder = Raw | Constant | Packed | Chain | Huffman | Rans | Runs


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

    def recipe(self) -> bytes:
        layout = self.width.bit_length() - 1 | self.word_map << 2
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

    def body(self, raw: bytes) -> bytes:
        count = len(raw) // self.width
        ends = range(self.width, count * self.width + 1, self.width)
        values = [int.from_bytes(raw[end - self.width : end], "little") for end in ends]
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

    def block(self, raw: bytes) -> bytes:
        return b"\2" + varint(len(raw)) + self.recipe() + self.body(raw)

    def shared_block(self, raw: bytes) -> bytes:
        return b"\3" + varint(len(raw)) + self.body(raw)


def coded(recipe: bytes, raw_len: int, segment: bytes, head: bytes = b"") -> bytes:
    """A coded block of one segment, from its parts."""
    return b"\2" + varint(raw_len) + recipe + head + u24(len(segment)) + segment


def plain(parameters: bytes, raw_len: int, stream: bytes) -> bytes:
    """A block of bytes with one plane of the coder given by its parameters."""
    return coded(bytes([0, 8, 10]) + parameters, raw_len, stream)


def words_of(values: list[int], width: int) -> bytes:
    return b"".join(value.to_bytes(width, "little") for value in values)


TEXT = bytes(random.Random(1).choices(b"abcdefg", [40, 20, 10, 10, 5, 5, 1], k=2500))
HUFFMAN = Huffman({97: 1, 98: 2, 99: 4, 100: 4, 101: 4, 102: 5, 103: 5})
RANS = Rans({97: 1500, 98: 1000, 99: 500, 100: 500, 101: 300, 102: 200, 103: 96})
CHAIN = Chain([b"abc", b"d", b"e"])
PACKED = Packed(0b00000111, 0b01100000)
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


def samples() -> dict[str, tuple[bytes, bytes | None, bytes]]:
    """Blocks, shared recipes and original bytes, of every coder and feature; all small."""
    data, wide, pairs = TEXT[:150], wide_values(40), TEXT[:61]
    offsets = offsets_spec(rows=bytes(range(5)))
    spec = Spec(2, 8, [HUFFMAN, Raw()])
    mixed = words_of([97 << 8 | i for i in range(30)], 2)
    sparse = Spec(2, 8, [Raw(), Raw()], flags=RANS_FLAGS)
    return {
        "stored": (b"\0\3abc", None, b"abc"),
        "constant": (b"\1\7\4wxyz", None, b"wxyzwxy"),
        "packed": (Spec(planes=[PACKED]).block(data), None, data),
        "runs": (Spec(planes=[Runs()]).block(RUNS_DATA), None, RUNS_DATA),
        "chain": (Spec(planes=[CHAIN]).block(data), None, data),
        "huffman": (Spec(planes=[HUFFMAN]).block(data), None, data),
        "rans": (Spec(planes=[RANS]).block(data), None, data),
        "wide": (wide_spec().block(wide), None, wide),
        "offsets": (offsets.block(pairs), None, pairs),
        "sparse": (sparse.block(sparse_values(64)), None, sparse_values(64)),
        "shared": (spec.shared_block(mixed), spec.recipe(), mixed),
    }


RANS_FLAGS = Rans({i: 16 for i in range(256)})


class Accepts(unittest.TestCase):
    """Blocks that decode, by feature."""

    def check(self, spec: Spec, raw: bytes) -> None:
        self.assertEqual(decode.decode_block(spec.block(raw)), raw)

    def test_samples(self) -> None:
        for name, (block, shared, raw) in samples().items():
            with self.subTest(name):
                self.assertEqual(decode.decode_block(block, shared), raw)

    def test_stored(self) -> None:
        self.assertEqual(decode.decode_block(b"\0\0"), b"")
        self.assertEqual(decode.decode_block(b"\0" + varint(2500) + TEXT), TEXT)

    def test_stored_ignores_shared_recipe(self) -> None:
        self.assertEqual(decode.decode_block(b"\0\1x", b"no recipe"), b"x")

    def test_constant_block_widths(self) -> None:
        for width in (1, 2, 4, 8):
            value = bytes(range(width))
            block = b"\1" + varint(19) + bytes([width]) + value
            self.assertEqual(decode.decode_block(block), (value * 19)[:19])
        self.assertEqual(decode.decode_block(b"\1\0\1x"), b"")

    def test_largest_raw_len(self) -> None:
        block = b"\1" + varint(1 << 26) + b"\1x"
        self.assertEqual(len(decode.decode_block(block)), 1 << 26)

    def test_coders(self) -> None:
        for coder in (Raw(), HUFFMAN, RANS, CHAIN, PACKED, Runs()):
            for size in (0, 1, 2, 3, 5, 6, 31, 33, 63, 64, 65, 127, 1023, 1024, 1025, 2500):
                with self.subTest(coder=coder, size=size):
                    self.check(Spec(planes=[coder]), TEXT[:size])

    def test_constant_plane(self) -> None:
        self.check(Spec(planes=[Constant(9)]), b"\11" * 1500)

    def test_huffman_hand_made(self) -> None:
        # a 0, b 10, c 11; "abc" is 0 in part 0, 1 0 in part 1, 1 1 in part 2
        block = plain(b"\4ac\x21\x02", 3, b"\1\1\1\0\0\1\3")
        self.assertEqual(decode.decode_block(block), b"abc")

    def test_huffman_long_codes(self) -> None:
        lengths = {i: i + 1 for i in range(12)} | {200: 12}
        data = bytes([*range(12), 200] * 30)
        self.check(Spec(planes=[Huffman(lengths)]), data)

    def test_rans_extreme_frequencies(self) -> None:
        data = b"\0" * 700 + b"\377" * 9 + b"\0" * 700
        self.check(Spec(planes=[Rans({0: 4095, 255: 1})]), data)
        self.check(Spec(planes=[Rans({0: 1, 255: 4095})]), data)

    def test_packed_masks(self) -> None:
        rng = random.Random(5)
        for mask in (1, 0x80, 0xA5, 0xFF):
            rest = ~mask & 0x5A
            data = bytes(rng.randrange(256) & mask | rest for _ in range(1027))
            self.check(Spec(planes=[Packed(mask, rest)]), data)

    def test_runs_repeat_and_literal(self) -> None:
        self.assertEqual(decode.decode_block(plain(b"\6", 5, b"\5a\2bc")), b"aaabc")

    def test_chain_shapes(self) -> None:
        rng = random.Random(6)
        data = bytes(rng.choices(range(40), [40 - i for i in range(40)], k=1300))
        pairs = [bytes(range(3 * i, 3 * i + 3)) for i in range(10)]
        for levels in (pairs + [b"\36"], [b"\0"], [bytes([i]) for i in range(12)]):
            self.check(Spec(planes=[Chain(levels)]), data)

    def test_chain_hand_made(self) -> None:
        # digits 0 1 2 3 of level 0, then an escape: bits 0101 and 0011, first byte in bit 0
        block = plain(b"\3\1\1\0abc", 4, b"\x0a\x0cz")
        self.assertEqual(decode.decode_block(block), b"abcz")

    def test_word_maps_and_widths(self) -> None:
        rng = random.Random(7)
        for word_map in range(3):
            for width in (1, 2, 4, 8):
                for bits in (1, 3, 8, 9, 12, 16):
                    if bits > 8 * width:
                        continue
                    planes = [Raw() for _ in range(1 + -(-(8 * width - bits) // 8))]
                    spec = Spec(width, bits, planes, word_map, bias=300 if bits > 8 else 0)
                    with self.subTest(spec=spec):
                        self.check(spec, rng.randbytes(width * 70))

    def test_zigzag_small_numbers(self) -> None:
        raw = words_of([0, 0xFFFF, 1, 0xFFFE, 0x7FFF, 0x8000], 2)
        block = coded(bytes([1 | 2 << 2, 8, 10]) + b"\0\0", 12,
                      words_of([0, 1, 2, 3, 0xFFFE, 0xFFFF], 2))
        self.assertEqual(decode.decode_block(block), raw)

    def test_rotate_hand_made(self) -> None:
        block = coded(bytes([1 | 1 << 2, 8, 10]) + b"\0\0", 2, words_of([0x0003], 2))
        self.assertEqual(decode.decode_block(block), words_of([0x8001], 2))

    def test_records_least_significant_first(self) -> None:
        block = coded(bytes([2, 8, 10]) + b"\0\1\7\0\0", 8, b"\1\2\4\5\6\x10")
        self.assertEqual(decode.decode_block(block), b"\1\2\7\4\5\6\7\x10")

    def test_segment_sizes(self) -> None:
        for log2 in (12, 20):
            block = coded(bytes([0, 8, log2, 0]), len(TEXT), TEXT)
            self.assertEqual(decode.decode_block(block), TEXT)

    def test_tail_bytes(self) -> None:
        for width in (2, 4, 8):
            for size in (0, 1, width - 1, width + 1, 2 * width - 1):
                self.check(Spec(width, 8, [Raw()] * width), TEXT[:size])

    def test_wide_symbols(self) -> None:
        self.check(wide_spec(), wide_values(1500))
        self.check(wide_spec(planes=[Raw(), Raw(), Packed(255), Raw()]), wide_values(1100))

    def test_wide_constant_plane(self) -> None:
        far = words_of([i << 16 for i in range(20)], 4)
        spec = wide_spec(planes=[Constant(255), Raw(), Raw(), Raw()])
        self.check(spec, far)

    def test_wide_exception_high_bits_ignored(self) -> None:
        recipe = bytes([1, 9, 10]) + u16(0) + b"\0\0"
        block = coded(recipe, 2, b"\5\377" + u16(0xFE03))
        self.assertEqual(decode.decode_block(block), u16(3 << 7 | 5))

    def test_wide_bias_wraps(self) -> None:
        block = coded(bytes([1, 9, 10]) + u16(511) + b"\0\0", 2, b"\5\3")
        self.assertEqual(decode.decode_block(block), u16(2 << 7 | 5))

    def test_high_bits_of_narrow_planes_ignored(self) -> None:
        block = coded(bytes([0, 3, 10]) + b"\0\0", 1, b"\xe5\xfa")
        self.assertEqual(decode.decode_block(block), bytes([2 << 5 | 5]))

    def test_offsets(self) -> None:
        raw = random.Random(8).randbytes(3000)
        self.check(offsets_spec(), raw)
        self.check(offsets_spec(first=0), raw)
        self.check(offsets_spec(rows_coder=Packed(255), col_coder=Runs()), raw)
        self.check(offsets_spec(rows_coder=Constant(7), rows=b"\7" * 215), raw)

    def test_offsets_coded_columns(self) -> None:
        raw = random.Random(9).randbytes(600)
        for coder in (HUFFMAN, RANS, CHAIN, PACKED):
            self.check(offsets_spec(col=TEXT[:200], col_coder=coder, rows=b"\5\6"), raw)

    def test_offsets_wide(self) -> None:
        rows = random.Random(10).randbytes(1005 // 3)
        spec = wide_spec(col=b"\0\377\7", base=8000, first=2, rows=rows)
        self.check(spec, wide_values(1003))

    def test_offsets_row_bounds(self) -> None:
        self.check(offsets_spec(rows=b"\3"), b"abcd")
        self.check(offsets_spec(rows=b"\3\4"), b"abcdef")
        self.check(offsets_spec(col=b"\5", first=0, rows=b"\1\2\3"), b"abcdef")

    def test_offsets_without_values(self) -> None:
        self.check(offsets_spec(first=0, rows=b""), b"x")
        self.check(offsets_spec(rows=b"\3"), b"")

    def test_sparse(self) -> None:
        for flags in (Raw(), RANS_FLAGS, Runs(), Packed(255), CHAIN):
            for size in (1, 8, 9, 1024, 1500):
                self.check(Spec(2, 8, [Raw(), Packed(255)], flags=flags), sparse_values(size))

    def test_sparse_wide(self) -> None:
        self.check(wide_spec(flags=Raw(), word_map=2), wide_values(700) + bytes(1200))

    def test_sparse_all_zero(self) -> None:
        pairs: list[tuple[Coder, Coder]] = [
            (HUFFMAN, RANS), (CHAIN, PACKED), (Runs(), Constant(3)), (Raw(), Raw())
        ]
        for planes in pairs:
            self.check(Spec(2, 8, planes, flags=Constant(0)), bytes(3000))

    def test_sparse_flagged_zero(self) -> None:
        block = coded(bytes([16, 8, 10]) + b"\0\0", 2, b"\3\0\1")
        self.assertEqual(decode.decode_block(block), b"\0\1")

    def test_shared_recipe(self) -> None:
        spec = Spec(2, 7, [HUFFMAN, Raw(), Raw()])
        raw = words_of([97 << 9 | i for i in range(300)], 2)
        self.assertEqual(decode.decode_block(spec.shared_block(raw), spec.recipe()), raw)

    def test_coded_block_ignores_shared_recipe(self) -> None:
        self.assertEqual(decode.decode_block(Spec().block(TEXT), b""), TEXT)

    def test_largest_recipe(self) -> None:
        recipe = recipe_with_runs_columns(0)
        self.assertEqual(len(recipe), 1 << 21)
        block = b"\2\0" + recipe + b"\0" + b"\0"
        self.assertEqual(decode.decode_block(block), b"")


def recipe_with_runs_columns(more: int) -> bytes:
    """A recipe of 2^21 + `more` bytes: 2^20 columns, in tokens of one literal and of two."""
    head = bytes([32, 8, 10]) + b"\0" + varint(1 << 20) + u16(0) + b"\6"
    pairs = len(head) - more
    return head + b"\2xy" * pairs + b"\0z" * ((1 << 20) - 2 * pairs)


class Rejects(unittest.TestCase):
    """Every rule of rejection, each with the message of that rule."""

    def check(self, block: bytes, message: str, shared: bytes | None = None) -> None:
        with self.assertRaisesRegex(decode.Corrupt, message):
            decode.decode_block(block, shared)

    def recipe(self, recipe: bytes, message: str) -> None:
        self.check(b"\2\0" + recipe, message)
        self.check(b"\3\0", message, recipe)

    def coder(self, parameters: bytes, message: str) -> None:
        self.recipe(bytes([0, 8, 10]) + parameters, message)
        self.recipe(bytes([16, 8, 10]) + parameters, message)
        self.recipe(bytes([32, 8, 10]) + b"\0" + varint(9) + u16(0) + parameters, message)

    # Section 1

    def test_varint_too_long(self) -> None:
        self.check(b"\0" + b"\x80" * 10 + b"\1", "longer than 10 bytes")

    def test_varint_too_large(self) -> None:
        self.check(b"\0" + b"\x80" * 9 + b"\2", "does not fit 64 bits")
        self.check(b"\0" + b"\xff" * 9 + b"\1", "larger than 64 mib")

    def test_varint_not_shortest(self) -> None:
        self.check(b"\0\x83\0abc", "longer than needed")
        self.check(b"\0\x80\0", "longer than needed")

    def test_empty_block(self) -> None:
        self.check(b"", "ends before")

    def test_truncation_at_every_length(self) -> None:
        for name, (block, shared, _) in samples().items():
            for size in range(len(block)):
                with self.subTest(name, size=size):
                    self.check(block[:size], "", shared)

    def test_bytes_left_over(self) -> None:
        for name, (block, shared, _) in samples().items():
            with self.subTest(name):
                self.check(block + b"\0", "left over in the block|do not fill", shared)

    # Section 2

    def test_unknown_kind(self) -> None:
        for kind in (4, 5, 128, 255):
            self.check(bytes([kind, 0]), "unknown block kind")

    def test_raw_len_too_large(self) -> None:
        self.check(b"\1" + varint((1 << 26) + 1) + b"\1x", "larger than 64 mib")

    def test_constant_width(self) -> None:
        for width in (0, 3, 5, 16):
            self.check(b"\1\1" + bytes([width]) + bytes(width), "width of a constant")

    def test_shared_recipe_missing(self) -> None:
        block, _, _ = samples()["shared"]
        self.check(block, "none is given")

    def test_shared_recipe_truncated(self) -> None:
        block, shared, _ = samples()["shared"]
        assert shared is not None
        for size in range(len(shared)):
            self.check(block, "ends before", shared[:size])

    def test_shared_recipe_left_over(self) -> None:
        block, shared, _ = samples()["shared"]
        assert shared is not None
        self.check(block, "left over in the shared recipe", shared + b"\0")

    # Section 3

    def test_word_map(self) -> None:
        self.recipe(bytes([12, 8, 10, 0]), "unknown word map")

    def test_layout_high_bits(self) -> None:
        self.recipe(bytes([64, 8, 10, 0]), "high bits of the layout")
        self.recipe(bytes([128, 8, 10, 0]), "high bits of the layout")

    def test_sparse_and_offsets(self) -> None:
        self.recipe(bytes([48, 8, 10, 0, 0, 1, 0, 0, 0, 0]), "sparse and offsets")

    def test_symbol_bits(self) -> None:
        for layout, bits in ((0, 0), (0, 9), (1, 17), (3, 17), (3, 0)):
            self.recipe(bytes([layout, bits, 10]), "symbol_bits is")

    def test_segment_log2(self) -> None:
        self.recipe(bytes([0, 8, 9, 0]), "segment_log2 is 9")
        self.recipe(bytes([0, 8, 21, 0]), "segment_log2 is 21")

    def test_bias(self) -> None:
        self.recipe(bytes([1, 9, 10]) + u16(512) + b"\0\0", "bias does not fit")

    def test_recipe_too_large(self) -> None:
        self.recipe(recipe_with_runs_columns(2) + b"\0\0", "recipe is larger")

    def test_no_columns(self) -> None:
        self.recipe(bytes([32, 8, 10, 0]) + varint(0) + u16(0) + b"\0", "a row has 0 values")

    def test_too_many_columns(self) -> None:
        columns = varint((1 << 20) + 1) + u16(0) + b"\1\0"
        self.recipe(bytes([32, 8, 10, 0]) + columns, "a row has 1048577 values")

    def test_columns_stream(self) -> None:
        columns = varint(3) + u16(0) + b"\2\1\0" + b"\x08"
        self.recipe(bytes([32, 8, 10, 0]) + columns, "padding of a packed")

    def test_unknown_coder(self) -> None:
        self.coder(b"\7", "unknown coder 7")
        self.coder(b"\377", "unknown coder 255")

    def test_packed_mask_zero(self) -> None:
        self.coder(b"\2\0\1", "mask of a packed coder is 0")

    def test_packed_rest_meets_mask(self) -> None:
        self.coder(b"\2\7\4", "meets its mask")

    # Section 4

    def test_first_outside_row(self) -> None:
        self.check(offsets_spec(first=7).block(b""), "first column is outside")

    def test_unknown_rows_coder(self) -> None:
        block = b"\2\0" + offsets_spec().recipe() + b"\5\7"
        self.check(block, "unknown coder")

    def test_rows_stream(self) -> None:
        block = b"\2\0" + offsets_spec().recipe() + b"\5\2\1\0\2"
        self.check(block, "padding of a packed")

    def test_index_too_small(self) -> None:
        self.check(b"\2\3" + Spec().recipe() + u24(2) + b"abc", "ends before")

    def test_index_too_large(self) -> None:
        self.check(b"\2\3" + Spec().recipe() + u24(4) + b"abc", "ends before")

    def test_index_moved_bound(self) -> None:
        block = b"\2" + varint(1025) + Spec().recipe() + u24(1023) + u24(2) + bytes(1025)
        self.check(block, "ends before")
        block = b"\2" + varint(1025) + Spec().recipe() + u24(1025) + u24(0) + bytes(1025)
        self.check(block, "left over in the segment")

    def test_flags_beyond_values(self) -> None:
        recipe = bytes([16, 8, 10])
        self.check(coded(recipe + b"\0\0", 3, b"\x0fabcd"), "zero flags beyond")
        self.check(coded(recipe + b"\1\377\0", 3, b"abc"), "zero flags beyond")

    def test_segment_too_long(self) -> None:
        self.check(coded(bytes([0, 8, 10, 0]), 3, b"abcd"), "left over in the segment")
        self.check(coded(bytes([0, 8, 10, 1, 0]), 3, b"a"), "left over in the segment")

    def test_segment_too_short(self) -> None:
        self.check(coded(bytes([0, 8, 10, 0]), 3, b"ab"), "ends before")

    def test_exceptions_missing(self) -> None:
        recipe = bytes([1, 16, 10]) + u16(0) + b"\0"
        self.check(coded(recipe, 4, b"\1\377"), "ends before")

    def test_exceptions_left_over(self) -> None:
        recipe = bytes([1, 16, 10]) + u16(0) + b"\0"
        self.check(coded(recipe, 4, b"\1\1\0\0"), "left over in the segment")

    # Section 5.1

    def test_packed_padding(self) -> None:
        self.check(plain(b"\2\1\0", 3, b"\x08"), "padding of a packed")

    def test_repeat_too_long(self) -> None:
        self.check(plain(b"\6", 3, b"\7a"), "run is longer")
        self.check(plain(b"\6", 3, varint((1 << 64) - 1) + b"a"), "run is longer")

    def test_literals_too_long(self) -> None:
        self.check(plain(b"\6", 3, b"\6abcd"), "run is longer")

    def test_runs_token_not_shortest(self) -> None:
        self.check(plain(b"\6", 3, b"\x84\0abc"), "longer than needed")

    def test_runs_after_the_last_byte(self) -> None:
        self.check(plain(b"\6", 3, b"\4abc\0x"), "left over in the segment")

    # Section 5.2

    def test_chain_levels(self) -> None:
        self.coder(b"\3\0\0\0", "chain has 0 levels")
        self.coder(b"\3\x0d\0\0" + bytes(13), "chain has 13 levels")

    def test_chain_shape(self) -> None:
        self.coder(b"\3\2\4\0abcd", "bits beyond its levels")
        self.coder(b"\3\x0c\0\x10" + bytes(12), "bits beyond its levels")

    def test_chain_symbols(self) -> None:
        self.coder(b"\3\x0b\xff\x07" + bytes(33), "chain has 33 symbols")
        self.coder(b"\3\x0c\xff\x03" + bytes(32), "chain has 32 symbols")

    def test_chain_padding(self) -> None:
        self.check(plain(b"\3\1\0\0a", 3, b"\x08"), "padding of a chain")
        self.check(plain(b"\3\1\1\0abc", 4, b"\0\x10"), "padding of a chain")
        self.check(plain(b"\3\2\0\0ab", 3, b"\1\2"), "padding of a chain")

    # Section 5.3

    def test_huffman_range(self) -> None:
        self.coder(b"\4aa\1", "first symbol is not below")
        self.coder(b"\4ba\x11", "first symbol is not below")

    def test_huffman_unused_nibble(self) -> None:
        self.coder(b"\4ac\x21\x12", "unused code length")

    def test_huffman_length(self) -> None:
        for length in (13, 14, 15):
            self.coder(b"\4ac\x11" + bytes([length]), "code length is larger")

    def test_huffman_incomplete(self) -> None:
        self.coder(b"\4ab\x21", "not complete")
        self.coder(b"\4ab\0", "not complete")
        self.coder(b"\4ab\1", "not complete")

    def test_huffman_oversubscribed(self) -> None:
        self.coder(b"\4ac\x11\x01", "not complete")

    def huffman(self, parts: list[bytes], message: str, n: int = 4) -> None:
        lengths = b"".join(varint(len(part)) for part in parts)
        self.check(plain(b"\4ab\x11", n, lengths + b"".join(parts)), message)

    def test_huffman_padding(self) -> None:
        self.huffman([b"\0", b"\2", b"\0", b"\0"], "padding of a huffman part")
        self.huffman([b"\0", b"\0", b"\0", b"\x10"], "padding of a huffman part", n=16)

    def test_huffman_part_too_long(self) -> None:
        self.huffman([b"\0", b"\0", b"\0", b"\0\0"], "not the length of its bits")
        self.huffman([b"\0", b"\0", b"\0", b"\0"], "not the length of its bits", n=3)

    def test_huffman_part_too_short(self) -> None:
        self.huffman([b"\0", b"", b"\0", b"\0"], "not the length of its bits")
        self.huffman([b"\0"] * 4, "not the length of its bits", n=36)

    def test_huffman_part_beyond_segment(self) -> None:
        self.check(plain(b"\4ab\x11", 4, b"\1\1\1\2\0\0\0\0"), "ends before")

    # Section 5.4

    def test_rans_range(self) -> None:
        self.coder(b"\5aa" + varint(4096), "first symbol is not below")
        self.coder(b"\5ba" + varint(2048) * 2, "first symbol is not below")

    def test_rans_frequency_bytes(self) -> None:
        self.coder(b"\5ab" + varint(1 << 14) + varint(1), "longer than 2 bytes")

    def test_rans_frequency_not_shortest(self) -> None:
        self.coder(b"\5ac\x80\0" + varint(2048) * 2, "longer than needed")

    def test_rans_frequency_too_large(self) -> None:
        self.coder(b"\5ab" + varint(4096) + b"\0", "frequency is not below")

    def test_rans_frequency_sum(self) -> None:
        self.coder(b"\5ab" + varint(2048) + varint(2047), "do not sum")
        self.coder(b"\5ab" + varint(2048) + varint(2049), "do not sum")

    def rans(self, states: list[int], words: list[int], message: str, n: int = 300) -> None:
        self.check(plain(RANS.parameters, n, rans_stream(states, words)), message)

    def test_rans_state_too_small(self) -> None:
        states, words = RANS.encode(TEXT[:300])
        self.rans([65535] + states[1:], words, "state is below")

    def test_rans_words_left_over(self) -> None:
        states, words = RANS.encode(TEXT[:300])
        self.rans(states, words + [0], "words left over")

    def test_rans_words_missing(self) -> None:
        states, words = RANS.encode(TEXT[:300])
        self.rans(states, words[:-1], "too few words")

    def test_rans_words_beyond_segment(self) -> None:
        stream = varint(1 << 63) + b"".join(map(u32, [1 << 16] * 32))
        self.check(plain(RANS.parameters, 1, stream), "ends before")

    def test_rans_final_state(self) -> None:
        states, words = RANS.encode(TEXT[:20])
        self.rans(states[:-1] + [65537], words, "does not end", n=20)

    # Streams of no bytes

    def empty(self, parameters: bytes, stream: bytes, message: str) -> None:
        recipe = bytes([16, 8, 10]) + b"\1\0" + parameters
        self.check(coded(recipe, 100, stream), message)

    def test_empty_huffman(self) -> None:
        self.empty(HUFFMAN.parameters, b"\0\0\0", "ends before")
        self.empty(HUFFMAN.parameters, b"\0\0\0\1\0", "not the length of its bits")

    def test_empty_rans(self) -> None:
        states = [1 << 16] * 32
        self.empty(RANS.parameters, rans_stream(states, [])[:-1], "ends before")
        self.empty(RANS.parameters, rans_stream(states, [1]), "words left over")
        self.empty(RANS.parameters, rans_stream(states[1:] + [65537], []), "does not end")

    def test_empty_others(self) -> None:
        for coder in (Raw(), Constant(1), CHAIN, PACKED, Runs()):
            self.empty(coder.parameters, b"\0", "left over in the segment")


class Damage(unittest.TestCase):
    """Damaged blocks decode or are Corrupt, and raise nothing else."""

    def test_random_damage(self) -> None:
        rng = random.Random(11)
        for block, shared, _ in samples().values():
            for _ in range(300):
                damaged = bytearray(block)
                for _ in range(rng.randrange(1, 4)):
                    damaged[rng.randrange(len(damaged))] = rng.randrange(256)
                with contextlib.suppress(decode.Corrupt):
                    decode.decode_block(bytes(damaged), shared)

    def test_messages_are_one_lower_case_line(self) -> None:
        rng = random.Random(12)
        for _ in range(2000):
            block = bytes([rng.randrange(5)]) + rng.randbytes(rng.randrange(40))
            try:
                decode.decode_block(block, block)
            except decode.Corrupt as error:
                self.assertRegex(str(error), r"\A[^A-Z\n]+\Z")


class CommandLine(unittest.TestCase):
    """The single and the batch mode."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_main(self, *arguments: object) -> tuple[int, str]:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = decode.main([str(argument) for argument in arguments])
        return status, out.getvalue()

    def batch(self, cases: list[tuple[bytes, bytes, int, bytes]], cut: int = 0) -> tuple[int, str]:
        data = b"".join(
            u32(len(shared)) + shared + u32(len(block)) + block + bytes([ok]) + u32(len(raw)) + raw
            for shared, block, ok, raw in cases
        )
        path = self.folder / "cases"
        path.write_bytes(data[: len(data) - cut])
        return self.run_main("--batch", path)

    def test_single(self) -> None:
        block, shared, raw = samples()["shared"]
        assert shared is not None
        for name, data in (("block", block), ("recipe", shared)):
            (self.folder / name).write_bytes(data)
        out = self.folder / "out"
        status, _ = self.run_main(
            self.folder / "block", "--shared", self.folder / "recipe", "-o", out
        )
        self.assertEqual((status, out.read_bytes()), (0, raw))

    def test_single_corrupt(self) -> None:
        (self.folder / "block").write_bytes(b"\7\0")
        out = self.folder / "out"
        status, text = self.run_main(self.folder / "block", "-o", out)
        self.assertEqual((status, text), (1, "decode.py: unknown block kind 7\n"))
        self.assertFalse(out.exists())

    def test_single_missing_file(self) -> None:
        status, _ = self.run_main(self.folder / "none", "-o", self.folder / "out")
        self.assertEqual(status, 1)

    def test_usage(self) -> None:
        for arguments in ((), ("block",), ("--batch", "f", "block")):
            with self.assertRaises(SystemExit):
                self.run_main(*arguments)

    def test_batch_agrees(self) -> None:
        cases = [(shared or b"", block, 1, raw) for block, shared, raw in samples().values()]
        status, text = self.batch(cases + [(b"", b"\7", 0, b"")])
        self.assertEqual((status, text), (0, f"{len(cases) + 1} cases checked, 0 mismatches\n"))

    def test_batch_mismatches(self) -> None:
        cases = [(b"", b"\0\1x", 0, b""), (b"", b"\0\1x", 1, b"y"), (b"", b"\0\1", 1, b"x")]
        status, text = self.batch([(b"", b"\0\1x", 1, b"x")] + cases)
        self.assertEqual(status, 1)
        self.assertEqual(text.splitlines(), [
            "case 1: accepted, should be rejected",
            "case 2: gives other bytes (1, expected 1)",
            "case 3: rejected: ends before a field it needs",
            "4 cases checked, 3 mismatches",
        ])

    def test_batch_cut_short(self) -> None:
        for cut in (1, 5, 9, 13):
            status, text = self.batch([(b"", b"\0\1x", 1, b"x")], cut)
            self.assertEqual((status, "ends inside a case" in text), (1, True))


if __name__ == "__main__":
    unittest.main()
