"""Weights are brought up to date where they are, and a call that fails says what it leaves
behind."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import lmckpt
import ml_dtypes
import numpy
import pytest
import xxhash
from lmckpt import errors

Arrays = dict[str, Any]
FOOTER_LEN = 64


def weights(count: int, seed: int, dtype: Any = ml_dtypes.bfloat16) -> Any:
    """Values as those of a trained model."""
    values = numpy.random.default_rng(seed).standard_normal(count, numpy.float32)
    return (values * 0.02).astype(dtype)


def changed(array: Any, seed: int, share: float = 0.01) -> Any:
    """The same with a share of the values a bit larger."""
    is_changed = numpy.random.default_rng(seed).random(array.shape) < share
    return numpy.where(is_changed, array * array.dtype.type(1.01), array).astype(array.dtype)


def copied(arrays: Arrays) -> Arrays:
    return {name: array.copy() for name, array in arrays.items()}


def is_same(first: Arrays, second: Arrays) -> bool:
    return first.keys() == second.keys() and all(
        first[name].tobytes() == second[name].tobytes() for name in first
    )


def checksum(data: bytes) -> bytes:
    return xxhash.xxh3_128(data).intdigest().to_bytes(16, "little")


def with_wrong_item(data: bytes) -> bytes:
    """The same file with another checksum of its last tensor, which all other checksums allow."""
    body_len, index_len = (
        int.from_bytes(data[start : start + 8], "little")
        for start in (len(data) - FOOTER_LEN, len(data) - FOOTER_LEN + 8)
    )
    head = data[: len(data) - FOOTER_LEN - body_len - index_len]
    body = data[len(head) : len(head) + body_len]
    index = bytearray(data[len(head) + body_len : -FOOTER_LEN])
    index[-1] ^= 1
    footer = data[-FOOTER_LEN:]
    fields = footer[:16] + checksum(bytes(index)) + footer[32:40]
    return b"".join([head, body, index, fields, checksum(head + fields), footer[56:]])


MEMORY = """
import sys
import ml_dtypes, numpy, lmckpt

def high_water():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))

def extra(call):
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    before = high_water()
    call()
    return high_water() - before

random = numpy.random.default_rng(1)
make = lambda: (random.standard_normal(5_000_000, numpy.float32) * 0.02).astype(ml_dtypes.bfloat16)
old = {f"layers.{i}": make() for i in range(20)}
new = {name: array.copy() for name, array in old.items()}
for array in new.values():
    array[random.integers(0, len(array), len(array) // 100)] *= ml_dtypes.bfloat16(1.01)
data = lmckpt.delta(old, new, threads=2)
small = {"x": numpy.zeros(10)}
lmckpt.apply(small, lmckpt.delta(small, {"x": numpy.ones(10)}), threads=2)
safe = sys.argv[1] == "safe"
print(extra(lambda: lmckpt.apply(old, data, threads=2, safe=safe)))
assert all(old[name].tobytes() == new[name].tobytes() for name in new)
"""


def extra_memory(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, how], check=True, timeout=300, stdout=subprocess.PIPE
    )
    return int(done.stdout)


def test_apply_needs_little_memory_beside_the_weights() -> None:
    """200 MB of weights take less than 64 MiB more; only ``safe`` takes a second copy."""
    assert extra_memory("in place") < 64 << 20
    assert extra_memory("safe") > 150_000_000


def test_an_error_that_only_decoding_shows_leaves_weights_partly_new() -> None:
    """The exception says so, what came before the error is new, and ``safe`` changes nothing."""
    old = {"a": weights(3_000_000, 1), "b": weights(2_000_000, 2)}
    new = {name: changed(array, 3) for name, array in old.items()}
    data = with_wrong_item(lmckpt.delta(old, new))
    held = copied(old)
    with pytest.raises(errors.CorruptError, match="item 2 of the original is damaged"):
        lmckpt.apply(held, data, safe=True)
    assert is_same(held, old)
    with pytest.raises(errors.PartlyWrittenError, match="partly old and partly new: item 2"):
        lmckpt.apply(held, data, threads=1)
    assert held["a"].tobytes() == new["a"].tobytes()
    # They are no longer what the delta was made against.
    with pytest.raises(errors.LmcError, match="base"):
        lmckpt.apply(held, lmckpt.delta(old, new))


def test_damage_is_found_before_anything_is_written() -> None:
    """A byte that is wrong, wherever it is, or an end that is missing changes nothing."""
    old = {"a": weights(20_000, 1), "b": weights(300, 2, "f4"), "c": weights(70_000, 3, "f4")}
    new = {name: changed(array, 4, 0.5) for name, array in old.items()}
    data = lmckpt.delta(old, new)
    held = copied(old)
    for place in range(0, len(data), 997):
        wrong = bytearray(data)
        wrong[place] ^= 16
        for found in (bytes(wrong), data[:place]):
            with pytest.raises(errors.LmcError) as caught:
                lmckpt.apply(held, found)
            assert not isinstance(caught.value, errors.PartlyWrittenError)
            assert is_same(held, old), place
    assert is_same(lmckpt.apply(held, data), new)


def pairs() -> dict[str, tuple[Arrays, Arrays]]:
    """Weights that cannot all be decoded where they are: something needs what is overwritten."""
    a, b = weights(200_000, 1), weights(200_000, 2)
    wide = weights(200_000, 3, "f4")
    small = {f"s{i}": weights(50 + i, i, "f4") for i in range(40)}
    return {
        "swapped": ({"a": a, "b": b}, {"a": changed(b, 5), "b": changed(a, 6)}),
        "moved on": ({"a": a, "b": b}, {"b": changed(a, 5), "c": changed(b, 6)}),
        "doubled": ({"a": a, "b": b}, {"a": changed(a, 5), "b": changed(a, 5), "c": a}),
        "rounded": (
            {"a": a, "w": wide},
            {"a": wide.astype(ml_dtypes.bfloat16), "w": changed(wide, 5)},
        ),
        "shifted": ({"a": a}, {"a": numpy.concatenate([a[1000:], a[:1000]])}),
        "small ones, one gone": (
            small,
            {name: changed(array, 5, 0.5) for name, array in small.items() if name != "s7"},
        ),
        "small ones in another order": (
            small,
            {f"s{i}": small[f"s{39 - i}"][: 50 + min(i, 39 - i)] for i in range(40)},
        ),
        "another shape": ({"a": a, "b": b}, {"a": changed(a, 5).reshape(500, 400), "b": b}),
        "another type": ({"a": a, "b": b}, {"a": a.astype("f4"), "b": changed(b, 5)}),
        "nothing in common": ({"a": a}, {"x": wide, "a": b}),
        "empty and single": (
            {"a": numpy.zeros(0), "b": numpy.array(1.0), "c": a},
            {"a": numpy.zeros(0), "b": numpy.array(2.0), "c": changed(a, 5)},
        ),
        "nothing": ({}, {}),
        "all gone": ({"a": a}, {}),
    }


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", pairs())
def test_tensors_are_right_wherever_what_they_are_coded_against_is(kind: str, threads: int) -> None:
    """No tensor is decoded against bytes that were overwritten before."""
    old, new = pairs()[kind]
    for level in ("fast", "max"):
        data = lmckpt.delta(old, new, level=level)
        held, whole = copied(old), copied(old)
        found = lmckpt.apply(held, data, threads=threads)
        assert is_same(found, new)
        assert is_same(lmckpt.apply(whole, data, threads=threads, safe=True), new)
        for name, array in found.items():
            like = name in held and (held[name].shape, held[name].dtype) == (
                array.shape,
                array.dtype,
            )
            assert (array is held.get(name)) == like
        assert is_same(held, whole)


def test_arrays_without_plain_memory_are_written_too() -> None:
    """Every other value, backwards, in columns: they get their values, and nothing beside them."""
    memory = weights(90_000, 1, "f4").reshape(300, 300)
    old = {"a": memory[::2, :100], "b": memory[::-1, 150:200], "c": memory[:, 250:].T}
    new = {name: changed(array, 2) for name, array in old.items()}
    data = lmckpt.delta(old, new)
    before = memory.copy()
    found = lmckpt.apply(old, data)
    assert all(found[name] is old[name] for name in old) and is_same(found, new)
    beside = numpy.ones(memory.shape, bool)
    beside[::2, :100] = beside[:, 150:200] = beside[:, 250:] = False
    assert (memory == before)[beside].all()


@pytest.mark.parametrize("safe", [False, True])
def test_arrays_without_values_are_no_reason_to_refuse(safe: bool) -> None:
    """numpy gives empty arrays strides of 0, which says nothing of whether they can be written
    to."""
    old = {"w": weights(5000, 1), "none": numpy.zeros((0, 3), numpy.float32)}
    new = {"w": changed(old["w"], 2), "none": numpy.zeros((0, 3), numpy.float32)}
    lmckpt.apply(old, lmckpt.delta(old, new), safe=safe)
    assert is_same(old, new)
