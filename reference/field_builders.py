"""Numbers and strings of bits as docs/format.md writes them, for the tests."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """Section 1."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def u24(value: int) -> bytes:
    return value.to_bytes(3, "little")


def u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def bit_string(fields: list[tuple[int, int]]) -> bytes:
    """(value, bits) fields, lowest bit first, padded with 0 to a whole byte."""
    total = at = 0
    for value, bits in fields:
        total |= value << at
        at += bits
    return total.to_bytes((at + 7) // 8, "little")
