"""Tests of decode.py by docs/format.md, sections 3.8 and 4.5: recipes by changes."""

from __future__ import annotations

import random
import unittest
from typing import Any

import decode
from bin_builders import ALL_CODERS, EVEN, Coded, random_bounds, random_fields
from builders import (
    Apart,
    Constant,
    Gaps,
    Raw,
    RejectTest,
    coded,
    values_of,
    varint,
    words_of,
)
from change_builders import ChangeSpec, ContextSpec
from class_builders import near


def random_contexts(rng: random.Random, least: int) -> ContextSpec:
    """As many contexts as there can be, or fewer."""
    count = rng.choice([least, 1, 2, 3, 8])
    bounds = random_bounds(rng, count, rng.choice([9, 256]))
    return ContextSpec([rng.choice(ALL_CODERS) for _ in range(count)], bounds)


def random_spec(rng: random.Random, width: int, raw_bytes: int, **changes: Any) -> ChangeSpec:
    """Bins, rows and contexts of any kind."""
    fields = {
        **random_fields(rng, width),
        "changed": random_contexts(rng, 1),
        "uncommon": random_contexts(rng, 0),
        "lengths": rng.random() < 0.5,
        "coder": rng.choice(ALL_CODERS),
    }
    return ChangeSpec(width, raw_bytes, **{**fields, **changes})


def partly(base: bytes, width: int, share: float, seed: int = 1) -> bytes:
    """Values of which about this share differs from the base."""
    rng = random.Random(seed)
    values = values_of(near(base, width, seed), width)
    pairs = zip(values, values_of(base, width), strict=True)
    kept = [x if rng.random() < share else b for x, b in pairs]
    return words_of(kept, width) + rng.randbytes(len(base) % width)


ONE = b"\1\0"
NONE = b"\0"


def by_hand(
    segment: bytes,
    raw_len: int,
    bins: bytes = b"\0\0",
    contexts: bytes = ONE + NONE,
    layout: int = 0xE0,
    raw_bytes: int = 0,
) -> bytes:
    """A block without rows whose exponent has 3 bits, whose symbols are plain bytes, and whose
    flags are plain bits of one context unless said otherwise."""
    head = bytes([layout, raw_bytes, 10, 3, 0, 0, len(bins) // 2])
    return coded(head + bins + b"\0\0" + contexts, raw_len, segment)


class Accepts(unittest.TestCase):
    """What decodes."""

    def check(self, spec: ChangeSpec, raw: bytes, base: bytes) -> None:
        self.assertEqual(decode.decode_block(spec.block(raw, base), None, base), raw)

    def hand(self, segment: bytes, raw: bytes, base: bytes, **fields: Any) -> None:
        block = by_hand(segment, len(raw), **fields)
        self.assertEqual(decode.decode_block(block, None, base), raw)

    # Section 3.8

    def test_widths_and_raw_bytes(self) -> None:
        rng = random.Random(1)
        for width in (1, 2, 4, 8):
            for raw_bytes in range(width):
                for share in (0, 0.01, 0.3, 0.9, 1):
                    base = rng.randbytes(150 * width)
                    spec = random_spec(rng, width, raw_bytes)
                    with self.subTest(spec=spec):
                        self.check(spec, partly(base, width, share, rng.randrange(99)), base)
                        self.check(spec, rng.randbytes(len(base)), base)

    def test_extreme_values(self) -> None:
        rng = random.Random(2)
        for width in (1, 2, 4, 8):
            top = 1 << 8 * width - 1
            extremes = [0, 1, top - 1, top, top + 1, 2 * top - 1, top >> 1, top >> 1 | top]
            pairs = [(x, b) for x in extremes for b in extremes]
            raw = words_of([x for x, _ in pairs], width)
            base = words_of([b for _, b in pairs], width)
            for raw_bytes in range(width):
                for _ in range(4):
                    spec = random_spec(rng, width, raw_bytes)
                    with self.subTest(spec=spec):
                        self.check(spec, raw, base)

    def test_numbers_of_contexts(self) -> None:
        rng = random.Random(3)
        base = rng.randbytes(1500)
        for changed in range(1, 9):
            for uncommon in range(9):
                spec = ChangeSpec(
                    changed=ContextSpec([Raw()] * changed, bytes(range(20, 19 + changed))),
                    uncommon=ContextSpec([Raw()] * uncommon, bytes(range(30, 29 + uncommon))),
                    lengths=bool(changed % 2),
                )
                with self.subTest(spec=spec):
                    self.check(spec, partly(base, 2, 0.4), base)

    def test_zero_is_left_out(self) -> None:
        # 1 and 2 above are 0 and 1, what is below stays, a base with the other sign is 0 away
        raw, base = b"\x11\x12\x0f\x90\x91\x0f", b"\x10" * 5 + b"\x90"
        self.hand(b"\x3f" b"\0" b"\0\1\xff\x80\x81\x7f", raw, base)
        spec = ChangeSpec(1, exponent_bits=3, uncommon=ContextSpec([]))
        self.assertEqual(spec.block(raw, base), by_hand(b"\x3f" b"\0" b"\0\1\xff\x80\x81\x7f", 6))

    def test_zero_is_left_out_before_steps_are_counted(self) -> None:
        # k 1, d 1: 1 above is 0, so step 0 with payload 1; 2 is 1, step 1 with payload 0; -1 and -2
        # are step 0 with payload 0 and step -1 with payload 1
        raw, base = b"\x11\x12\x0f\x0e", b"\x10" * 4
        self.hand(b"\x0f" b"\0" b"\0\1\0\xff" b"\x09", raw, base, bins=b"\1\0")

    def test_zero_is_left_out_by_the_flip_bit(self) -> None:
        # with the flip bit q is as it is, without it 1 less
        self.hand(b"\7" b"\0" b"\0\1\0" b"\3", b"\x90\x91\x11", b"\x10" * 3, bins=b"\x80\0")
        # f and the flip bit together mean the same top bit
        self.hand(b"\1" b"\0" b"\x80" b"\1", b"\x11", b"\x10", bins=b"\x80\0")

    def test_zero_is_left_out_by_exceptions(self) -> None:
        """56 above is the last step, 57 is an exception; below they are as in section 3.7."""
        base = b"\x40" * 4
        raw = bytes([0x40 + 56, 0x40 - 56, 0x40 + 57, 0x40 - 57])
        segment = b"\x0f" b"\2" + raw[2:] + bytes([55, 200, 64, 64])
        self.hand(segment, raw, base)
        spec = ChangeSpec(1, exponent_bits=3, uncommon=ContextSpec([]))
        self.assertEqual(spec.segment(list(raw), list(base)), segment)

    def test_zero_is_kept_with_raw_bytes(self) -> None:
        # 1 above: record 129, q 0; 128 above: record 0, q 1; 0 away is not changed
        base = words_of([0x1000] * 3, 2)
        raw = words_of([0x1001, 0x1080, 0x1000], 2)
        self.hand(b"\3" b"\x81\0" b"\0" b"\0\1", raw, base, layout=0xE1, raw_bytes=1)

    def test_integers(self) -> None:
        """No value has another sign, so 0 is always left out."""
        # 1 above, 1 below, 0x7f and 1 above, 0x81 and an f of 1 above
        raw, base = b"\x11\x0f\x80\x83", b"\x10\x10\x7f\x81"
        self.hand(b"\x0f" b"\0" b"\0\xff\0\x81", raw, base, layout=0xE8)
        spec = ChangeSpec(1, exponent_bits=3, integer=True, uncommon=ContextSpec([]))
        segment = b"\x0f" b"\0" b"\0\xff\0\1"
        self.assertEqual(spec.block(raw, base), by_hand(segment, 4, layout=0xE8))
        self.hand(segment, raw, base, layout=0xE8)

    def test_contexts_by_bounds(self) -> None:
        """Contexts start at a bound; bounds above all exponents have no values."""
        contexts = b"\4" b"\2\7\xff" b"\0\0\0\0" + NONE
        # exponents 0, 1, 2, 6, 7 and 7, of which the second, third and last are changed
        base = b"\0\x1f\x20\x60\x70\x7f"
        segment = b"\2\1\2" b"\0" b"\0\1\xff"
        self.hand(segment, b"\0\x20\x22\x60\x70\x7e", base, contexts=contexts)

    def test_contexts_are_above_first(self) -> None:
        spec = ChangeSpec(
            1, exponent_bits=3, first=3, changed=ContextSpec([Raw(), Raw()], b"\1"),
            uncommon=ContextSpec([]),
        )
        base = b"\0\x30\x40\x70"
        block = coded(spec.recipe(), 4, b"\3\1" b"\0" b"\0\0\0")
        self.assertEqual(decode.decode_block(block, None, base), b"\1\x31\x41\x70")

    def test_contexts_of_large_exponents(self) -> None:
        """What is above 255 counts as 255, also where there are fewer bins."""
        bound = ContextSpec([Raw(), Constant(0)], b"\xff")
        spec = ChangeSpec(8, exponent_bits=11, changed=bound, uncommon=ContextSpec([]))
        base = [254 << 52, 255 << 52, 256 << 52, 2047 << 52]
        block = coded(spec.recipe(), 32, b"\1" b"\0" b"\0")
        back = decode.decode_block(block, None, words_of(base, 8))
        self.assertEqual(back, words_of([base[0] + 1, *base[1:]], 8))

    def test_first_above_all_exponents(self) -> None:
        spec = random_spec(random.Random(4), 2, 0, first=65535)
        base = random.Random(5).randbytes(500)
        self.check(spec, partly(base, 2, 0.5), base)

    # Section 4.5

    def test_lengths(self) -> None:
        base = b"\x10" * 3
        contexts = b"\2\7\0\0" b"\1\0"
        # flags of two contexts, the second of no values, then those of the symbols
        segment = b"\1\5" b"\0" b"\0" b"\1\2" b"\2"
        self.hand(segment, b"\x11\x10\x13", base, contexts=contexts, layout=0xE4)
        short = b"\5" b"\0" b"\2" b"\2"
        self.hand(short, b"\x11\x10\x13", base, contexts=contexts)

    def test_lengths_of_streams_without_bytes(self) -> None:
        contexts = b"\1\1\xff" b"\1\1\0"
        self.hand(b"\0" b"\0" b"\0", b"\x11" * 8, b"\x10" * 8, contexts=contexts, layout=0xE4)

    def test_flags_of_symbols_by_contexts(self) -> None:
        contexts = ONE + b"\2\4\0\0"
        # changed: all but the second; exponents 1, 4, 4, 0, 5: contexts 0, 1, 0, 1 of the changed
        base = b"\x10\x40\x40\0\x50"
        segment = b"\x1d" b"\0" b"\2" b"\1" b"\5\7"
        self.hand(segment, b"\x11\x40\x46\x08\x51", base, contexts=contexts)

    def test_symbols_without_flags(self) -> None:
        self.hand(b"\5" b"\0" b"\0\2", b"\x11\x10\x13", b"\x10" * 3)

    def test_flag_of_a_symbol_that_was_not_needed(self) -> None:
        """The other symbols may be 0."""
        self.hand(b"\3" b"\0" b"\3" b"\0\1", b"\x11\x12", b"\x10" * 2, contexts=ONE + ONE)

    def test_flag_of_a_value_that_was_not_needed(self) -> None:
        """A value that has a flag may be that of the base: as an exception, or with raw bytes."""
        self.hand(b"\3" b"\1\x10" b"\0\x40", b"\x11\x10", b"\x10" * 2)
        base = words_of([0x1000, 0x1000], 2)
        self.hand(b"\3" b"\x80\x80" b"\0" b"\0\0", base, base, layout=0xE1, raw_bytes=1)

    def test_exceptions_are_other_symbols(self) -> None:
        segment = b"\7" b"\1\x99" b"\6" b"\x40\1"
        self.hand(segment, b"\x11\x99\x12", b"\x10" * 3, contexts=ONE + ONE)

    def test_payloads_are_of_changed_values(self) -> None:
        # bins by exponent: 4 bits for 1, none for 0
        raw, base = b"\1\x10\x18\0\x10", b"\0\x10\x10\0\x11"
        # 8 above is 7, 1 below is -1: with d 8 added 15 and 7
        segment = b"\x15" b"\0" b"\0\0\0" b"\x7f"
        self.hand(segment, raw, base, bins=b"\0\0\4\0")

    def test_all_and_none(self) -> None:
        rng = random.Random(6)
        for width in (1, 2, 4, 8):
            base = rng.randbytes(2100 * width)
            other = words_of([b ^ 1 for b in values_of(base, width)], width)
            for raw_bytes in {0, width // 2}:
                spec = random_spec(rng, width, raw_bytes)
                with self.subTest(spec=spec):
                    self.check(spec, base, base)
                    self.check(spec, other, base)

    def test_all_symbols(self) -> None:
        """Every symbol, in any bin, gives the value that the document says."""
        rng = random.Random(7)
        for width in (1, 2, 4, 8):
            for _ in range(20):
                spec = random_spec(rng, width, rng.randrange(width))
                base = rng.randbytes(300 * width)
                words = values_of(base, width)
                flags = [rng.random() < 0.8 for _ in words]
                parts: list[Coded] = []
                values = []
                for b, flag in zip(words, flags, strict=True):
                    value = b
                    if flag:
                        part, value = spec.any_part(len(parts) % 256, b, rng)
                        parts.append(part)
                    values.append(value)
                uncommon = [part.symbol != 0 or rng.random() < 0.5 for part in parts]
                segment = spec.laid_out(words, flags, parts, uncommon)
                block = coded(spec.recipe(), len(base), segment)
                with self.subTest(spec=spec):
                    back = decode.decode_block(block, None, base)
                    self.assertEqual(back, words_of(values, width))

    def test_coders(self) -> None:
        rng = random.Random(8)
        base = rng.randbytes(2400)
        for coder in ALL_CODERS:
            for raw_bytes in (0, 1):
                contexts = ContextSpec([coder] * 3, b"\2\7")
                spec = random_spec(
                    rng, 2, raw_bytes, coder=coder, changed=contexts, uncommon=contexts
                )
                with self.subTest(spec=spec):
                    self.check(spec, partly(base, 2, 0.3), base)

    def test_segments_and_tails(self) -> None:
        rng = random.Random(9)
        for width in (1, 2, 4, 8):
            spec = random_spec(rng, width, width // 2)
            for count in (0, 1, 7, 8, 9, 1023, 1024, 1025, 2100):
                for tail in {0, width - 1}:
                    base = rng.randbytes(count * width + tail)
                    self.check(spec, partly(base, width, 0.3), base)

    def test_shared(self) -> None:
        base = random.Random(10).randbytes(3001)
        spec = random_spec(random.Random(11), 2, 0)
        raw = partly(base, 2, 0.3)
        block = spec.shared_block(raw, base)
        self.assertEqual(decode.decode_block(block, spec.recipe(), base), raw)


class Rejects(RejectTest):
    """Every rule of rejection."""

    def refused(self, spec: ChangeSpec, message: str) -> None:
        self.check(b"\2\0" + spec.recipe(), message, None, b"")
        self.check(b"\3\0", message, spec.recipe(), b"")

    def changed(self, place: int, value: int, message: str, width: int = 2) -> None:
        """The recipe of a simple spec with one of its bytes changed, and a base beside it."""
        recipe = bytearray(ChangeSpec(width, width // 2).recipe() + bytes(99))
        recipe[place] = value
        self.check(b"\2\0" + recipe, message, None, b"")
        self.check(b"\3\0", message, bytes(recipe), b"")

    # Section 3.8

    def test_layout(self) -> None:
        for bits in (0x14, 0x18, 0x1C):
            self.changed(0, 0xE1 | bits, "bits 2 and 3 of the layout of a palette")

    def test_fields_of_bins(self) -> None:
        self.changed(1, 2, "raw_bytes is 2")
        self.changed(2, 9, "segment_log2 is 9")
        self.changed(2, 19, "segment_log2 is 19")
        self.changed(3, 0, "exponent_bits is 0")
        self.changed(3, 12, "exponent_bits is 12")
        self.changed(3, 8, "exponent_bits is 8", 1)
        self.changed(6, 0, "recipe has 0 bins")
        self.changed(6, 33, "recipe has 33 bins")
        self.changed(7, 9, "payload of a bin has 9 bits")
        self.changed(8, 7, "centre of a bin is 7")
        self.changed(9, 9, "recipe has 9 rows")
        integers = ChangeSpec(integer=True, bins=[(0, True, 0)])
        self.refused(integers, "bin of integers has a flip bit")
        self.refused(ChangeSpec(rows=[range(16)] * 2, bounds=b"\0"), "bounds do not rise")
        self.refused(ChangeSpec(rows=[[0] * 16]), "row has an entry twice")

    def test_number_of_contexts(self) -> None:
        self.refused(ChangeSpec(changed=ContextSpec([])), "changed values have no context")
        for count in (9, 10, 255):
            contexts = ContextSpec([Raw()] * count, bytes(range(1, count)))
            self.refused(ChangeSpec(changed=contexts), f"flags have {count} contexts")
            self.refused(ChangeSpec(uncommon=contexts), f"flags have {count} contexts")

    def test_bounds(self) -> None:
        for bounds in (b"\0", b"\1\1", b"\2\1", b"\0\1", b"\1\3\3", b"\1\3\2", b"\xff\xff"):
            contexts = ContextSpec([Raw()] * (len(bounds) + 1), bounds)
            self.refused(ChangeSpec(changed=contexts), "bounds do not rise")
            self.refused(ChangeSpec(uncommon=contexts), "bounds do not rise")

    def test_coders(self) -> None:
        head = ChangeSpec(changed=ContextSpec([])).recipe()[:-3]
        unknown, deep = b"\x0a", b"\x08a" * 4 + bytes(5)
        for coder, message in ((unknown, "unknown coder"), (deep, "more than 3 apart coders")):
            for contexts in (b"\1" + coder, ONE + b"\1" + coder, ONE + b"\2\1\0" + coder):
                self.check(b"\2\0" + head + contexts, message, None, b"")
                self.check(b"\3\0", message, head + contexts, b"")

    def test_recipe_ends_early(self) -> None:
        contexts = ContextSpec([EVEN, Raw(), Gaps(3)], b"\1\2")
        recipe = ChangeSpec(changed=contexts, uncommon=contexts).recipe()
        for size in range(len(recipe)):
            self.check(b"\2\0" + recipe[:size], "ends before", None, b"")
            self.check(b"\3\0", "ends before", recipe[:size], b"")
        self.check(b"\3\0", "left over in the shared recipe", recipe + b"\0", b"")

    def test_base_missing(self) -> None:
        for raw in (b"", b"x", b"xy"):
            self.check(ChangeSpec().block(raw, raw), "needs a base and none is given")

    def test_base_of_another_length(self) -> None:
        block = ChangeSpec().block(b"abcd", b"abcd")
        for base in (b"", b"abc", b"abcde", b"abcdef"):
            self.check(block, "base has", None, base)

    # Section 4.5

    def hand(self, segment: bytes, message: str, **fields: Any) -> None:
        """Two values, near a base of zeros."""
        raw_len = 2 << fields.get("raw_bytes", 0)
        self.check(by_hand(segment, raw_len, **fields), message, None, bytes(raw_len))

    def test_flags_beyond_the_last_value(self) -> None:
        for byte in (4, 8, 0x80):
            self.hand(bytes([byte]) + b"\0", "flags beyond the last value")
            self.hand(
                b"\3" b"\0" + bytes([byte]), "flags beyond the last value", contexts=ONE + ONE
            )
        # one changed value has one flag
        self.hand(b"\1" b"\0" b"\2" b"\1", "flags beyond the last value", contexts=ONE + ONE)
        # the same with a length, and from a coder without a stream
        self.hand(b"\1\4" b"\0", "flags beyond the last value", layout=0xE4)
        constant = b"\1\1\4" + NONE
        self.hand(b"\0", "flags beyond the last value", contexts=constant)

    def test_flags_of_a_context_without_values(self) -> None:
        """They are no bytes: there is nothing that could be wrong in them but a length."""
        two = b"\2\1\0\0" + NONE
        self.hand(b"\0" b"\0" b"\0", "left over in the segment", contexts=two)
        lengths = b"\1\0" b"\1\0" b"\0"
        self.hand(lengths, "left over in the stream of flags", contexts=two, layout=0xE4)

    def test_lengths_of_streams(self) -> None:
        # two values have one byte of flags
        self.hand(b"\0" b"\0" b"\0", "ends before", layout=0xE4)
        self.hand(b"\2\0\0" b"\0", "left over in the stream of flags", layout=0xE4)
        self.hand(b"\4\0" b"\0", "ends before", layout=0xE4)
        for length in (1 << 20, (1 << 64) - 1):
            self.hand(varint(length) + b"\0" b"\0", "ends before", layout=0xE4)
        self.hand(b"\x80\0" b"\0" b"\0", "varint is longer than needed", layout=0xE4)
        fields: dict[str, Any] = {"contexts": ONE + ONE, "layout": 0xE4}
        self.hand(b"\1\3" b"\0" b"\0" b"\0", "ends before", **fields)
        self.hand(b"\1\3" b"\0" b"\2\0\0", "left over in the stream of flags", **fields)
        constant: dict[str, Any] = {"contexts": b"\1\1\3" + NONE, "layout": 0xE4}
        self.hand(b"\1\0" b"\0" b"\0\0", "left over in the stream of flags", **constant)
        runs: dict[str, Any] = {"contexts": b"\1\6" + NONE, "layout": 0xE4}
        self.hand(b"\1\0" b"\0", "ends before", **runs)
        self.hand(b"\3\0\0\0" b"\0", "left over in the stream of flags", **runs)

    def test_number_of_exceptions(self) -> None:
        self.hand(b"\3" b"\0" b"\0\x40", "1 exceptions where 0 are listed")
        self.hand(b"\3" b"\1\0" b"\0\0", "0 exceptions where 1 are listed")
        self.hand(b"\3" b"\1\0" b"\x40\x40", "2 exceptions where 1 are listed")
        self.hand(b"\1" b"\2\0\0" b"\x40", "1 exceptions where 2 are listed")
        self.hand(b"\0" b"\1\0", "0 exceptions where 1 are listed")
        flagged = ONE + ONE
        self.hand(b"\3" b"\1\0" b"\0", "0 exceptions where 1 are listed", contexts=flagged)
        self.hand(b"\3" b"\0" b"\1" b"\x40", "1 exceptions where 0 are listed", contexts=flagged)

    def test_more_exceptions_than_there_is_room_for(self) -> None:
        for count in (3, 4, 1 << 20, (1 << 64) - 1):
            self.hand(b"\3" + varint(count) + b"\0\0", "ends before")
            fields = {"layout": 0xE1, "raw_bytes": 1}
            self.hand(b"\3" b"\0\0" + varint(count) + b"\0\0", "ends before", **fields)

    def test_count_of_exceptions_is_a_varint(self) -> None:
        self.hand(b"\0" b"\x80\0", "varint is longer than needed")
        self.hand(b"\0" + b"\xff" * 10 + b"\1", "varint is longer than 10 bytes")

    def test_padding(self) -> None:
        for byte in (4, 8, 0x80):
            segment = b"\3" b"\0" b"\0\0" + bytes([byte])
            self.hand(segment, "padding of payloads", bins=b"\1\0")
        # one changed value has one bit
        self.hand(b"\2" b"\0" b"\0" b"\2", "padding of payloads", bins=b"\1\0")

    def test_segment_too_short(self) -> None:
        segment = b"\3" b"\0" b"\2" b"\1" b"\3"
        for size in range(len(segment)):
            self.hand(segment[:size], "ends before", bins=b"\1\0", contexts=ONE + ONE)
        raw = b"\3" b"\0\0" b"\0" b"\0\0"
        for size in range(len(raw)):
            self.hand(raw[:size], "ends before", layout=0xE1, raw_bytes=1)

    def test_segment_too_long(self) -> None:
        for segment in (b"\0\0", b"\1\0\1", b"\3\0\0\1"):
            for more in (b"\0", b"\1", b"\0\0\0"):
                self.hand(segment + more, "left over in the segment")

    def test_truncation_at_every_length(self) -> None:
        rng = random.Random(12)
        base = rng.randbytes(301)
        for coder in (EVEN, Apart(0, Gaps(1), Raw())):
            spec = random_spec(rng, 2, 1, coder=coder)
            block = spec.block(partly(base, 2, 0.5), base)
            for size in range(len(block)):
                self.check(block[:size], "", None, base)
            self.check(block + b"\0", "left over in the block", None, base)


class Damage(unittest.TestCase):
    """Damaged blocks decode or are Corrupt, and raise nothing else."""

    def test_random_damage(self) -> None:
        rng = random.Random(13)
        base = rng.randbytes(150)
        for width in (1, 2, 4, 8):
            for raw_bytes in range(width):
                block = random_spec(rng, width, raw_bytes).block(partly(base, width, 0.5), base)
                for _ in range(100):
                    damaged = bytearray(block)
                    for _ in range(rng.randrange(1, 4)):
                        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
                    try:
                        decode.decode_block(bytes(damaged), None, base)
                    except decode.Corrupt as error:
                        self.assertRegex(str(error), r"\A[^A-Z\n]+\Z")


if __name__ == "__main__":
    unittest.main()
