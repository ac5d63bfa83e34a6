"""Tests of the command line of decode.py."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import decode
from builders import Sample, samples, u32


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

    def case(self, sample: Sample, expect_ok: int) -> bytes:
        shared, base = sample.shared or b"", sample.base
        out = u32(len(shared)) + shared
        out += b"\0" if base is None else b"\1" + u32(len(base)) + base
        out += u32(len(sample.block)) + sample.block + bytes([expect_ok])
        return out + u32(len(sample.raw)) + sample.raw

    def batch(self, cases: list[tuple[Sample, int]], cut: int = 0) -> tuple[int, str]:
        data = b"".join(self.case(*case) for case in cases)
        path = self.folder / "cases"
        path.write_bytes(data[: len(data) - cut])
        return self.run_main("--batch", path)

    def test_single(self) -> None:
        for name, sample in samples().items():
            arguments: list[object] = [self.folder / "block"]
            (self.folder / "block").write_bytes(sample.block)
            for option, data in (("--shared", sample.shared), ("--base", sample.base)):
                if data is not None:
                    (self.folder / option).write_bytes(data)
                    arguments += [option, self.folder / option]
            out = self.folder / "out"
            status, _ = self.run_main(*arguments, "-o", out)
            with self.subTest(name):
                self.assertEqual((status, out.read_bytes()), (0, sample.raw))

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
        alone = ("--batch", "file")
        for arguments in ((), ("block",), (*alone, "block"), (*alone, "--base", "base")):
            with self.assertRaises(SystemExit):
                self.run_main(*arguments)

    def test_batch_agrees(self) -> None:
        cases = [(sample, 1) for sample in samples().values()]
        status, text = self.batch(cases + [(Sample(b"\7", b""), 0)])
        self.assertEqual((status, text), (0, f"{len(cases) + 1} cases checked, 0 mismatches\n"))

    def test_batch_mismatches(self) -> None:
        status, text = self.batch([
            (Sample(b"\0\1x", b"x"), 1),
            (Sample(b"\0\1x", b""), 0),
            (Sample(b"\0\1x", b"y"), 1),
            (Sample(b"\0\1", b"x"), 1),
            (Sample(b"\4\0", b""), 1),
            (Sample(b"\4\0", b"", base=b""), 1),
        ])
        self.assertEqual(status, 1)
        self.assertEqual(text.splitlines(), [
            "case 1: accepted, should be rejected",
            "case 2: gives other bytes (1, expected 1)",
            "case 3: rejected: ends before a field it needs",
            "case 4: rejected: the block needs a base and none is given",
            "6 cases checked, 4 mismatches",
        ])

    def test_batch_cut_short(self) -> None:
        for cut in (1, 5, 9, 13, 14):
            status, text = self.batch([(Sample(b"\0\1x", b"x"), 1)], cut)
            self.assertEqual((status, "ends inside a case" in text), (1, True))


if __name__ == "__main__":
    unittest.main()
