"""Sections 7.1, 7.6 and 7.7 of docs/format.md: hashes, and the content hashes of a plain file.

A base may lie on the disk as it is. Safetensors then have the content hash of the items and spans
into which an encoder would cut them. Any other file has two: that of its leaves, and that of the
one item that it was before there were archives of kind 2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import Any

import xxhash

from dtypes import DTYPE_BITS

HASH_LEN = 16
MAX_HEADER_LEN = 8 + 100_000_000
MAX_CUT = 1 << 23
LEAF_LEN = 1 << 16


class NotSafetensors(Exception):
    """The file does not follow the rules of safetensors."""


def hash_of(data: bytes) -> bytes:
    """Section 7.1: a hash, as it is written."""
    return xxhash.xxh3_128_intdigest(data).to_bytes(HASH_LEN, "little")


def content_hash(item_hashes: list[bytes]) -> bytes:
    """Section 7.4: the content hash with kinds 0 and 1, of the hashes of all items."""
    return hash_of(b"".join(item_hashes))


def content_hash_of_leaves(original: bytes) -> bytes:
    """Section 7.6: the content hash with kind 2, of the hashes of all leaves."""
    leaves = [original[start : start + LEAF_LEN] for start in range(0, len(original), LEAF_LEN)]
    return hash_of(b"".join(map(hash_of, leaves)))


def content_hashes_of(original: bytes) -> tuple[bytes, ...]:
    """Section 7.5: the content hashes of a plain file, first the one that a writer would use."""
    try:
        items = safetensors_items(original)
    except NotSafetensors:
        whole = item_hash(original, FileItem(0, len(original)))
        return content_hash_of_leaves(original), content_hash([whole])
    return (content_hash([item_hash(original, item) for item in items]),)


@dataclass(frozen=True)
class FileItem:
    """An item of a plain file. Its rows have 0 bytes if they do not count."""

    start: int
    end: int
    row_len: int = 0


def item_hash(original: bytes, item: FileItem) -> bytes:
    """Sections 7.4 and 7.7: the hash of an item, which is cut if it is large."""
    data = original[item.start : item.end]
    if len(data) <= MAX_CUT:
        return hash_of(data)
    rows = MAX_CUT // item.row_len if item.row_len else 0
    size = rows * item.row_len or MAX_CUT
    spans = [data[start : start + size] for start in range(0, len(data), size)]
    return hash_of(b"".join(map(hash_of, spans)))


def follows(rule: bool) -> None:
    """Leave unless a rule of safetensors holds."""
    if not rule:
        raise NotSafetensors


def safetensors_items(original: bytes) -> list[FileItem]:
    """Section 7.4, kind 1: the header, then the tensors by start, end and name."""
    follows(len(original) >= 8)
    data_start = 8 + int.from_bytes(original[:8], "little")
    follows(data_start <= min(MAX_HEADER_LEN, len(original)))
    header = parse_header(original[8:data_start])
    items = [FileItem(0, data_start)]
    tensors = []
    for name, fields in header.items():
        if name == b"__metadata__":
            follows(is_metadata(fields))
        else:
            tensors.append((*tensor_range(fields), name, tensor_row_len(fields)))
    end = 0
    for start, stop, _, row_len in sorted(tensors, key=lambda tensor: tensor[:3]):
        follows(start == end)
        items.append(FileItem(data_start + start, data_start + stop, row_len))
        end = stop
    follows(data_start + end == len(original))
    return items


def parse_header(data: bytes) -> dict[bytes, Any]:
    """The object of a header, by the bytes of its names, of which none comes twice."""
    follows(data.startswith(b"{"))
    try:
        header = json.loads(data.decode(), object_pairs_hook=unique)
        return {name.encode(): fields for name, fields in header.items()}
    except (ValueError, RecursionError):
        raise NotSafetensors from None


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without names that come twice."""
    made = dict(pairs)
    follows(len(made) == len(pairs))
    return made


def is_metadata(fields: Any) -> bool:
    """Whether these are strings by names."""
    return isinstance(fields, dict) and all(isinstance(text, str) for text in fields.values())


def is_counts(numbers: Any) -> bool:
    """Whether this is a list of numbers that can be lengths."""
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 1 << 64 for n in numbers)


def tensor_range(fields: Any) -> tuple[int, int]:
    """Where a tensor starts and ends in the data, which must be right for its shape."""
    follows(isinstance(fields, dict) and {"dtype", "shape", "data_offsets"} <= fields.keys())
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    follows(isinstance(dtype, str) and dtype in DTYPE_BITS)
    follows(is_counts(shape) and is_counts(offsets) and len(offsets) == 2)
    start, end = offsets
    follows(prod(shape) * DTYPE_BITS[dtype] == 8 * (end - start))
    return start, end


def tensor_row_len(fields: Any) -> int:
    """Section 7.7: the bytes of a row of a tensor; 0 if its rows do not count."""
    shape = fields["shape"]
    bits = shape[-1] * DTYPE_BITS[fields["dtype"]] if len(shape) > 1 else 0
    return bits // 8 if bits % 8 == 0 else 0
