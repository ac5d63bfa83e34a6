"""Tests of decode.py by docs/format.md, section 5: streams."""

from __future__ import annotations

import random
import unittest

import decode
from builders import (
    APART,
    CHAIN,
    HUFFMAN,
    PACKED,
    RANS,
    TEXT,
    TREE,
    AcceptTest,
    Apart,
    Chain,
    Coder,
    Constant,
    Gaps,
    Huffman,
    Packed,
    Rans,
    Raw,
    RejectTest,
    Runs,
    Spec,
    Tree,
    coded,
    offsets_spec,
    plain,
    rans_stream,
    u32,
    varint,
    words_of,
)


class Accepts(AcceptTest):
    """What decodes."""

    def test_coders(self) -> None:
        for coder in (Raw(), HUFFMAN, RANS, CHAIN, PACKED, Runs(), Gaps(2), APART, TREE):
            for size in (0, 1, 2, 3, 5, 6, 31, 33, 63, 64, 65, 127, 1023, 1024, 1025, 2500):
                with self.subTest(coder=coder, size=size):
                    self.check(Spec(planes=[coder]), TEXT[:size])

    def test_constant_plane(self) -> None:
        self.check(Spec(planes=[Constant(9)]), b"\11" * 1500)

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

    def test_huffman_hand_made(self) -> None:
        # a 0, b 10, c 11; "abc" is 0 in part 0, 1 0 in part 1, 1 1 in part 2
        block = plain(b"\4ac\x21\x02", 3, b"\1\1\1\0\0\1\3")
        self.assertEqual(decode.decode_block(block), b"abc")

    def test_huffman_long_codes(self) -> None:
        lengths = {i: i + 1 for i in range(12)} | {200: 12}
        data = bytes([*range(12), 200] * 30)
        self.check(Spec(planes=[Huffman(lengths)]), data)

    def test_tree_shapes(self) -> None:
        rng = random.Random(14)
        some = {i: 5 for i in range(16)} | {i + 40: 7 for i in range(64)}
        for coder in (
            Tree({i: 8 for i in range(256)}),
            Tree({i: 8 for i in range(255)}, escape=8),
            Tree({i: i + 1 for i in range(12)}, escape=12),
            Tree({i: i + 1 for i in range(12)} | {200: 12}),
            Tree({i: 1 for i in range(2)}),
            Tree(some),
        ):
            symbols = range(256) if coder.escape else sorted(coder.lengths)
            for size in (1, 7, 8, 9, 300):
                with self.subTest(coder=coder, size=size):
                    self.check(Spec(planes=[coder]), bytes(rng.choices(symbols, k=size)))

    def test_tree_hand_made(self) -> None:
        # a is 0; c, d, e and f are two bits behind a 1
        block = plain(b"\x09af\0\x01\x33\x33", 5, b"\x16\x2c")
        self.assertEqual(decode.decode_block(block), b"acfae")
        # a is 0, b 10, the escape 11
        block = plain(b"\x09ab\2\x21", 6, b"\x36\x06zy")
        self.assertEqual(decode.decode_block(block), b"abzayb")

    def test_tree_blocks_before_codes(self) -> None:
        # four symbols of three bits are a block of depth 1, before the one of a single bit less
        coder = Tree({97: 2, 98: 2, 99: 3, 100: 3, 101: 3, 102: 3})
        self.assertEqual(list(coder.blocks()), ["0", "1"])
        self.check(Spec(planes=[coder]), b"abcdef" * 9)

    def test_tree_escape_of_a_symbol(self) -> None:
        block = plain(b"\x09ab\2\x21", 2, b"\3\3ab")
        self.assertEqual(decode.decode_block(block), b"ab")

    def test_rans_extreme_frequencies(self) -> None:
        data = b"\0" * 700 + b"\377" * 9 + b"\0" * 700
        self.check(Spec(planes=[Rans({0: 4095, 255: 1})]), data)
        self.check(Spec(planes=[Rans({0: 1, 255: 4095})]), data)

    def test_gaps_low_bits(self) -> None:
        rng = random.Random(13)
        few = bytearray(1500)
        for _ in range(9):
            few[rng.randrange(1500)] |= 1 << rng.randrange(8)
        for low_bits in (0, 1, 7, 8, 9, 13, 24):
            for data in (bytes(few), b"\377" * 20, bytes(1100), b"\x80", b"\0\1"):
                with self.subTest(low_bits=low_bits, data=data):
                    self.check(Spec(planes=[Gaps(low_bits)]), data)

    def test_gaps_hand_made(self) -> None:
        # bits 5 and 9 are set, so the gaps are 5 and 3: 00 1 1 and 0 1 1, from bit 0 up
        self.assertEqual(decode.decode_block(plain(b"\7\1", 2, b"\2\x6c")), b"\x20\2")

    def test_apart_coders(self) -> None:
        inner: tuple[Coder, ...] = (Raw(), Runs(), CHAIN, Packed(255), Gaps(3), RANS, HUFFMAN)
        for others in inner:
            for flags in (Raw(), Runs(), CHAIN, Packed(255), Gaps(0)):
                self.check(Spec(planes=[Apart(97, flags, others)]), TEXT[:1100])
        self.check(Spec(planes=[Apart(97, Constant(255), RANS)]), b"b" * 1024)

    def test_apart_hand_made(self) -> None:
        block = plain(b"\x08a\0\0", 10, b"\x24\2xyz")
        self.assertEqual(decode.decode_block(block), b"aaxaayaaaz")

    def test_apart_common_byte_among_the_others(self) -> None:
        block = plain(b"\x08a\0\0", 3, b"\6ab")
        self.assertEqual(decode.decode_block(block), b"aab")

    def test_apart_nested(self) -> None:
        left = Apart(0, Apart(0, Apart(255, Gaps(1), Raw()), Runs()), Raw())
        right = Apart(97, Raw(), Apart(98, Runs(), Apart(99, Raw(), HUFFMAN)))
        both = Apart(97, left.flags, right.others)
        for coder in (left, right, both):
            for size in (0, 1, 7, 8, 9, 2500):
                self.check(Spec(planes=[coder]), TEXT[:size])

    def test_gaps_and_apart_elsewhere(self) -> None:
        zeros = words_of([i % 7 == 0 for i in range(1500)], 2)
        for coder in (Gaps(2), Apart(0, Gaps(2), Raw())):
            self.check(Spec(2, 8, [coder, coder], flags=coder), zeros)
            rows = b"\0\1\0" * 72
            self.check(offsets_spec(col_coder=coder, rows_coder=coder, rows=rows), zeros)


class Rejects(RejectTest):
    """Every rule of rejection."""

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

    def test_gaps_low_bits(self) -> None:
        for low_bits in (25, 64, 255):
            self.coder(bytes([7, low_bits]), f"low_bits of a gaps coder is {low_bits}")

    def test_gaps_padding(self) -> None:
        self.check(plain(b"\7\0", 1, b"\1\3"), "padding of a gaps")
        self.check(plain(b"\7\2", 1, b"\1\x81"), "padding of a gaps")

    def test_gaps_bit_beyond_the_end(self) -> None:
        for low_bits in (0, 1, 5, 24):
            coder = Gaps(low_bits)
            for gaps in ([16], [15, 0], [0] * 17, [7, 8]):
                stream = varint(len(gaps)) + coder.codes(gaps)
                self.check(plain(coder.parameters, 2, stream), "set bit is beyond")
        self.check(plain(b"\7\x18", 1, b"\1\1\0\0\1"), "set bit is beyond")

    def test_gaps_of_no_bytes(self) -> None:
        self.empty(b"\7\0", b"\1\1", "set bit is beyond")

    def test_gaps_ends_early(self) -> None:
        self.check(plain(b"\7\0", 9, b"\1\0"), "ends before a gap does")
        self.check(plain(b"\7\3", 9, b"\1\x40"), "ends before a gap does")
        self.check(plain(b"\7\0", 9, b"\2\x80"), "ends before a gap does")
        self.check(plain(b"\7\0", 9, varint((1 << 64) - 1)), "ends before a gap does")

    def test_gaps_count_too_small(self) -> None:
        self.check(plain(b"\7\0", 2, b"\0\1"), "left over in the segment")
        self.check(plain(b"\7\0", 2, b"\1\x80\1"), "left over in the segment")

    def test_gaps_count_not_shortest(self) -> None:
        self.check(plain(b"\7\0", 2, b"\x81\0\1"), "longer than needed")

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

    # Section 5.6

    def test_tree_range(self) -> None:
        self.coder(b"\x09aa\1\1", "first symbol is not below")

    def test_tree_lengths(self) -> None:
        self.coder(b"\x09ac\0\x21\x12", "unused code length")
        self.coder(b"\x09ab\x0d\x11", "escape is larger")
        self.coder(b"\x09ab\0\xd1", "code length is larger")

    def test_tree_incomplete(self) -> None:
        self.coder(b"\x09ab\0\x21", "not complete")
        self.coder(b"\x09ab\1\x11", "not complete")
        self.coder(b"\x09ab\3\x21", "not complete")

    def test_tree_symbols(self) -> None:
        self.coder(b"\x09ab\1\1", "fewer than two symbols")
        lengths = b"\x88" * 127 + b"\x99"
        self.coder(b"\x09\0\xff\x08" + lengths, "all symbols and an escape")

    def test_tree_padding(self) -> None:
        self.check(plain(b"\x09ab\0\x11", 3, b"\x08"), "padding of a tree node")
        self.check(plain(b"\x09af\0\x01\x33\x33", 5, b"\x36\x2c"), "padding of a tree node")
        self.check(plain(b"\x09af\0\x01\x33\x33", 5, b"\x16\x6c"), "padding of a tree node")

    def test_tree_truncated(self) -> None:
        self.check(plain(b"\x09af\0\x01\x33\x33", 5, b"\x16"), "ends before")
        self.check(plain(b"\x09ab\2\x21", 6, b"\x36\x06z"), "ends before")

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

    # Section 5.5

    def test_apart_flags_beyond_the_end(self) -> None:
        self.check(plain(b"\x08a\0\0", 3, b"\x0fxyz"), "apart flags beyond")
        self.check(plain(b"\x08a\1\377\0", 3, b"xyz"), "apart flags beyond")

    def test_apart_others(self) -> None:
        self.check(plain(b"\x08a\0\0", 3, b"\7xy"), "ends before")
        self.check(plain(b"\x08a\0\0", 3, b"\3xyz"), "left over in the segment")

    def test_apart_inner_coders(self) -> None:
        self.coder(b"\x08a\x0a", "unknown coder 10")
        self.coder(b"\x08a\0\x0a", "unknown coder 10")
        self.coder(b"\x08a\0\2\0\0", "mask of a packed coder is 0")

    def test_apart_too_deep(self) -> None:
        message = "more than 3 apart coders"
        self.coder(b"\x08a" * 4 + b"\0" * 5, message)
        self.coder(b"\x08a\0" * 4 + b"\0", message)
        self.coder(b"\x08a\0\x08a\x08a\0\x08a\0\0\0", message)

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
        for coder in (Raw(), Constant(1), CHAIN, PACKED, TREE, Runs(), Apart(0, Raw(), Runs())):
            self.empty(coder.parameters, b"\0", "left over in the segment")

    def test_empty_gaps(self) -> None:
        self.empty(b"\7\0", b"", "ends before")
        self.empty(b"\7\0", b"\0\0", "left over in the segment")

    def test_empty_apart(self) -> None:
        self.empty(Apart(0, Gaps(0), HUFFMAN).parameters, b"\0" * 4, "ends before")
        self.empty(Apart(0, Gaps(0), HUFFMAN).parameters, b"\0" * 6, "left over")


if __name__ == "__main__":
    unittest.main()
