"""Bad input: every case is a clear error, and costs neither the process nor its memory."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmckpt
import numpy
import pytest
import safetensors.torch
import torch
from lmckpt import Store, errors, safe_open
from lmckpt import numpy as lmc_numpy
from lmckpt import torch as lmc_torch
from lmckpt.store.state import FORMAT

OURS = (errors.LmcError, TypeError)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.init(tmp_path / "store")


def weights(count: int = 40_000, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed)).bfloat16()


def readers(path: Path) -> list[Callable[[], Any]]:
    """Every way to read a .lmc file."""

    def one_by_one(framework: str) -> None:
        with safe_open(path, framework) as file:
            for name in file:
                file.get_tensor(name)
                file.get_slice(name)[:1]

    return [
        lambda: lmckpt.decompress(path.read_bytes()),
        lambda: lmc_torch.load(path.read_bytes()),
        lambda: lmc_numpy.load(path.read_bytes()),
        lambda: lmc_torch.load_file(path),
        lambda: lmc_numpy.load_file(path),
        lambda: one_by_one("pt"),
        lambda: lmckpt.decompress_file(path, path.with_name("out"), overwrite=True),
    ]


def test_truncated(tmp_path) -> None:
    whole = lmc_torch.save({"a": weights(5000), "b": torch.ones(3)}, {"k": "v"})
    path = tmp_path / "x.lmc"
    for end in {*range(80), *range(80, len(whole), 997), *range(len(whole) - 60, len(whole))}:
        path.write_bytes(whole[:end])
        for read in readers(path):
            with pytest.raises(errors.CorruptError):
                read()
    path.write_bytes(whole + b"\0")
    for read in readers(path):
        with pytest.raises(errors.CorruptError):
            read()


def test_flipped_bits(tmp_path) -> None:
    whole = lmc_torch.save({"a": weights(3000), "b": torch.arange(50)})
    rng, path = random.Random(0), tmp_path / "x.lmc"
    for _ in range(150):
        bad = bytearray(whole)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        path.write_bytes(bad)
        for read in readers(path)[:3]:
            with pytest.raises(errors.LmcError):
                read()


def test_bases(tmp_path) -> None:
    """Another base, a missing one, one that was changed, itself, a folder, a pipe."""
    old, new = {"a": weights()}, {"a": weights() + 0.01}
    path, base = tmp_path / "new.lmc", tmp_path / "old.lmc"
    lmc_torch.save_file(old, base)
    lmc_torch.save_file(new, path, base=base)
    good = base.read_bytes()
    os.mkfifo(tmp_path / "pipe")
    for content in (None, b"", b"other", good[:-1], lmc_torch.save({"a": weights(seed=1)})):
        base.unlink(missing_ok=True)
        if content is not None:
            base.write_bytes(content)
        with pytest.raises(errors.LmcError, match=r"old.*is needed"):
            lmc_torch.load_file(path)
        with pytest.raises(errors.LmcError, match=r"old.*is needed"):
            lmckpt.decompress_file(path, tmp_path / "out")
    for wrong in (path, tmp_path, tmp_path / "pipe", tmp_path / "nowhere", b"", old["a"], 3, None):
        with pytest.raises(OURS):
            lmckpt.decompress(path.read_bytes(), bases=[wrong])
    for wrong in ("text", path, 3, b"bytes"):
        with pytest.raises(OURS):
            lmckpt.decompress(path.read_bytes(), bases=wrong)
    assert not (tmp_path / "out").exists()
    base.write_bytes(good)
    assert torch.equal(lmc_torch.load_file(path)["a"], new["a"])


def test_replaced_while_open(tmp_path) -> None:
    """An open file stays what it was when it is replaced; one that is written over is damaged."""
    path, data = tmp_path / "x.lmc", weights()
    lmc_torch.save_file({"a": data}, path)
    with safe_open(path, "pt") as file:
        lmc_torch.save_file({"a": data + 1, "b": data}, path)
        assert torch.equal(file.get_tensor("a"), data)
        path.unlink()
        assert torch.equal(file.get_tensor("a"), data)
    lmc_torch.save_file({"a": data}, path)
    with safe_open(path, "pt") as file:
        path.write_bytes(bytes(path.stat().st_size))
        with pytest.raises(errors.CorruptError):
            file.get_tensor("a")
        path.write_bytes(b"")
        with pytest.raises(errors.CorruptError):
            file.get_tensor("a")


def entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def with_types(types: str, dtype: str, shape: list[int], end: int) -> tuple[Any, int]:
    return {"__metadata__": {"lmckpt.types": types}, "a": entry(dtype, shape, 0, end)}, end


# Headers, and how many bytes follow them.
HEADERS: dict[str, tuple[Any, int]] = {
    "overlap": ({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, 12),
    "same place": ({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 0, 8)}, 8),
    "hole": ({"a": entry("F32", [2], 8, 16)}, 16),
    "past the end": ({"a": entry("F32", [2], 0, 8)}, 4),
    "more at the end": ({"a": entry("F32", [2], 0, 8)}, 16),
    "overflow": ({"a": entry("F32", [2**62, 4], 0, 8)}, 8),
    "overflow times 0": ({"a": entry("F32", [2**62, 2**62, 0], 0, 0)}, 0),
    "too large a side": ({"a": entry("F32", [2**63, 0], 0, 0)}, 0),
    "negative shape": ({"a": entry("F32", [-2], 0, 8)}, 8),
    "negative place": ({"a": entry("F32", [2], -8, 0)}, 8),
    "backwards": ({"a": entry("F32", [2], 8, 0)}, 8),
    "huge place": ({"a": entry("F32", [2], 0, 10**30)}, 8),
    "other size": ({"a": entry("F32", [3], 0, 8)}, 8),
    "unknown type": ({"a": entry("F99", [2], 0, 8)}, 8),
    "metadata of numbers": ({"__metadata__": {"k": 3}, "a": entry("F32", [2], 0, 8)}, 8),
    "metadata as a list": ({"__metadata__": [1], "a": entry("F32", [2], 0, 8)}, 8),
    "twice": (
        b'{"a":%b,"a":%b}'
        % tuple(json.dumps(entry("U8", [1], i, i + 1)).encode() for i in range(2)),
        2,
    ),
    "surrogate": (b'{"\\ud800":%b}' % json.dumps(entry("U8", [1], 0, 1)).encode(), 1),
    "no UTF-8": (b'{"\xff":%b}' % json.dumps(entry("U8", [1], 0, 1)).encode(), 1),
    "deep": (b"[" * 10_000, 0),
    "a list": (b"[1]", 0),
    "no JSON": (b"{", 0),
    "F4 of odd length": ({"a": entry("F4", [2, 3], 0, 3)}, 3),
    "F6": ({"a": entry("F6_E2M3", [4], 0, 3)}, 3),
}
# The same of what safetensors itself does not look at.
TYPES: dict[str, tuple[Any, int]] = {
    "garbage": with_types("garbage", "F32", [2], 8),
    "a list": with_types("[1]", "F32", [2], 8),
    "deep": with_types("[" * 100_000, "F32", [2], 8),
    "digits": with_types("1" * 5000, "F32", [2], 8),
    "other words": with_types('{"a":"complex128"}', "F32", [2], 8),
    "wider words": with_types('{"a":"bits8"}', "F64", [1], 8),
    "odd words": with_types('{"a":"complex128"}', "F64", [3], 24),
    "no words": with_types('{"a":"complex128"}', "F64", [], 8),
    "unknown": with_types('{"a":"float99"}', "F32", [2], 8),
    "no type": with_types('{"a":"load"}', "F32", [2], 8),
}


def plain_file(header: Any, length: int) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(length)


@pytest.mark.parametrize("name", HEADERS)
def test_hostile_headers(name: str, tmp_path) -> None:
    """They go there and back byte for byte, but are no tensors."""
    data = plain_file(*HEADERS[name])
    path = tmp_path / "x.lmc"
    path.write_bytes(lmckpt.compress(data))
    assert lmckpt.decompress(path.read_bytes()) == data
    for read in readers(path)[1:6]:
        with pytest.raises(errors.LmcError):
            read()
    path.write_bytes(data)
    for load in (lmc_torch.load_file, lmc_numpy.load_file):
        if name != "too large a side" or load is lmc_numpy.load_file:
            with pytest.raises(errors.LmcError):
                load(path)


@pytest.mark.parametrize("name", TYPES)
def test_hostile_types(name: str, tmp_path) -> None:
    path = tmp_path / "x.lmc"
    path.write_bytes(lmckpt.compress(plain_file(*TYPES[name])))
    for read in (readers(path)[1], readers(path)[3], readers(path)[5]):
        with pytest.raises(errors.LmcError):
            read()


def test_odd_but_right_headers(tmp_path) -> None:
    """What safetensors takes is taken."""
    path = tmp_path / "x.lmc"
    name = "x" * 5000 + "\0\u00e9/.."
    header = {name: entry("BOOL", [2], 0, 2), "": entry("F32", [0, 2**40], 2, 2)}
    path.write_bytes(lmckpt.compress(plain_file(header, 2)))
    for found in (lmc_torch.load_file(path), lmc_numpy.load_file(path)):
        assert set(found) == {name, ""} and found[""].shape == (0, 2**40)
    deep = {"a": entry("U8", [1] * 70, 0, 1)}
    path.write_bytes(lmckpt.compress(plain_file(deep, 1)))
    assert lmc_torch.load_file(path)["a"].ndim == 70
    with pytest.raises(errors.LimitError):
        lmc_numpy.load_file(path)


INDICES: list[Any] = [
    (), None, True, numpy.int64(3), torch.tensor(2), [0, 2], [True] * 10, torch.tensor([0, 2]),
    numpy.array([1, 2]), slice(None, None, -1), slice(None, None, 0), slice(5, 2), slice(0, 100),
    slice(-100, 3), slice(100, 200), 100, -11, -10, 9, slice(2**70), 1.5, "a", slice("a", None),
    slice(1.0, 2.0), (1, 2, 3, 4), (Ellipsis, 0), (0, Ellipsis, 0), (Ellipsis, Ellipsis),
    (slice(1, 3), None), (None, 0), (0, True), (slice(None), [0, 1]), ([0, 1], slice(None)),
    (slice(2, 4), slice(None, None, 2)), (slice(2, 4), 100), (slice(2, 4), slice(9, 9)),
    (slice(0, 0), 2), {}, b"x", (slice(3, 3), slice(None), -5), ((1, 2),), torch.ones(10) > 0,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_indices(tmp_path) -> None:
    """Every index gives what safetensors gives: the same values, or the same error."""
    tensors = {"x": torch.arange(240.0).reshape(10, 6, 4), "v": torch.arange(10)}
    tensors |= {"empty": torch.empty(0, 3)}
    lmc_torch.save_file(tensors, tmp_path / "x.lmc")
    safetensors.torch.save_file(tensors, tmp_path / "x.safetensors")

    def outcome(file: Any, name: str, index: Any) -> Any:
        try:
            return file.get_slice(name)[index]
        except Exception as error:  # noqa: BLE001, it is compared
            return type(error)

    ours, theirs = safe_open(tmp_path / "x.lmc", "pt"), tmp_path / "x.safetensors"
    with ours, safetensors.safe_open(theirs, "pt") as file:
        for name in tensors:
            for index in INDICES:
                found, wanted = outcome(ours, name, index), outcome(file, name, index)
                if isinstance(wanted, torch.Tensor):
                    assert torch.equal(found, wanted) and found.shape == wanted.shape, (name, index)
                else:
                    assert found is wanted, (name, index)


def test_buffers() -> None:
    packed = lmckpt.compress(b"12345678")
    for into in (
        bytes(8),
        bytearray(7),
        numpy.zeros((4, 4), "u1")[:, ::2],
        numpy.broadcast_to(numpy.zeros(1, "u1"), (8,)),
        torch.zeros(4, 4, dtype=torch.uint8)[:, ::2],
        torch.empty(8, dtype=torch.uint8, device="meta"),
        torch.ones(2).to_sparse(),
        numpy.array([None]),
        numpy.ma.array([1.0], mask=[1]),
        memoryview(bytearray(16))[::2],
        "text",
        3,
        [1],
    ):
        with pytest.raises(OURS):
            lmckpt.decompress(packed, into=into)
        with pytest.raises(OURS):
            lmckpt.decompress(into)


def test_into(store: Store) -> None:
    """Nothing is written if one tensor does not fit, whichever it is."""
    store.save({"a": torch.ones(3), "z": {"t": torch.ones(2, 2), "n": numpy.ones(2), "k": 1}})
    frozen = numpy.zeros(2)
    frozen.flags.writeable = False
    for name, wrong in {
        "t": [
            torch.zeros(4),
            torch.zeros(2, 2).half(),
            torch.zeros(1).expand(2, 2),
            torch.empty(2, 2, device="meta"),
            torch.zeros(2, 2).to_sparse(),
            numpy.zeros((2, 2)),
            [1],
            {},
        ],
        "n": [numpy.zeros(3), numpy.zeros(2, "f4"), frozen, torch.zeros(2), 3],
    }.items():
        for value in wrong:
            inner = {"t": torch.zeros(2, 2), "n": numpy.zeros(2), "k": 0, name: value}
            into = {"a": torch.zeros(3), "z": inner}
            with pytest.raises(errors.InvalidError, match=rf"z\.{name}"):
                store.load(into=into)
            assert not into["a"].any()
    strided = {
        "a": torch.zeros(6)[::2],
        "z": {"t": torch.zeros(2, 2).t(), "n": numpy.zeros(4)[::2]},
    }
    strided["z"]["k"] = None
    store.load(into=strided)
    assert strided["a"].all() and strided["z"]["t"].all() and strided["z"]["n"].all()


def test_apply() -> None:
    """A delta on other weights, or on ones that cannot be written, changes nothing."""
    old = {"a": weights(), "b": torch.ones(3)}
    new = {"a": weights() + 0.01, "b": torch.zeros(3)}
    data = lmckpt.delta(old, new)
    for wrong in (
        {"a": old["a"]},
        {**old, "c": torch.ones(1)},
        {"a": old["a"].float(), "b": old["b"]},
        {"a": old["a"].reshape(2, -1), "b": old["b"]},
        {"a": old["a"] * 2, "b": old["b"]},
        {"b": old["a"], "a": old["b"]},
    ):
        before = {name: tensor.clone() for name, tensor in wrong.items()}
        with pytest.raises(errors.LmcError, match="base"):
            lmckpt.apply(wrong, data)
        assert all(torch.equal(wrong[name], before[name]) for name in wrong)
    held = {"a": weights(), "b": torch.ones(1).expand(3)}
    with pytest.raises(errors.InvalidError, match="b cannot be written"):
        lmckpt.apply(held, data)
    assert torch.equal(held["a"], old["a"])
    frozen = numpy.zeros(3)
    frozen.flags.writeable = False
    arrays = {"a": numpy.zeros(3), "b": frozen}
    data = lmckpt.delta(arrays, {"a": numpy.ones(3), "b": numpy.ones(3)})
    with pytest.raises(errors.InvalidError, match="b cannot be written"):
        lmckpt.apply(arrays, data)
    assert not arrays["a"].any()
    # Tied weights stay tied, or are refused if they no longer are the same.
    tied = torch.ones(3)
    same, other = torch.zeros(3), torch.full((3,), 2.0)
    data = lmckpt.delta({"a": tied, "b": tied}, {"a": same, "b": other})
    with pytest.raises(errors.InvalidError, match="share memory"):
        lmckpt.apply({"a": tied, "b": tied}, data)
    assert tied.all()
    data = lmckpt.delta({"a": tied, "b": tied}, {"a": same, "b": same})
    assert lmckpt.apply({"a": tied, "b": tied}, data)["b"] is tied and not tied.any()


def test_a_delta_is_applied_only_to_what_it_was_made_on() -> None:
    """Other weights are refused also where the delta could be decoded without them."""
    generator = torch.Generator().manual_seed(3)
    noise = torch.randint(0, 256, (2, 5000), generator=generator, dtype=torch.uint8)
    for old, new in (
        # Nothing of the old weights is of use: neither for one tensor nor for any.
        ({"a": noise[0]}, {"a": noise[1]}),
        ({"a": noise[0], "b": torch.ones(5000)}, {"a": noise[1], "b": torch.ones(5000) * 2}),
        ({"a": torch.ones(3)}, {"a": torch.zeros(3)}),
        ({"a": torch.ones(3)}, {"b": torch.zeros(3)}),
    ):
        data = lmckpt.delta(old, new)
        wrongs = [{**old, "more": torch.ones(1)}, {"x": torch.ones(1)}]
        wrongs += [{**old, name: tensor + 1} for name, tensor in old.items()]
        wrongs += [{**old, name: tensor.view(-1, 1)} for name, tensor in old.items()]
        for wrong in wrongs:
            before = {name: tensor.clone() for name, tensor in wrong.items()}
            with pytest.raises(errors.LmcError, match="base .* is needed"):
                lmckpt.apply(wrong, data)
            assert all(torch.equal(wrong[name], before[name]) for name in wrong)
        found = lmckpt.apply({name: tensor.clone() for name, tensor in old.items()}, data)
        assert found.keys() == new.keys()
        assert all(torch.equal(found[name], new[name]) for name in new)
    with pytest.raises(errors.InvalidError, match="names no base"):
        lmckpt.apply({"a": torch.ones(3)}, lmc_torch.save({"a": torch.zeros(3)}))


MEMORY = """
import os, resource, sys
import numpy, lmckpt, lmckpt.numpy
from lmckpt import Store, errors, safe_open
folder = sys.argv[1]
lmckpt.decompress(lmckpt.compress(bytes(10_000_000), threads=1), threads=1)
used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)
data = open(folder + "/x.lmc", "rb").read()
assert len(data) < 1_000_000

def refused(call):
    try:
        call()
    except errors.LimitError:
        return
    raise AssertionError("not refused")

refused(lambda: lmckpt.decompress(data, threads=1))
refused(lambda: lmckpt.decompress(data, max_size=1000))
refused(lambda: lmckpt.numpy.load(data, threads=1))
refused(lambda: lmckpt.numpy.load_file(folder + "/x.lmc", threads=1))
with safe_open(folder + "/x.lmc", "np") as file:
    refused(lambda: file.get_tensor("x"))
    assert not file.get_slice("x")[5:7].any()
store = Store(folder + "/store")
refused(lambda: store.load(threads=1))
refused(lambda: store.read_file("latest", "x.safetensors"))
lmckpt.decompress_file(folder + "/x.lmc", folder + "/out", threads=1)
assert os.path.getsize(folder + "/out") > 1 << 29
"""


def test_large_claims(tmp_path) -> None:
    """A file that claims much is refused where memory ends, and needs little to go to the disk."""
    header = {"x": entry("F32", [1 << 12, 1 << 15], 0, 1 << 29)}
    folder = tmp_path / "state"
    folder.mkdir()
    source = folder / "x.safetensors"
    source.write_bytes(plain_file(header, 0))
    os.truncate(source, source.stat().st_size + (1 << 29))
    lmckpt.compress_file(source, tmp_path / "x.lmc", level="fast", verify=False)
    node = {"t": "numpy", "file": "x.safetensors", "name": "x"}
    text = json.dumps({"format": FORMAT, "tree": {"d": [["x", node]]}})
    (folder / "state.json").write_text(text)
    Store.init(tmp_path / "store").save(folder, level="fast", verify=False)
    # Threads reserve memory of their own, which counts, though nothing is in it.
    few = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    subprocess.run([sys.executable, "-c", MEMORY, str(tmp_path)], check=True, timeout=300, env=few)


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_nothing_leaks(store: Store, tmp_path) -> None:
    """Hundreds of rounds, failed ones among them, need no more memory than some do."""
    data = weights(500_000)
    path = tmp_path / "x.lmc"

    def turn(number: int) -> None:
        packed = lmckpt.compress(data, threads=2)
        assert len(lmckpt.decompress(packed, threads=2)) == 1_000_000
        with pytest.raises(errors.LmcError):
            lmckpt.decompress(packed[:-1])
        lmc_torch.save_file({"x": data}, path)
        lmc_torch.load_file(path)
        with safe_open(path, "pt") as file:
            file.get_slice("x")[:10]
        if number % 10 == 0:
            store.save_async({"x": data + number}, step=number, parent="none").result()
            store.load()

    for number in range(60):
        turn(number)
    before = resident()
    for number in range(60, 300):
        turn(number)
    # One buffer of a round that leaked would be 240 MB by now.
    assert resident() - before < 40 << 20
