"""Section 7.5 of docs/format.md: conversions of a base's bytes, defined on bits.

What goes in are the bytes of f32 numbers, and what comes out are half as many. The last two
conversions go the other way.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

NO_CONVERSION, BF16_NEAREST, BF16_CUT, F16_NEAREST, F16_CUT, BF16_TO_F32, F16_TO_F32 = range(7)
INFINITY = 0x7F800000
F16_INFINITY = 0x7C00
F16_LARGEST = 0x7BFF
F16_NAN = 0x7E00


def convert(conversion: int, data: bytes) -> bytes:
    """The bytes that a conversion makes; with none, those that it is given."""
    if conversion == NO_CONVERSION:
        return data
    if conversion in (BF16_TO_F32, F16_TO_F32):
        halves = np.frombuffer(data, dtype="<u2").astype(np.int64)
        wide = halves << 16 if conversion == BF16_TO_F32 else from_f16(halves)
        return wide.astype("<u4").tobytes()
    bits = np.frombuffer(data, dtype="<u4").astype(np.int64)
    if conversion in (BF16_NEAREST, BF16_CUT):
        made = to_bf16(bits, nearest=conversion == BF16_NEAREST)
    else:
        made = to_f16(bits, nearest=conversion == F16_NEAREST)
    return made.astype("<u2").tobytes()


def to_bf16(bits: NDArray[np.int64], nearest: bool) -> NDArray[np.int64]:
    """Conversions 1 and 2."""
    cut = bits >> 16
    if not nearest:
        return cut
    is_nan = bits & 0x7FFFFFFF > INFINITY
    return np.where(is_nan, cut | 0x40, (bits + 0x7FFF + (cut & 1) >> 16) & 0xFFFF)


@cache
def f16_values() -> NDArray[np.float64]:
    """The values of the f16 magnitudes from 0 up to infinity, which counts as 2^16."""
    bits = np.arange(F16_INFINITY + 1)
    exponent, mantissa = bits >> 10, bits & 1023
    normal = (1024 + mantissa) * 2.0 ** (exponent - 25)
    return np.where(exponent == 0, mantissa * 2.0**-24, normal)


def to_f16(bits: NDArray[np.int64], nearest: bool) -> NDArray[np.int64]:
    """Conversions 3 and 4. Every f32 and every value half way between two f16 is an f64."""
    magnitudes = bits & 0x7FFFFFFF
    numbers = np.minimum(magnitudes, INFINITY).astype("<u4").view("<f4").astype(np.float64)
    values = f16_values()
    below = np.searchsorted(values, numbers, side="right") - 1
    if nearest:
        above = np.minimum(below + 1, F16_INFINITY)
        half_way = (values[below] + values[above]) / 2
        is_odd = below % 2 == 1
        up = (numbers > half_way) | ((numbers == half_way) & is_odd)
        made = np.where(up, above, below)
    else:
        made = np.minimum(below, F16_LARGEST)
        made[magnitudes == INFINITY] = F16_INFINITY
    made[magnitudes > INFINITY] = F16_NAN
    return bits >> 16 & 0x8000 | made


def from_f16(halves: NDArray[np.int64]) -> NDArray[np.int64]:
    """Conversion 6."""
    magnitudes = halves & 0x7FFF
    small = (magnitudes * 2.0**-24).astype("<f4").view("<u4").astype(np.int64)
    shifted = magnitudes << 13
    made = np.where(magnitudes >= 0x400, shifted + 0x38000000, small)
    made = np.where(magnitudes >= F16_INFINITY, shifted + 0x70000000, made)
    return (halves & 0x8000) << 16 | made
