"""Tests of decode.py by docs/format.md, sections 1 and 2: conventions and the block."""

from __future__ import annotations

import contextlib
import random
import unittest

import decode
from builders import (
    HUFFMAN,
    TEXT,
    AcceptTest,
    Raw,
    RejectTest,
    Spec,
    samples,
    varint,
    words_of,
)


class Accepts(AcceptTest):
    """What decodes."""

    def test_samples(self) -> None:
        for name, sample in samples().items():
            with self.subTest(name):
                self.assertEqual(sample.decode(), sample.raw)

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

    def test_shared_recipe(self) -> None:
        spec = Spec(2, 7, [HUFFMAN, Raw(), Raw()])
        raw = words_of([97 << 9 | i for i in range(300)], 2)
        self.assertEqual(decode.decode_block(spec.shared_block(raw), spec.recipe()), raw)

    def test_coded_block_ignores_shared_recipe(self) -> None:
        self.assertEqual(decode.decode_block(Spec().block(TEXT), b""), TEXT)

    def test_same(self) -> None:
        self.assertEqual(decode.decode_block(b"\4\0", None, b""), b"")
        self.assertEqual(decode.decode_block(b"\4" + varint(2500), b"", TEXT), TEXT)

    def test_base_ignored(self) -> None:
        for name, sample in samples().items():
            if sample.base is None:
                for base in (b"", b"no base", sample.raw):
                    with self.subTest(name, base=base):
                        back = decode.decode_block(sample.block, sample.shared, base)
                        self.assertEqual(back, sample.raw)


class Rejects(RejectTest):
    """Every rule of rejection."""

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
        for name, sample in samples().items():
            for size in range(len(sample.block)):
                with self.subTest(name, size=size):
                    self.check(sample.block[:size], "", sample.shared, sample.base)

    def test_bytes_left_over(self) -> None:
        for name, sample in samples().items():
            with self.subTest(name):
                self.check(sample.block + b"\0", "left over in", sample.shared, sample.base)

    # Section 2

    def test_unknown_kind(self) -> None:
        for kind in (6, 7, 128, 255):
            self.check(bytes([kind, 0]), "unknown block kind")

    def test_raw_len_too_large(self) -> None:
        self.check(b"\1" + varint((1 << 26) + 1) + b"\1x", "larger than 64 mib")

    def test_constant_width(self) -> None:
        for width in (0, 3, 5, 16):
            self.check(b"\1\1" + bytes([width]) + bytes(width), "width of a constant")

    def test_shared_recipe_missing(self) -> None:
        self.check(samples()["shared"].block, "needs a shared recipe and none is given")

    def test_shared_recipe_truncated(self) -> None:
        sample = samples()["shared"]
        assert sample.shared is not None
        for size in range(len(sample.shared)):
            self.check(sample.block, "ends before", sample.shared[:size])

    def test_shared_recipe_left_over(self) -> None:
        sample = samples()["shared"]
        assert sample.shared is not None
        self.check(sample.block, "left over in the shared recipe", sample.shared + b"\0")

    def test_base_missing(self) -> None:
        message = "needs a base and none is given"
        self.check(b"\4\0", message)
        for name, sample in samples().items():
            if sample.base is not None:
                with self.subTest(name):
                    self.check(sample.block, message, sample.shared)

    def test_base_missing_without_values(self) -> None:
        for use in (1, 2):
            spec = Spec(2, 8, [Raw(), Raw()], base_use=use)
            for raw in (b"", b"x"):
                self.check(spec.block(raw, raw), "needs a base and none is given")

    def test_base_of_another_length(self) -> None:
        for name, sample in samples().items():
            if sample.base is not None:
                for base in (b"", sample.base[1:], sample.base + b"x"):
                    with self.subTest(name):
                        self.check(sample.block, "base has", sample.shared, base)

    def test_same_with_a_body(self) -> None:
        self.check(b"\4\3abc", "left over in the block", None, b"abc")

    def test_same_too_large(self) -> None:
        self.check(b"\4" + varint((1 << 26) + 1), "larger than 64 mib", None, b"")


class Damage(unittest.TestCase):
    """Damaged blocks decode or are Corrupt, and raise nothing else."""

    def test_random_damage(self) -> None:
        rng = random.Random(11)
        for sample in samples().values():
            for _ in range(300):
                damaged = bytearray(sample.block)
                for _ in range(rng.randrange(1, 4)):
                    damaged[rng.randrange(len(damaged))] = rng.randrange(256)
                with contextlib.suppress(decode.Corrupt):
                    decode.decode_block(bytes(damaged), sample.shared, sample.base)

    def test_messages_are_one_lower_case_line(self) -> None:
        rng = random.Random(12)
        for _ in range(2000):
            block = bytes([rng.randrange(7)]) + rng.randbytes(rng.randrange(40))
            try:
                decode.decode_block(block, block, block)
            except decode.Corrupt as error:
                self.assertRegex(str(error), r"\A[^A-Z\n]+\Z")


if __name__ == "__main__":
    unittest.main()
