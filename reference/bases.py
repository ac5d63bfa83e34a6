"""Section 7.5 of docs/format.md: the fields of bases and references in the index.

The orders of bases, which are among these fields, are in arrange.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from unicodedata import category

from arrange import OrdersOfBases
from convert import BF16_TO_F32, F16_TO_F32, NO_CONVERSION
from hashes import HASH_LEN
from reader import Corrupt, Reader, inside, require

MAX_BASES = 1 << 10
MAX_NAME_LEN = 255
THIS_FILE = 0


@dataclass(frozen=True)
class Base:
    """Section 7.5: a file that this one is coded against."""

    hash: bytes
    length: int
    name: str


@dataclass(frozen=True)
class Reference:
    """Section 7.5: where the base of a span is."""

    source: int
    start: int
    length: int
    conversion: int

    @property
    def end(self) -> int:
        """The first byte of the source that is not used."""
        return self.start + self.length


def read_bases(reader: Reader, orders: OrdersOfBases | None, is_arranged: bool) -> tuple[Base, ...]:
    """Section 7.2: the bases and their number. Orders, if there are any, go to `orders`."""
    count = reader.varint()
    require(count <= MAX_BASES, f"file has {count} bases")
    bases = []
    for number in range(1, count + 1):
        with inside(f"base {number}"):
            bases.append(read_base(reader))
            if orders:
                orders.read(reader, is_arranged)
    return tuple(bases)


def read_base(reader: Reader) -> Base:
    """Section 7.5: a base."""
    content, length, name_len = reader.take(HASH_LEN), reader.varint(), reader.varint()
    require(1 <= name_len <= MAX_NAME_LEN, f"name has {name_len} bytes")
    return Base(content, length, parse_name(reader.take(name_len)))


def parse_name(data: bytes) -> str:
    """Section 7.5: a name, which never leads to another folder."""
    try:
        name = data.decode()
    except UnicodeDecodeError:
        raise Corrupt("name is not utf-8") from None
    require("/" not in name, "name has a slash")
    require(all(category(char) != "Cc" for char in name), "name has a control character")
    require(name not in (".", ".."), "name is that of a folder")
    return name


def read_reference(reader: Reader, raw_len: int, bases: tuple[Base, ...] | None) -> Reference:
    """Section 7.5: the reference of a span."""
    if bases is None:
        raise Corrupt("span has a reference, but the file has no bases")
    source, start, conversion = reader.varint(), reader.varint(), reader.uint(1)
    require(source <= len(bases), f"reference to base {source} of {len(bases)}")
    require(conversion <= F16_TO_F32, f"unknown conversion {conversion}")
    length = bytes_to_convert(conversion, raw_len)
    reference = Reference(source, start, length, conversion)
    if source != THIS_FILE:
        source_len = bases[source - 1].length
        require(reference.end <= source_len, f"reference ends beyond base {source}")
    return reference


def bytes_to_convert(conversion: int, raw_len: int) -> int:
    """Section 7.5: how many bytes of the source are read for this many of the base."""
    if conversion == NO_CONVERSION:
        return raw_len
    is_to_f32 = conversion in (BF16_TO_F32, F16_TO_F32)
    number_len = 4 if is_to_f32 else 2
    require(raw_len % number_len == 0, f"{raw_len} bytes cannot come from a conversion")
    return raw_len // 2 if is_to_f32 else 2 * raw_len
