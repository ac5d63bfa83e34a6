"""Tests of decode_file.py by docs/format.md, sections 7.2, 7.3 and 7.5: bases and references."""

from __future__ import annotations

import contextlib
import io
import random
import struct
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

from arranged_builders import ARRANGED, leaves_base, leaves_hash, stretch_item
from builders import Packed, Spec, varint
from class_builders import ClassSpec
from decode import Corrupt
from decode_file import NoBase, Shelf, decode_file, main, read_file
from file_builders import (
    Span,
    base_of,
    constant,
    digest,
    file_of,
    index_of,
    item,
    one_span_file,
    plain_span,
    reference,
    same,
    seal,
    small_file,
    stored,
    u64,
)

OLD = random.Random(1).randbytes(5000)


def same_span(raw: bytes, fields: bytes) -> Span:
    """A span of up to 1024 bytes that is as its base."""
    return Span(raw, [same(len(raw))], reference=fields)


def file_of_spans(spans: Sequence[Span], bases: Sequence[bytes] = ()) -> bytes:
    """A file of any kind."""
    whole = item(*[span.raw for span in spans])
    return file_of(spans, [whole], kind=0, bases=bases)


class FolderTest(unittest.TestCase):
    """Base of tests that need files."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def put(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return path


class Accepts(FolderTest):
    """What decodes."""

    def check(self, spans: Sequence[Span], bases: Sequence[bytes] = (), old: bytes = OLD) -> None:
        raw = b"".join(span.raw for span in spans)
        given = [self.put("given", old)]
        self.assertEqual(decode_file(file_of_spans(spans, bases), given), raw)

    def test_no_bases(self) -> None:
        """A file may say that bases follow and have none, of both kinds."""
        self.check([plain_span(b"abc")])
        file = file_of([plain_span(b"abc")], [item(b"ab"), item(b"c")], 1, [])
        self.assertEqual(decode_file(file), b"abc")

    def test_unused_bases(self) -> None:
        """A base that no span refers to need not be there."""
        self.check([plain_span(b"abc")], [base_of(b"none")] * 1024)

    def test_same(self) -> None:
        """The base's bytes from the start on that the reference names, to the last one."""
        for start in (0, 1, 700, 4000):
            raw = OLD[start : start + 1000]
            self.check([same_span(raw, reference(1, start))], [base_of(OLD)])

    def test_several_bases(self) -> None:
        """Bases are counted from 1."""
        other = OLD[::-1]
        given = [self.put("a", OLD), self.put("b", other)]
        spans = [same_span(other[:9], reference(2)), same_span(OLD[:7], reference(1))]
        file = file_of_spans(spans, [base_of(OLD), base_of(other)])
        self.assertEqual(decode_file(file, given), other[:9] + OLD[:7])
        self.assertEqual(decode_file(file, given[::-1]), other[:9] + OLD[:7])

    def test_blocks_take_their_place(self) -> None:
        """Every block has the part of the span's base that stands where its bytes do."""
        raw = OLD[100:3100]
        blocks = [same(1024), stored(raw[1024:2048]), same(952)]
        self.check([Span(raw, blocks, reference=reference(1, 100))], [base_of(OLD)])

    def test_coded_blocks(self) -> None:
        """Recipes by planes and by classes use the base, inline and shared."""
        base = OLD[10:2010]
        raw = bytes(byte ^ (i % 4 // 2) for i, byte in enumerate(base))
        for spec in (Spec(2, 8, [Packed(1)] * 2, base_use=1), ClassSpec(2, coders=[Packed(31)])):
            cuts = [slice(0, 1024), slice(1024, 2000)]
            blocks = [spec.shared_block(raw[cut], base[cut]) for cut in cuts]
            shared = Span(raw, blocks, spec.recipe(), reference=reference(1, 10))
            inline = Span(raw, [spec.block(raw, base)], block_log2=11, reference=reference(1, 10))
            self.check([shared, inline], [base_of(OLD)])

    def test_reference_that_no_block_uses(self) -> None:
        """Blocks that need no base may be in a span with a reference."""
        self.check([Span(b"abc", [stored(b"abc")], reference=reference(1))], [base_of(OLD)])

    def test_conversions(self) -> None:
        """A conversion from f32 takes twice the bytes of the base."""
        floats = [0.0, -1.5, 65504.0, 65535.0, 3.1415927, -float("inf")]
        base = b"pad" + struct.pack("<6f", *floats)
        made = {
            1: "0000 bfc0 4780 4780 4049 ff80",
            2: "0000 bfc0 477f 477f 4049 ff80",
            3: "0000 be00 7bff 7c00 4248 fc00",
            4: "0000 be00 7bff 7bff 4248 fc00",
        }
        for conversion, digits in made.items():
            raw = b"".join(bytes.fromhex(word)[::-1] for word in digits.split())
            fields = reference(1, 3, conversion)
            self.check([same_span(raw, fields)], [base_of(base)], base)
            self.check([same_span(raw[:2], fields)], [base_of(base)], base)

    def test_conversions_to_f32(self) -> None:
        """A conversion to f32 takes half of the bytes of the base, to the last one."""
        base = b"odd" + struct.pack("<3e", -1.5, 65504.0, 2.0**-24)
        made = {5: struct.pack("<3I", 0xBE000000, 0x7BFF0000, 0x00010000)}
        made[6] = struct.pack("<3f", -1.5, 65504.0, 2.0**-24)
        for conversion, raw in made.items():
            for size in (4, 8, 12):
                span = same_span(raw[:size], reference(1, 3, conversion))
                self.check([span], [base_of(base)], base)

    def test_conversion_in_blocks(self) -> None:
        """Blocks of a converted base are cut after the conversion."""
        raw = b"".join(OLD[start + 2 : start + 4] for start in range(0, 5000, 4))
        span = Span(raw, [same(1024), same(1024), same(452)], reference=reference(1, 0, 2))
        self.check([span], [base_of(OLD)])

    def test_own_original(self) -> None:
        """Source 0 are the bytes before the span, in one span or across several."""
        first, second = plain_span(OLD[:1000]), plain_span(OLD[1000:1500])
        for start, end in ((0, 1000), (0, 1), (999, 1000), (900, 1500), (1499, 1500), (600, 1400)):
            third = same_span(OLD[start:end], reference(0, start))
            self.check([first, second, third, third])

    def test_own_original_converted(self) -> None:
        first = plain_span(OLD[:1000])
        raw = b"".join(OLD[start + 2 : start + 4] for start in range(0, 1000, 4))
        self.check([first, same_span(raw, reference(0, 0, 2))])

    def test_own_original_coded_against_a_base(self) -> None:
        """A span may refer to one of this file that has a reference to another."""
        spans = [same_span(OLD[:500], reference(1)), same_span(OLD[9:80], reference(0, 9))]
        self.check(spans, [base_of(OLD)])

    def test_beside_a_reference_to_this_file(self) -> None:
        """A span that refers to this file forbids nothing of the bytes around it."""
        spans = [plain_span(b"abcd"), same_span(b"bc", reference(0, 1)), plain_span(b"xyz")]
        self.check([*spans, same_span(b"abcd", reference(0)), same_span(b"xyz", reference(0, 6))])

    def test_names(self) -> None:
        """Names of 1 to 255 bytes of UTF-8, strange ones too."""
        for name in ("a", "...", " ", "a\\b", "é", "\u3000", "x" * 255, "\U0001f600"):
            bases = [base_of(OLD, name.encode())]
            self.check([same_span(OLD[:9], reference(1))], bases)


class Shelves(FolderTest):
    """Where bases are found."""

    def setUp(self) -> None:
        super().setUp()
        span = same_span(OLD[:50], reference(1))
        self.file = self.put("new.lmc", one_span_file(span, [base_of(OLD, b"old")]))

    def check(self, bases: Sequence[Path] = ()) -> None:
        self.assertEqual(decode_file(self.file, bases), OLD[:50])

    def compressed(self) -> bytes:
        cuts = [OLD[start : start + 1024] for start in range(0, len(OLD), 1024)]
        return one_span_file(Span(OLD, list(map(stored, cuts))))

    def test_beside(self) -> None:
        """A base is found beside the file, as it is or compressed."""
        self.put("old", OLD)
        self.check()
        self.put("old", self.compressed())
        self.check()
        self.put("old", b"something else")
        self.put("old.lmc", self.compressed())
        self.check()

    def test_given(self) -> None:
        """A base that is given may have any name; files that are no base do no harm."""
        self.check([self.put("x", OLD)])
        self.check([self.put("x", self.compressed())])
        wrong = [self.put("a", b"other"), self.put("b", small_file()[:-1]), self.folder]
        self.check([*wrong, self.folder / "none", self.folder / "x"])

    def test_chain(self) -> None:
        """A base may need a base of its own, which is looked for beside it."""
        span = Span(OLD, [same(1024)] * 4 + [same(904)], reference=reference(1, 1))
        older = b"!" + OLD
        self.put("old.lmc", one_span_file(span, [base_of(older, b"older")]))
        self.put("older", older)
        self.check()
        elsewhere = self.put("elsewhere/old", (self.folder / "old.lmc").read_bytes())
        self.put("elsewhere/older", older)
        (self.folder / "older").unlink()
        (self.folder / "old.lmc").unlink()
        self.check([elsewhere])

    def test_base_of_kind_1(self) -> None:
        """A base of kind 1 is known by its items, not by its bytes."""
        parts = [plain_span(b"ab"), plain_span(b"cd")]
        fields = [item(b"ab"), item(b"cd")]
        hashes = digest(digest(b"ab") + digest(b"cd"))
        given = [self.put("x", file_of(parts, fields))]
        base = hashes + varint(4) + b"\4name"
        file = one_span_file(same_span(b"bcd", reference(1, 1)), [base])
        self.assertEqual(decode_file(file, given), b"bcd")
        with self.assertRaises(NoBase):
            decode_file(file, [self.put("y", b"abcd")])

    def test_content_hashes(self) -> None:
        """A plain base has two unless it is safetensors; one in an archive has that of its kind."""
        many = Span(b"x" * 70000, [constant(b"x", 70000)], block_log2=24)
        table = b'{"a":{"dtype":"U8","shape":[70000],"data_offsets":[0,70000]}}'
        head, plain = u64(len(table)) + table, many.raw
        safe = head + plain
        safe_file = file_of([plain_span(head), many], [item(head), item(plain)])
        items = digest(digest(head) + digest(plain)) + varint(len(safe)) + b"\4base"
        whole = one_span_file(many)
        fields = [item(b""), stretch_item(0, plain)]
        arranged = file_of([many], fields, ARRANGED, content=leaves_hash(plain))
        every = (plain, whole, arranged, safe, safe_file)
        cases = {
            base_of(plain): (plain, whole), leaves_base(plain): (plain, arranged),
            items: (safe, safe_file), base_of(safe): (), leaves_base(safe): (),
        }
        for base, good in cases.items():
            file = one_span_file(same_span(b"x", reference(1, 69999)), [base])
            for data in every:
                given = [self.put("x", data)]
                if data in good:
                    self.assertEqual(decode_file(file, given), b"x")
                else:
                    self.refuse("content hash is", given, file)

    def refuse(self, message: str, bases: Sequence[Path] = (), file: bytes = b"") -> None:
        for source in ([file] if file else [self.file, self.file.read_bytes()]):
            with self.subTest(source), self.assertRaisesRegex(NoBase, message):
                decode_file(source, bases)

    def test_missing(self) -> None:
        """A file whose base is nowhere is refused, and the base named."""
        self.refuse(f"base old with content hash {digest(digest(OLD))[::-1].hex()}")
        with self.assertRaisesRegex(NoBase, "base old .*no file is given"):
            read_file(self.file.read_bytes())

    def test_wrong_content(self) -> None:
        """A base of another content hash is refused, also by a single bit."""
        wrong = bytearray(OLD)
        wrong[4999] ^= 1
        self.put("old", bytes(wrong))
        given = [self.put("x", bytes(wrong))]
        shown = digest(digest(wrong))[::-1].hex()
        self.refuse(f"content hash is {shown} or {shown}", given)

    def test_wrong_length(self) -> None:
        """A base whose length is not the one that is named is refused."""
        for length in (4999, 5001):
            base = digest(digest(OLD)) + varint(length) + b"\3old"
            file = one_span_file(same_span(OLD[:50], reference(1)), [base])
            self.refuse("base old", [self.put("old", OLD)], file)

    def test_corrupt_base(self) -> None:
        """A base that is itself corrupt is none."""
        damaged = bytearray(self.compressed())
        damaged[30] ^= 1
        self.refuse("hash of block 0 is wrong", [self.put("x", bytes(damaged))])

    def test_reference_that_no_block_uses(self) -> None:
        """A span is refused without its base, also if its blocks would not need it."""
        span = Span(b"abc", [stored(b"abc")], reference=reference(1))
        self.refuse("base base", file=one_span_file(span, [base_of(OLD)]))

    def test_bases_in_a_circle(self) -> None:
        """Files that name themselves or each other as a base are refused."""
        for names in ((b"a.lmc",), (b"b", b"a.lmc"), (b"b", b"c", b"a.lmc")):
            for own, other in zip((b"a.lmc", *names), names, strict=False):
                span = same_span(OLD[:50], reference(1))
                path = self.put(own.decode(), one_span_file(span, [base_of(OLD, other)]))
            with self.assertRaisesRegex(NoBase, "it is the file that needs the base"):
                decode_file(self.folder / "a.lmc", [path])

    def test_shelf_finds_a_base_once(self) -> None:
        """Spans of one base share what was read."""
        shelf = Shelf([self.put("x", OLD)])
        read_file(self.file.read_bytes(), shelf)
        (self.folder / "x").unlink()
        self.assertEqual(read_file(self.file.read_bytes(), shelf).data, OLD[:50])


class Rejects(FolderTest):
    """Every rule of rejection."""

    def check(self, file: bytes, message: str) -> None:
        with self.assertRaisesRegex(Corrupt, message):
            decode_file(file, [self.put("given", OLD)])

    def index(self, index: bytes, message: str) -> None:
        self.check(seal(stored(b"abc"), index, 3), f"index: {message}")

    def bases(self, bases: Sequence[bytes], message: str) -> None:
        span = plain_span(b"abc")
        self.index(index_of([span.fields()], [item(span.raw)], 0, bases), message)

    def reference(self, fields: bytes, message: str, raw: bytes = b"abcd") -> None:
        file = one_span_file(same_span(raw, fields), [base_of(OLD)])
        self.check(file, f"index: span 0: {message}")

    # Section 7.2

    def test_base_count(self) -> None:
        self.bases([base_of(OLD)] * 1025, "file has 1025 bases")
        self.index(b"\x80" + varint((1 << 64) - 1), "file has 18446744073709551615 bases")
        self.index(b"\x80\x81\0" + base_of(OLD), ".*longer than needed")

    def test_truncated(self) -> None:
        span = same_span(b"abc", reference(1, 300))
        index = index_of([span.fields()], [item(span.raw)], 0, [base_of(OLD)] * 2)
        for size in range(len(index)):
            self.index(index[:size], ".*ends before")
        self.index(index + b"\0", "bytes left over")

    # Section 7.3

    def test_reference_without_bases(self) -> None:
        """Bit 7 of a dtype needs bit 7 of the kind."""
        for dtype in (128, 128 + 21):
            fields = Span(b"abc", [stored(b"abc")], dtype=dtype).fields()
            index = index_of([fields], [item(b"abc")])
            self.index(index, "span 0: span has a reference, but the file has no bases")

    def test_same_without_reference(self) -> None:
        """A block that needs a base is in a span with a reference."""
        file = one_span_file(Span(b"abc", [same(3)]), [base_of(OLD)])
        self.check(file, "span 0: block 0: the block needs a base and none is given")

    def test_item_hash(self) -> None:
        """What a wrong reference gives does not have the hash of its item."""
        file = one_span_file(same_span(OLD[:50], reference(1, 1)), [base_of(OLD)])
        self.check(file, "hash of item 0 is wrong")

    # Section 7.5, bases

    def base(self, fields: bytes, message: str) -> None:
        self.bases([fields], f"base 1: {message}")
        self.bases([base_of(OLD), fields], f"base 2: {message}")

    def test_name_length(self) -> None:
        for name in (b"", b"x" * 256, b"x" * 70000):
            self.base(base_of(OLD, name), f"name has {len(name)} bytes")

    def test_name_characters(self) -> None:
        for name in (b"/", b"a/b", b"../a", b"/a", b"a/"):
            self.base(base_of(OLD, name), "name has a slash")
        for char in ("\0", "\1", "\n", "\x1f", "\x7f", "\x80", "\x9f"):
            for name in (char, f"a{char}", f"{char}b"):
                self.base(base_of(OLD, name.encode()), "name has a control character")

    def test_name_of_a_folder(self) -> None:
        for name in (b".", b".."):
            self.base(base_of(OLD, name), "name is that of a folder")

    def test_name_encoding(self) -> None:
        for name in (b"\xff", b"a\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe3\x81"):
            self.base(base_of(OLD, name), "name is not utf-8")

    def test_base_varints(self) -> None:
        fields = base_of(OLD)
        self.base(fields[:16] + b"\x83\0" + fields[18:], "varint is longer than needed")
        self.base(fields[:18] + b"\x84\0" + fields[19:], "varint is longer than needed")

    # Section 7.5, references

    def test_source(self) -> None:
        for source in (2, 3, 1 << 40):
            self.reference(reference(source), f"reference to base {source} of 1")
        file = one_span_file(same_span(b"abc", reference(1)), [])
        self.check(file, "index: span 0: reference to base 1 of 0")

    def test_conversion(self) -> None:
        for conversion in (7, 8, 128, 255):
            self.reference(reference(1, 0, conversion), f"unknown conversion {conversion}")

    def test_odd_length_converted(self) -> None:
        for conversion in (1, 2, 3, 4):
            self.reference(reference(1, 0, conversion), "5 bytes cannot come", b"abcde")
        for conversion in (5, 6):
            for size in (1, 2, 3, 5, 6):
                message = f"{size} bytes cannot come"
                self.reference(reference(1, 0, conversion), message, OLD[:size])

    def test_beyond_the_base(self) -> None:
        for start in (4997, 5000, 5001, 1 << 63, (1 << 64) - 1):
            self.reference(reference(1, start), "reference ends beyond base 1")
        for start in (4993, 4996):
            self.reference(reference(1, start, 2), "reference ends beyond base 1")
        for conversion in (5, 6):
            self.reference(reference(1, 4999, conversion), "reference ends beyond base 1")

    def test_reference_varints(self) -> None:
        self.reference(b"\x81\0\0\0", "varint is longer than needed")
        self.reference(b"\1\x80\0\0", "varint is longer than needed")

    def own(self, spans: Sequence[Span], message: str) -> None:
        number = len(spans) - 1
        self.check(file_of_spans(spans, [base_of(OLD)]), f"index: span {number}: {message}")

    def test_own_original_not_before(self) -> None:
        """Bytes of this file end at or before the first one of the span."""
        message = "reference ends beyond its span's start"
        first = plain_span(b"abcdefgh")
        self.own([same_span(b"abc", reference(0))], message)
        for start, conversion in ((6, 0), (8, 0), (9, 0), ((1 << 64) - 1, 0), (3, 1), (1, 2)):
            self.own([first, same_span(b"abcd", reference(0, start, conversion))], message)
        later = file_of_spans([same_span(b"abc", reference(0, 3)), plain_span(b"abc")])
        self.check(later, f"index: span 0: {message}")

    def test_own_original_chained(self) -> None:
        """Spans that refer to this file are not referred to, not even by one byte."""
        first, second = plain_span(b"abcd"), same_span(b"bcd", reference(0, 1))
        message = "reference to span 1, which has one to this file"
        for start, raw in ((4, b"bcd"), (6, b"d"), (4, b"b"), (3, b"db"), (0, b"abcdbcd")):
            self.own([first, second, same_span(raw, reference(0, start))], message)
        third = plain_span(b"xy")
        self.own([first, second, third, same_span(b"dx", reference(0, 6))], message)
        self.own([first, second, third, same_span(b"abcdbcdx", reference(0))], message)

    def test_damage(self) -> None:
        """An index damaged before its hash was made decodes, is Corrupt or has no base."""
        rng = random.Random(3)
        spans = [same_span(OLD[5:50], reference(1, 5)), same_span(OLD[5:9], reference(0))]
        fields = [span.fields() for span in spans]
        index = index_of(fields, [item(*[span.raw for span in spans])], 0, [base_of(OLD)])
        body = b"".join(span.pieces() for span in spans)
        given = [self.put("given", OLD)]
        for _ in range(1500):
            damaged = bytearray(index)
            for _ in range(rng.randrange(1, 3)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            with contextlib.suppress(Corrupt, NoBase):
                decode_file(seal(body, bytes(damaged), 49), given)


class CommandLine(FolderTest):
    """The option for bases, and the exit status without one."""

    def run_main(self, *arguments: object) -> tuple[int, str]:
        err = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            status = main([str(argument) for argument in arguments])
        return status, err.getvalue()

    def test_base(self) -> None:
        file = self.put("new.lmc", one_span_file(same_span(OLD[:9], reference(1)), [base_of(OLD)]))
        out, base = self.folder / "out", self.put("x", OLD)
        other = self.put("y", b"other")
        status, text = self.run_main(file, "--base", other, "--base", base, "-o", out)
        self.assertEqual((status, text, out.read_bytes()), (0, "", OLD[:9]))
        out.unlink()
        status, text = self.run_main(file, "--base", other, "-o", out)
        self.assertEqual((status, text.count("\n"), out.exists()), (1, 1, False))
        self.assertIn("base base with content hash", text)
        self.put("base", OLD)
        self.assertEqual(self.run_main(file), (0, ""))


if __name__ == "__main__":
    unittest.main()
