"""Tests of hashes.py by docs/format.md, sections 7.4 to 7.7: content hashes of plain files."""

from __future__ import annotations

import json
import random
import unittest
from pathlib import Path
from typing import Any

from decode_file import Shelf, read_file
from dtypes import DTYPE_BITS
from file_builders import digest, u64
from hashes import content_hashes_of

LARGE = 1 << 23
LEAF = 1 << 16


def tensor(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def head(header: Any) -> bytes:
    """A safetensors header with its length."""
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    return u64(len(data)) + data


def hash_of_items(*items: bytes) -> bytes:
    return digest(b"".join(map(digest, items)))


def hash_of_leaves(data: bytes) -> bytes:
    return hash_of_items(*[data[start : start + LEAF] for start in range(0, len(data), LEAF)])


class AnyFile(unittest.TestCase):
    """Files that are no safetensors have the hash of their leaves, and that of one item."""

    def check(self, data: bytes, of_one_item: bytes) -> None:
        self.assertEqual(content_hashes_of(data), (hash_of_leaves(data), of_one_item))

    def test_leaves(self) -> None:
        """Leaves have 2^16 bytes, the last one may have fewer, and no bytes have no leaf."""
        data = random.Random(3).randbytes(2 * LEAF + 1)
        first, second, third = map(digest, (data[:LEAF], data[LEAF : 2 * LEAF], data[2 * LEAF :]))
        short = digest(data[:LEAF - 1])
        expected = {
            0: digest(b""), LEAF - 1: digest(short), LEAF: digest(first),
            2 * LEAF: digest(first + second), 2 * LEAF + 1: digest(first + second + third),
        }
        for size, of_leaves in expected.items():
            self.assertEqual(content_hashes_of(data[:size])[0], of_leaves)

    def test_small(self) -> None:
        for data in (b"", b"abc", bytes(LARGE)):
            self.check(data, hash_of_items(data))

    def test_cut(self) -> None:
        """More than 2^23 bytes are cut into stretches of 2^23."""
        data = random.Random(1).randbytes(2 * LARGE + 5)
        for size in (LARGE + 1, 2 * LARGE, 2 * LARGE + 5):
            cuts = [data[start : min(start + LARGE, size)] for start in range(0, size, LARGE)]
            expected = hash_of_items(b"".join(map(digest, cuts)))
            self.check(data[:size], expected)

    def test_not_safetensors(self) -> None:
        """A header that breaks any rule makes a file like any other."""
        one = tensor("F32", [2], 0, 8)
        headers: list[Any] = [
            b"", b"[]", b"{", b" {}", b"{}x", b'{"a":1}', b"\xff{}",
            {"a": {**one, "dtype": "F3"}}, {"a": {**one, "dtype": 4}}, {"a": {**one, "shape": 2}},
            {"a": {**one, "shape": [3]}}, {"a": {**one, "shape": [-2]}},
            {"a": {**one, "shape": [2.0]}}, {"a": {**one, "shape": [True, 2]}},
            {"a": {**one, "data_offsets": [0, 8, 8]}}, {"a": {**one, "data_offsets": [8, 0]}},
            {"a": {**one, "data_offsets": [1, 9]}}, {"a": tensor("F32", [1], 0, 4)},
            {"a": one, "b": one}, {"a": one, "b": tensor("U8", [1], 8, 9)},
            {"a": one, "__metadata__": {"x": 1}}, {"a": one, "__metadata__": "x"},
            {"a": {"dtype": "F32", "shape": [2]}},
            b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},'
            b'"a":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}',
            b'{"\\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
        ]
        for header in headers:
            data = head(header) + b"abcdefgh"
            with self.subTest(header=header):
                self.check(data, hash_of_items(data))
        for data in (u64(0), u64(3) + b"{}", u64((1 << 64) - 1) + b"{}", u64(2)[:7]):
            self.check(data, hash_of_items(data))
        deep = head(b'{"a":' * 50000 + b"1" + b"}" * 50000)
        self.check(deep, hash_of_items(deep))

    def test_header_too_long(self) -> None:
        """A header of more than 100,000,000 bytes, without those of its length, is not a header."""
        limit = 100_000_000
        one = json.dumps({"a": tensor("U8", [1], 0, 1)}).encode()
        data = head(one.ljust(limit)) + b"x"
        cuts = [data[start : min(start + LARGE, limit + 8)] for start in range(0, limit + 8, LARGE)]
        items = [digest(b"".join(map(digest, cuts))), digest(b"x")]
        self.assertEqual(content_hashes_of(data), (digest(b"".join(items)),))
        data = head(one.ljust(limit + 1)) + b"x"
        cuts = [data[start : start + LARGE] for start in range(0, len(data), LARGE)]
        self.check(data, hash_of_items(b"".join(map(digest, cuts))))


class Safetensors(unittest.TestCase):
    """Files of safetensors have an item for the header, one for each tensor, and one hash."""

    def check(self, header: dict[str, Any], tensors: list[bytes]) -> None:
        start = head(header)
        data = start + b"".join(tensors)
        self.assertEqual(content_hashes_of(data), (hash_of_items(start, *tensors),))

    def test_no_tensors(self) -> None:
        self.check({}, [])
        self.check({"__metadata__": {"a": "b"}}, [])

    def test_order(self) -> None:
        """Tensors are sorted by start, end and the bytes of their names."""
        header = {
            "z": tensor("U8", [3], 0, 3), "\uffff": tensor("U8", [0], 3, 3),
            "\U00010000": tensor("U8", [2, 0], 3, 3), "a": tensor("BF16", [], 3, 5),
        }
        self.check(header, [b"abc", b"", b"", b"de"])

    def test_dtypes(self) -> None:
        bits = {
            "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64,
            "I64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8,
            "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F16": 16, "BF16": 16, "F32": 32,
            "F64": 64, "C64": 64,
        }
        self.assertEqual(bits, DTYPE_BITS)
        for dtype, size in bits.items():
            self.check({"a": tensor(dtype, [2, 4], 0, size)}, [bytes(size)])

    def cut(self, dtype: str, shape: list[int], size: int, step: int) -> None:
        """A tensor of more than 2^23 bytes that is cut every `step` bytes."""
        data = random.Random(2).randbytes(size)
        start = head({"a": tensor(dtype, shape, 0, size)})
        cuts = [data[at : at + step] for at in range(0, size, step)]
        items = [digest(start), digest(b"".join(map(digest, cuts)))]
        with self.subTest(dtype=dtype, shape=shape):
            self.assertEqual(content_hashes_of(start + data), (digest(b"".join(items)),))

    def test_rows(self) -> None:
        """Large tensors are cut at whole rows, if they have rows that fit."""
        whole = LARGE // 3000 * 3000
        self.cut("BF16", [6000, 1500], 6000 * 3000, whole)
        self.cut("U8", [2, 3000, 3000], 6000 * 3000, whole)
        self.cut("F4", [6000, 6000], 6000 * 3000, whole)
        self.cut("F4", [8000, 3001], 4000 * 3001, LARGE)
        self.cut("U8", [LARGE + 9], LARGE + 9, LARGE)
        self.cut("U8", [2, LARGE + 1], 2 * LARGE + 2, LARGE)
        self.cut("U8", [2, LARGE], 2 * LARGE, LARGE)
        self.cut("U8", [2, LARGE - 1], 2 * LARGE - 2, LARGE - 1)

    def test_golden_files(self) -> None:
        """Originals have the content hash that the Rust encoder wrote them with."""
        files = sorted((Path(__file__).parent.parent / "testdata").glob("v*.lmc"))
        self.assertGreater(len(files), 5)
        for file in files:
            original = read_file(file.read_bytes(), Shelf().beside(file))
            with self.subTest(file.name):
                self.assertIn(original.content_hashes[0], content_hashes_of(original.data))


if __name__ == "__main__":
    unittest.main()
