"""Tests of decode_file.py on files made by hand: what decodes, damage, the command line."""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

from builders import recipe_with_runs_columns, u16, u24, varint
from decode import Corrupt
from decode_file import decode_file, main, read_file
from file_builders import (
    HEADER,
    Span,
    constant,
    digest,
    file_of,
    index_of,
    item,
    one_span_file,
    plain_span,
    sample,
    seal,
    shared_span,
    small_file,
    stored,
)
from hashes import hash_of

ABC = plain_span(b"abc")
ZERO = b"\0"


class Accepts(unittest.TestCase):
    """Files that decode."""

    def check(self, spans: Sequence[Span], items: Sequence[bytes], kind: int = 1) -> None:
        raw = b"".join(span.raw for span in spans)
        self.assertEqual(decode_file(file_of(spans, items, kind)), raw)

    def test_sample(self) -> None:
        """Every kind of block and of item is read, from bytes and from a path."""
        made = sample(1100)
        self.assertEqual(decode_file(made.file), made.original)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sample.lmc"
            path.write_bytes(made.file)
            self.assertEqual(decode_file(path), made.original)

    def test_hash(self) -> None:
        """A hash is little-endian: the published value for no bytes, turned around."""
        published = "99aa06d3014798d86001c324468d497f"
        self.assertEqual(hash_of(b"")[::-1].hex(), published)
        self.assertEqual(digest(b"")[::-1].hex(), published)

    def test_content_hash(self) -> None:
        """The content hash is that of the items' hashes, not of the original."""
        made = sample(600)
        self.assertEqual(read_file(made.file).content_hashes, (digest(made.hashes),))

    def test_empty_original(self) -> None:
        """An original of no bytes has no spans and an item of no bytes."""
        for kind in (0, 1):
            self.check([], [item(b"")], kind)
        self.check([], [item(b""), item(b"")])

    def test_items_of_no_bytes(self) -> None:
        """Items of no bytes may stand at the ends, between spans and inside of one."""
        none = item(b"")
        spans = [plain_span(b"abc"), plain_span(b"de")]
        self.check(spans, [none, none, item(b"ab"), none, item(b"c"), none, item(b"de"), none])

    def test_any_file_in_several_spans(self) -> None:
        """The one item of kind 0 may be made of many spans."""
        parts = [bytes([i]) * (i + 1) for i in range(256)]
        self.check([plain_span(part) for part in parts], [item(*parts)], kind=0)

    def test_items_across_spans(self) -> None:
        """Items of many spans, of one span and of a part of one may follow each other."""
        spans = [plain_span(raw) for raw in (b"ab", b"cd", b"ef", b"gh", b"ij")]
        items = [item(b"ab", b"cd"), item(b"ef"), item(b"g"), item(b"h"), item(b"ij")]
        self.check(spans, items)

    def test_dtypes(self) -> None:
        """Any dtype is read, also one that has no name yet, and changes nothing."""
        for dtype in range(128):
            file = one_span_file(Span(b"x", [stored(b"x")], dtype=dtype))
            self.assertEqual(decode_file(file), b"x")

    def test_block_sizes(self) -> None:
        """Blocks end at multiples of 2^block_log2, or with the span."""
        for log2 in (10, 11, 13, 24):
            for count in (1, 1023, 1024, 1025, 2048, 2049, 5000):
                raw = b"q" * count
                cuts = [min(1 << log2, count - at) for at in range(0, count, 1 << log2)]
                span = Span(raw, [constant(b"q", cut) for cut in cuts], block_log2=log2)
                self.assertEqual(decode_file(one_span_file(span)), raw)

    def test_largest_span(self) -> None:
        """A span may have 2^24 bytes."""
        count = 1 << 24
        span = Span(bytes(count), [constant(ZERO, count)], block_log2=24)
        self.assertEqual(decode_file(one_span_file(span)), bytes(count))

    def test_largest_block(self) -> None:
        """A block may be 5 bytes longer than its original bytes; a large stored one is."""
        raw = random.Random(1).randbytes(1 << 21)
        span = Span(raw, [stored(raw)], block_log2=21)
        self.assertEqual(len(span.blocks[0]), len(raw) + 5)
        self.assertEqual(decode_file(one_span_file(span)), raw)

    def test_largest_recipe(self) -> None:
        """A shared recipe may have 2^21 bytes."""
        # a constant plane instead of the raw one, which has no room in a block that short
        longer = recipe_with_runs_columns(-1)
        recipe = longer[:3] + b"\1\0" + longer[4:]
        self.assertEqual(len(recipe), 1 << 21)
        first, segments, rows = b"\0", u24(0), b"\1\0"
        span = Span(b"xyxyxyxyxy", [b"\3\12" + first + segments + rows], recipe)
        self.assertEqual(decode_file(one_span_file(span)), span.raw)

    def test_unused_recipe(self) -> None:
        """A shared recipe that no block of the span uses is allowed."""
        recipe = shared_span(600).recipe
        self.assertEqual(decode_file(one_span_file(Span(b"x", [stored(b"x")], recipe))), b"x")


class GoldenFiles(unittest.TestCase):
    """Files that the Rust encoder wrote."""

    def test_golden_files(self) -> None:
        """Every golden file decodes, with all of its hashes right."""
        files = sorted((Path(__file__).parent.parent / "testdata").glob("v*.lmc"))
        self.assertGreater(len(files), 5)
        for file in files:
            with self.subTest(file.name):
                decode_file(file)


class Damage(unittest.TestCase):
    """Damaged files are Corrupt, and nothing else."""

    def test_truncation(self) -> None:
        """A file cut short, at either end, is rejected at every length."""
        file = small_file()
        for size in range(len(file)):
            for cut in (file[:size], file[len(file) - size :]):
                with self.subTest(size=size), self.assertRaises(Corrupt):
                    decode_file(cut)

    def test_bit_flips(self) -> None:
        """Every single bit counts."""
        file = small_file()
        for bit in range(8 * len(file)):
            damaged = bytearray(file)
            damaged[bit // 8] ^= 1 << bit % 8
            with self.subTest(bit=bit), self.assertRaises(Corrupt):
                decode_file(bytes(damaged))

    def test_bytes_removed(self) -> None:
        """A file that lost a byte anywhere is rejected."""
        file = small_file()
        for place in range(len(file)):
            with self.subTest(place=place), self.assertRaises(Corrupt):
                decode_file(file[:place] + file[place + 1 :])

    def test_random_index(self) -> None:
        """An index damaged before its hash was made decodes or is Corrupt, no more."""
        rng = random.Random(2)
        span = shared_span(600)
        index = index_of([span.fields()], [item(span.raw)])
        for _ in range(1000):
            damaged = bytearray(index)
            for _ in range(rng.randrange(1, 4)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            try:
                decode_file(seal(span.pieces(), bytes(damaged), len(span.raw)))
            except Corrupt as error:
                self.assertRegex(str(error), r"\A[^A-Z\n]+\Z")


class CommandLine(unittest.TestCase):
    """The command line and its exit status."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "a.lmc"
        self.out = Path(folder.name) / "out"

    def run_main(self, *arguments: object) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([str(argument) for argument in arguments])
        return status, out.getvalue(), err.getvalue()

    def test_output(self) -> None:
        """The original is written, or only checked, and its content hash printed."""
        made = sample(100)
        self.file.write_bytes(made.file)
        line = f"{len(made.original)} bytes, content hash {digest(made.hashes)[::-1].hex()}\n"
        self.assertEqual(self.run_main(self.file), (0, line, ""))
        self.assertEqual(self.run_main(self.file, "-o", self.out), (0, line, ""))
        self.assertEqual(self.out.read_bytes(), made.original)

    def test_corrupt(self) -> None:
        """A corrupt file gives status 4, one line, and no output."""
        file = file_of([ABC], [varint(3) + digest(b"")])
        self.file.write_bytes(file)
        line = f"decode_file.py: {self.file}: hash of item 0 is wrong\n"
        self.assertEqual(self.run_main(self.file, "-o", self.out), (4, "", line))
        self.assertFalse(self.out.exists())

    def test_later_version(self) -> None:
        """A file of a later version gives status 1 and names the version."""
        self.file.write_bytes(seal(b"", b"", 0, header=HEADER[:8] + u16(2) + bytes(6)))
        status, out, err = self.run_main(self.file, "-o", self.out)
        self.assertEqual((status, out, self.out.exists()), (1, "", False))
        self.assertIn("version 2,", err)

    def test_missing_file(self) -> None:
        """A file that cannot be read or written gives status 1 and one line."""
        self.assertEqual(self.run_main(self.file)[0], 1)
        self.file.write_bytes(one_span_file(ABC))
        status, out, err = self.run_main(self.file, "-o", self.file / "none")
        self.assertEqual((status, out, err.count("\n")), (1, "", 1))


if __name__ == "__main__":
    unittest.main()
