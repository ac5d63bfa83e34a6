"""Section 1 of docs/format.md: fields, and how what is wrong is rejected.

What goes in is a string of bytes; what comes out are the fields in it, in their order. What is
rejected raises `Corrupt`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

MAX_VARINT_BYTES = 10


class Corrupt(Exception):
    """The block is rejected; the message is one lower-case line."""


def require(condition: bool, message: str) -> None:
    """Reject the block unless the condition holds."""
    if not condition:
        raise Corrupt(message)


@contextmanager
def inside(place: str) -> Iterator[None]:
    """Name the place in the message of a rejection."""
    try:
        yield
    except Corrupt as error:
        raise Corrupt(f"{place}: {error}") from None


class Reader:
    """Section 1: fields read in order from a string of bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0

    def left(self) -> int:
        """Number of bytes not read yet."""
        return len(self.data) - self.pos

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        require(count <= self.left(), "ends before a field it needs")
        self.pos += count
        return self.data[self.pos - count : self.pos]

    def rest(self) -> bytes:
        """All bytes not read yet, which are still to be taken."""
        return self.data[self.pos :]

    def array(self, count: int) -> Bytes:
        """The next `count` bytes, as an array."""
        return np.frombuffer(self.take(count), dtype=np.uint8)

    def uint(self, size: int) -> int:
        """A little-endian unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def varint(self, max_bytes: int = MAX_VARINT_BYTES) -> int:
        """An unsigned LEB128 number of at most 64 bits, in its shortest form."""
        value = 0
        for i in range(max_bytes):
            byte = self.uint(1)
            value |= (byte & 127) << (7 * i)
            if byte < 128:
                require(byte > 0 or i == 0, "varint is longer than needed")
                require(value < 1 << 64, "varint does not fit 64 bits")
                return value
        raise Corrupt(f"varint is longer than {max_bytes} bytes")

    def finish(self, what: str) -> None:
        """Reject bytes left over after the last field."""
        require(self.left() == 0, f"bytes left over in the {what}")
