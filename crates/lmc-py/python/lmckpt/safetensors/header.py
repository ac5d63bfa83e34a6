"""The header of a safetensors file, as text and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from .._lmckpt import HEADER_JSON_LEN_MAX
from ..errors import InvalidError
from .buffers import view
from .dtypes import BITS

# A tensor of a file: name, type, shape, and where its bytes start and end.
Described = tuple[str, str, list[int], int, int]


class Entry(NamedTuple):
    """A tensor that is to be written."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int


@dataclass
class FileInMemory:
    """A safetensors file whose tensors stay where they are in memory."""

    header: bytes
    # In the order of the file.
    entries: list[Entry]
    # The memory of each, by name: its own where that is plain, otherwise that of a copy.
    held: Mapping[str, Any]

    def parts(self) -> list[Any]:
        """The bytes of the file: those of the header, and those of each tensor."""
        return [self.header, *(view(self.held[entry.name]) for entry in self.entries)]

    def starts(self) -> dict[str, int]:
        """Where the bytes of each tensor start."""
        ends = accumulate((entry.size for entry in self.entries), initial=len(self.header))
        return {entry.name: start for entry, start in zip(self.entries, ends, strict=False)}


def in_file_order(entries: Iterable[Entry]) -> list[Entry]:
    """The order in which tensors are written, which is that of safetensors itself."""
    # Larger elements first, so that all are aligned.
    return sorted(entries, key=lambda entry: (-BITS[entry.dtype], entry.name))


def build(entries: Iterable[Entry], metadata: Mapping[str, str] | None) -> bytes:
    """The header of a file with its tensors in this order."""
    header: dict[str, object] = {}
    if metadata is not None:
        if not isinstance(metadata, Mapping):
            raise InvalidError(f"metadata must be a dict, not a {type(metadata).__name__}")
        for key, value in metadata.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise InvalidError(f"metadata must be text, and {key!r}: {value!r} is not")
        header["__metadata__"] = dict(metadata)
    at = 0
    for name, dtype, shape, size in entries:
        if not isinstance(name, str):
            raise InvalidError(f"names of tensors must be text, and {name!r} is not")
        if name == "__metadata__" or name in header:
            raise InvalidError(f"a tensor cannot be named {name!r}, or appears twice")
        offsets = [at, at + size]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        at += size
    try:
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidError(f"a name or metadata is not valid UTF-8: {error}") from None
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_JSON_LEN_MAX:
        raise InvalidError(
            f"names, shapes and metadata take {len(text)} bytes, and a safetensors file allows "
            f"{HEADER_JSON_LEN_MAX}; save the tensors in several files"
        )
    return len(text).to_bytes(8, "little") + text


def metadata_of(header: bytes) -> dict[str, str] | None:
    """The metadata in a header, which starts with its own length."""
    if b'"__metadata__"' not in header and b"\\" not in header:
        return None
    found = json.loads(header[8:], object_pairs_hook=_metadata_alone).get("__metadata__")
    return None if found is None else {str(key): str(value) for key, value in found.items()}


def _metadata_alone(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Keeps nothing of a header but its metadata, as it may have millions of tensors."""
    if all(isinstance(value, str) for _, value in pairs):
        return dict(pairs)
    return {key: value for key, value in pairs if key == "__metadata__"}
