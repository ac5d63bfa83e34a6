"""Tests of decode.py by docs/format.md, section 2: blocks of kind zstd."""

from __future__ import annotations

import contextlib
import random
import unittest

import decode
import zstandard
from builders import TEXT, RejectTest, varint

MAGIC = bytes.fromhex("28 b5 2f fd")
BASE = TEXT[700:] + TEXT[:700]


def frame_of(raw: bytes, base: bytes | None = None, level: int = 3) -> bytes:
    """A frame as the format wants it."""
    dictionary = None
    if base is not None:
        dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    window_log = max(10, (len(raw) - 1).bit_length())
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, window_log=window_log, write_checksum=False, write_dict_id=False
    )
    return zstandard.ZstdCompressor(
        dict_data=dictionary, compression_params=parameters
    ).compress(raw)


def block_of(raw_len: int, frame: bytes, flags: int = 0) -> bytes:
    return b"\5" + varint(raw_len) + bytes([flags]) + frame


def made_frame(size: int, *blocks: bytes) -> bytes:
    """A frame of a content size below 256 and these blocks."""
    return MAGIC + bytes([32, size]) + b"".join(blocks)


def frame_block(kind: int, size: int, content: bytes, last: bool = True) -> bytes:
    """RFC 8878, 3.1.1.2."""
    return (size << 3 | kind << 1 | last).to_bytes(3, "little") + content


class Accepts(unittest.TestCase):
    """What decodes."""

    def check(self, raw: bytes, frame: bytes) -> None:
        self.assertEqual(decode.decode_block(block_of(len(raw), frame)), raw)

    def test_text(self) -> None:
        for raw in (b"", b"x", TEXT[:200], TEXT, TEXT * 300, bytes(1 << 22)):
            for level in (1, 3, 19) if len(raw) < 100_000 else (3,):
                self.check(raw, frame_of(raw, level=level))

    def test_base(self) -> None:
        for base in (BASE, bytes(len(TEXT)), b"\x37\xa4\x30\xec" + BASE[4:]):
            block = block_of(len(TEXT), frame_of(TEXT, base), 1)
            self.assertEqual(decode.decode_block(block, None, base), TEXT)
        small = len(frame_of(TEXT, BASE))
        self.assertLess(small * 4, len(frame_of(TEXT)))

    def test_base_without_bytes(self) -> None:
        self.assertEqual(decode.decode_block(block_of(0, frame_of(b""), 1), None, b""), b"")

    def test_base_ignored(self) -> None:
        block = block_of(len(TEXT), frame_of(TEXT))
        for base in (b"", BASE):
            self.assertEqual(decode.decode_block(block, b"no recipe", base), TEXT)

    def test_blocks_of_a_frame(self) -> None:
        self.check(b"abc", made_frame(3, frame_block(0, 3, b"abc")))
        self.check(b"zzz", made_frame(3, frame_block(1, 3, b"z")))
        empty = frame_block(0, 0, b"", last=False)
        self.check(b"abzz", made_frame(4, empty, frame_block(0, 2, b"ab", False),
                                       empty, frame_block(1, 2, b"z")))
        self.check(b"", made_frame(0, frame_block(0, 0, b"")))

    def test_longer_content_sizes(self) -> None:
        content = frame_block(0, 3, b"abc")
        for flag, size in ((2, 4), (3, 8)):
            head = MAGIC + bytes([flag << 6 | 32]) + (3).to_bytes(size, "little")
            self.check(b"abc", head + content)


class Rejects(RejectTest):
    """Every rule of rejection."""

    def frame(self, frame: bytes, message: str, raw_len: int = 3) -> None:
        self.check(block_of(raw_len, frame), message)

    def test_flags(self) -> None:
        frame = frame_of(TEXT)
        for flags in (2, 3, 4, 128, 255):
            self.check(block_of(len(TEXT), frame, flags), "unknown zstd flags", None, BASE)

    def test_base(self) -> None:
        block = block_of(len(TEXT), frame_of(TEXT, BASE), 1)
        self.check(block, "needs a base and none is given")
        self.check(block, "base has", None, BASE[1:])
        self.check(block_of(0, frame_of(b""), 1), "needs a base and none is given")
        self.check(b"\5" + block[1:3] + b"\0" + block[4:], "zstd frame:", None, BASE)

    def test_raw_len(self) -> None:
        raw = bytes((1 << 22) + 1)
        self.frame(frame_of(raw), "larger than 4 mib", len(raw))

    def test_magic(self) -> None:
        skippable = bytes.fromhex("50 2a 4d 18 00 00 00 00")
        self.frame(skippable + frame_of(b"abc"), "magic number")
        self.frame(frame_of(b"abc") + skippable, "left over in the zstd frame")
        self.frame(b"\x27" + frame_of(b"abc")[1:], "magic number")

    def test_descriptor(self) -> None:
        content = frame_block(0, 3, b"abc")
        for descriptor, fields in (
            (0, b"\0"),  # a window and no size
            (64, b"\0\3\1"),  # a window
            (33, b"\0\3"),  # a dictionary id of 0
            (34, b"\1\0\3"),
            (35, b"\1\0\0\0\3"),
            (36, b"\3"),  # a checksum
            (40, b"\3"),  # the reserved bit
            (48, b"\3"),  # the unused bit
        ):
            frame = MAGIC + bytes([descriptor]) + fields + content
            self.frame(frame, "plain single segment")

    def test_content_size(self) -> None:
        for raw_len in (0, 2, 4, 300):
            self.frame(frame_of(b"abc"), "zstd frame has 3 bytes", raw_len)
        self.frame(made_frame(3, frame_block(0, 2, b"ab")), "zstd frame")
        self.frame(made_frame(1, frame_block(0, 1, b"a", False), frame_block(0, 1, b"b")),
                   "zstd frame", 1)
        self.frame(made_frame(3, frame_block(1, 3, b"a", False), frame_block(1, 1, b"b")),
                   "zstd frame")

    def test_blocks_of_a_frame(self) -> None:
        self.frame(made_frame(3, frame_block(3, 3, b"abc")), "reserved type")
        self.frame(made_frame(3, frame_block(1, 4, b"a")), "block of 4 bytes")
        self.frame(made_frame(3, frame_block(2, 4, b"abcd")), "block of 4 bytes")
        self.frame(made_frame(3, frame_block(0, 3, b"abc")) + b"\0", "left over")
        self.frame(made_frame(3, frame_block(0, 3, b"abc", last=False)), "ends before")
        self.frame(frame_of(b"abc") * 2, "left over")
        large = bytes((1 << 17) + 1)
        head = MAGIC + bytes([160]) + len(large).to_bytes(4, "little")
        self.frame(head + frame_block(0, len(large), large), "block of 131073", len(large))

    def test_truncation_at_every_length(self) -> None:
        block = block_of(len(TEXT), frame_of(TEXT))
        for size in range(len(block)):
            self.check(block[:size], "")


class Damage(unittest.TestCase):
    """Damaged blocks decode or are Corrupt, and raise nothing else."""

    def test_random_damage(self) -> None:
        rng = random.Random(21)
        for base in (None, BASE):
            block = block_of(len(TEXT), frame_of(TEXT, base), base is not None)
            for _ in range(2000):
                damaged = bytearray(block)
                for _ in range(rng.randrange(1, 4)):
                    damaged[rng.randrange(3, len(damaged))] = rng.randrange(256)
                with contextlib.suppress(decode.Corrupt):
                    decode.decode_block(bytes(damaged), None, base)


if __name__ == "__main__":
    unittest.main()
