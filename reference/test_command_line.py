"""Tests of the command line of decode.py."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import decode
from builders import (
    samples,
    u32,
)


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
