"""What `lmc analyze` prints is what numpy computes from the definitions in docs/analyze.md, without
any of its tricks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy
import pytest

BLOCK = 1 << 16
# Width of a word, and the bits of exponent and mantissa of floats, or how integers are read.
DTYPES: dict[str, tuple[int, tuple[int, int] | str]] = {
    "BF16": (2, (8, 7)),
    "F16": (2, (5, 10)),
    "F32": (4, (8, 23)),
    "F64": (8, (11, 52)),
    "F8_E4M3": (1, (4, 3)),
    "F8_E5M2": (1, (5, 2)),
    "C64": (4, (8, 23)),
    "I8": (1, "signed"),
    "I16": (2, "signed"),
    "I32": (4, "signed"),
    "I64": (8, "signed"),
    "U8": (1, "unsigned"),
    "U16": (2, "unsigned"),
    "U32": (4, "unsigned"),
    "U64": (8, "unsigned"),
    "BOOL": (1, "unsigned"),
    "F8_E8M0": (1, "unsigned"),
}
FIELDS = ("sign", "exponent", "mantissa", "bound")
Tensors = dict[str, tuple[str, list[int], bytes]]
Figures = dict[str, Any]


def analyze(*args: str | Path) -> Any:
    """The JSON that the command prints."""
    package = [sys.executable, "-c", "import sys; from lmckpt._cli import main; sys.exit(main())"]
    command = [os.environ["LMC_COMMAND"]] if "LMC_COMMAND" in os.environ else package
    done = subprocess.run(
        [*command, "analyze", "--json", *map(str, args)], check=True, stdout=subprocess.PIPE
    )
    return json.loads(done.stdout)


def write(path: Path, tensors: Tensors) -> None:
    header, place = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        end = place + len(data)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [place, end]}
        place = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(data for _, _, data in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def read(path: Path) -> Tensors:
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {
        name: (
            entry["dtype"],
            entry["shape"],
            data[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]],
        )
        for name, entry in header.items()
    }


def words_of(dtype: str, data: bytes) -> Any:
    return numpy.frombuffer(data, f"<u{DTYPES[dtype][0]}").astype(numpy.uint64)


def entropy(symbols: Any) -> float:
    """Bits per symbol."""
    _, counts = numpy.unique(symbols, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * numpy.log2(shares)).sum()) + 0.0


def planes(words: Any, width: int) -> list[float]:
    return [entropy(words >> numpy.uint64(8 * i) & numpy.uint64(0xFF)) for i in range(width)]


def bits(words: Any, start: int, count: int) -> Any:
    return words >> numpy.uint64(start) & numpy.uint64((1 << count) - 1)


def fields(dtype: str, words: Any) -> Figures:
    """The figures of words with one table for each field."""
    width, kind = DTYPES[dtype]
    found: Figures = {"planes": planes(words, width), **dict.fromkeys(FIELDS)}
    if isinstance(kind, str):
        return {**found, "bound": sum(found["planes"])}
    exponent_bits, mantissa_bits = kind
    sign = bits(words, exponent_bits + mantissa_bits, 1)
    found["sign"] = entropy(sign)
    found["exponent"] = entropy(bits(words, mantissa_bits, exponent_bits))
    starts = range(0, mantissa_bits, 8)
    held = [bits(words, start, min(8, mantissa_bits - start)) for start in starts]
    found["mantissa"] = sum(map(entropy, held))
    found["bound"] = found["exponent"] + mantissa_bits + (len(numpy.unique(sign)) > 1)
    return found


def alone(dtype: str, data: bytes) -> Figures:
    words = words_of(dtype, data)
    if not len(words):
        nothing = dict.fromkeys(("planes", *FIELDS))
        return {"values": 0, "bytes": 0, **nothing, "blocks": nothing}
    step = BLOCK // DTYPES[dtype][0]
    blocks = [words[i : i + step] for i in range(0, len(words), step)]
    parts = [(len(block), fields(dtype, block)) for block in blocks]
    found = {"values": len(words), "bytes": len(data), **fields(dtype, words)}
    return {**found, "blocks": {key: mean(parts, key) for key in ("planes", *FIELDS)}}


def ordered(dtype: str, words: Any) -> list[int]:
    """Integers in the order of the values."""
    width, kind = DTYPES[dtype]
    values: list[int] = words.tolist()
    top = 1 << (8 * width - 1)
    if kind == "unsigned":
        return values
    if kind == "signed":
        return [value - 2 * top if value >= top else value for value in values]
    return [top - value if value >= top else value for value in values]


def change(dtype: str, data: bytes, base: bytes) -> Figures:
    width, kind = DTYPES[dtype]
    new, old = words_of(dtype, data), words_of(dtype, base)
    names = ("unchanged", "exponent_changed", "flipped", "xor", "xor_planes", "difference")
    if not len(new):
        nothing = dict.fromkeys((*names, "difference_given_exponent"))
        return {"values": 0, "compared": 0, **nothing}
    found: Figures = {"values": len(new), "compared": len(new)}
    xor = new ^ old
    found["unchanged"] = float((new == old).mean())
    found["flipped"] = [float(bits(xor, i, 1).astype(float).mean()) for i in range(8 * width)]
    found["xor_planes"] = planes(xor, width)
    found["xor"] = sum(found["xor_planes"])
    pairs = zip(ordered(dtype, new), ordered(dtype, old), strict=True)
    differences = [after - before for after, before in pairs]
    symbols = numpy.array([d.bit_length() * (1 if d > 0 else -1) for d in differences])
    payload = float(numpy.maximum(numpy.abs(symbols) - 1, 0).mean())
    found["difference"] = entropy(symbols) + payload
    found["exponent_changed"] = None
    found["difference_given_exponent"] = found["difference"]
    if not isinstance(kind, str):
        exponent_bits, mantissa_bits = kind
        exponent = bits(old, mantissa_bits, exponent_bits)
        moved = bits(xor, mantissa_bits, exponent_bits) != 0
        found["exponent_changed"] = float(moved.mean())
        groups = [symbols[exponent == value] for value in numpy.unique(exponent)]
        given = sum(len(group) * entropy(group) for group in groups) / len(symbols)
        found["difference_given_exponent"] = given + payload
    return found


def mean(parts: Iterable[tuple[int, Figures]], key: str) -> Any:
    """The mean over the values that have a figure, or None if lists differ in their lengths."""
    own = [(values, part[key]) for values, part in parts if values and part[key] is not None]
    total = sum(values for values, _ in own)
    if not own:
        return None
    if isinstance(own[0][1], list):
        if len({len(figure) for _, figure in own}) > 1:
            return None
        columns = zip(*(figure for _, figure in own), strict=True)
        weights = [values for values, _ in own]
        return [float(numpy.average(column, weights=weights)) for column in columns]
    return sum(values * figure for values, figure in own) / total


def compare(found: Figures, wanted: Figures, where: str) -> None:
    """Fails unless all wanted figures are there, to a millionth."""
    for key, value in wanted.items():
        place = f"{where}.{key}"
        if isinstance(value, dict):
            compare(found[key], value, place)
        elif value is None:
            assert found[key] is None, place
        else:
            assert found[key] == pytest.approx(value, abs=1e-6), place


def compare_groups(row: Figures, tensors: dict[str, tuple[str, Figures]], keys: list[str]) -> None:
    """The means of a checkpoint or pair are those of its tensors."""
    for group in (None, *{dtype for dtype, _ in tensors.values()}):
        own = [part for dtype, part in tensors.values() if group in (None, dtype)]
        parts = [(part["values"], part) for part in own]
        found = row["total"] if group is None else row["dtypes"].get(group)
        if not sum(values for values, _ in parts):
            continue
        assert found["values"] == sum(values for values, _ in parts)
        compare(found, {key: mean(parts, key) for key in keys}, f"group {group}")


def check(report: Any, states: list[Tensors]) -> None:
    """Every figure of a series whose checkpoints are whole."""
    rows = {row["name"]: row for row in report["tensors"]}
    neighbours = [i for i, pair in enumerate(report["pairs"]) if pair["distance"] == 1]
    keys = ["planes", *FIELDS, "coded"]
    changes = ["unchanged", "exponent_changed", "flipped", "xor", "xor_planes", "difference"]
    changes += ["difference_given_exponent", "coded", "coded_alone"]
    for i, tensors in enumerate(states):
        own = {}
        for name, (dtype, shape, data) in tensors.items():
            row = rows[name]
            assert (row["dtype"], row["shape"]) == (dtype, shape)
            found = row["alone"][i]
            compare(found, alone(dtype, data), f"{name} of {i}")
            own[name] = (dtype, found)
        compare_groups(report["checkpoints"][i], own, keys)
        if i == 0:
            continue
        place = neighbours[i - 1]
        own = {}
        for name, (dtype, _, data) in tensors.items():
            if name in states[i - 1]:
                found = rows[name]["changes"][place]
                wanted = change(dtype, data, states[i - 1][name][2])
                compare(found, wanted, f"{name} of {i} against its base")
                assert found["coded_alone"] == rows[name]["alone"][i]["coded"]
                own[name] = (dtype, found)
        compare_groups(report["pairs"][place], own, changes)


def noise(seed: int, count: int) -> bytes:
    return numpy.random.default_rng(seed).bytes(count)


def floats(seed: int, count: int, scale: float = 0.02) -> Any:
    values = numpy.random.default_rng(seed).standard_normal(count, numpy.float32)
    return values * numpy.float32(scale)


def bf16(values: Any) -> bytes:
    return bytes((values.view(numpy.uint32) >> 16).astype("<u2").tobytes())


def edge_cases() -> list[Tensors]:
    """Three states of tensors of every type: all bits at random, few values, constant ones, one,
    none, and lengths that no block, stretch or vector divides."""
    states: list[Tensors] = [{}, {}, {}]
    for k, (dtype, (width, _)) in enumerate(DTYPES.items()):
        words = 2 if dtype == "C64" else 1
        lens = {"none": 0, "one": 1, "odd": 1003, "long": BLOCK // width + 777, "two": 2 * BLOCK}
        for case, count in lens.items():
            size = count * width * words
            first = noise(k, size)
            # Some of the words are others, then all of them, then the bits of half of them.
            second = bytearray(first)
            for place in range(0, size, 7 * width):
                second[place : place + width] = noise(place, width)
            third = noise(k + 100, size)
            for state, data in zip(states, (first, bytes(second), third), strict=True):
                state[f"{dtype}.{case}"] = (dtype, [count], data)
        word = noise(k + 200, width * words)
        same = [word * 5000, word * 5000, noise(k + 300, width * words) * 5000]
        for state, data in zip(states, same, strict=True):
            state[f"{dtype}.constant"] = (dtype, [5000], data)
    special = [0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 1e-45, -1e-45, 3.4e38]
    many = numpy.array(special * 300, numpy.float32)
    for k, state in enumerate(states):
        weights = floats(1, 100_000) + k * floats(k, 100_000, 1e-4)
        state["weights.f32"] = ("F32", [100, 1000], weights.tobytes())
        state["weights.bf16"] = ("BF16", [100, 1000], bf16(weights))
        few = numpy.where(floats(9, 100_000) > 0.04, weights, floats(1, 100_000))
        state["few.bf16"] = ("BF16", [100_000], bf16(few))
        state["special"] = ("F32", [2400], numpy.roll(many, k).tobytes())
        state["bool"] = ("BOOL", [900], bytes([0, 1, k % 2] * 300))
    return states


def test_every_type_at_its_edges(tmp_path: Path) -> None:
    """All figures of made tensors of every type are those of numpy."""
    states = edge_cases()
    for i, state in enumerate(states):
        write(tmp_path / f"step-{i + 1}.safetensors", state)
    report = analyze(tmp_path)
    assert [row["step"] for row in report["checkpoints"]] == [1, 2, 3]
    assert [pair["distance"] for pair in report["pairs"]] == [1, 1, 2]
    check(report, states)
    # Nothing is long enough to be sampled, so the pair two apart is exact too.
    far = report["pairs"][2]
    parts = [
        change(dtype, data, states[0][name][2]) for name, (dtype, _, data) in states[2].items()
    ]
    keys = ["unchanged", "xor", "difference", "difference_given_exponent"]
    pairs = [(part["values"], part) for part in parts]
    compare(far["total"], {key: mean(pairs, key) for key in keys}, "two apart")


def test_counts_of_exponents(tmp_path: Path) -> None:
    """The counts of exponents are those of a histogram, and only groups of floats have them."""
    state = edge_cases()[0]
    write(tmp_path / "a.safetensors", state)
    row = analyze(tmp_path / "a.safetensors")["checkpoints"][0]
    assert row["total"]["exponents"] is None
    assert row["dtypes"]["I32"]["exponents"] is None
    words = numpy.concatenate(
        [words_of(dtype, data) for dtype, _, data in state.values() if dtype == "F16"]
    )
    values, counts = numpy.unique(bits(words, 10, 5), return_counts=True)
    wanted = [list(pair) for pair in zip(values.tolist(), counts.tolist(), strict=True)]
    assert row["dtypes"]["F16"]["exponents"] == wanted


def test_samples_and_all(tmp_path: Path) -> None:
    """Long tensors are counted in full and coded in part; with --all they are coded in full, and
    distant pairs are compared in full."""
    count = 5_000_000
    states: list[Tensors] = [
        {"w": ("BF16", [1000, 5000], bf16(floats(1, count) + k * floats(2, count, 1e-4)))}
        for k in range(3)
    ]
    for i, state in enumerate(states):
        write(tmp_path / f"{i + 1}00.safetensors", state)
    wanted = change("BF16", states[2]["w"][2], states[0]["w"][2])
    keys = ("unchanged", "exponent_changed", "xor", "difference", "difference_given_exponent")
    for options in ([], ["--all"]):
        report = analyze(tmp_path, *options)
        assert report["all"] == bool(options)
        found = report["tensors"][0]["alone"][2]
        compare(found, alone("BF16", states[2]["w"][2]), "in full")
        far = report["pairs"][2]
        assert (far["distance"], far["sampled"]) == (2, not options)
        sample = far["total"]["compared"]
        assert sample == far["total"]["counted"] == (count if options else 2 * (1 << 17))
        assert found["counted"] == (count if options else 2 * (1 << 19))
        for key in keys:
            tolerance = 1e-6 if options else 0.02
            assert far["total"][key] == pytest.approx(wanted[key], abs=tolerance), key
        # A coder with tables for parts of the tensor is near the bound.
        assert found["coded"] == pytest.approx(found["bound"], rel=0.02)


@pytest.mark.skipif("LMC_CORPUS" not in os.environ, reason="corpus: LMC_CORPUS is not set")
def test_corpus() -> None:
    """The same holds for checkpoints of a real training."""
    folder = Path(os.environ["LMC_CORPUS"]) / "finetune"
    paths = sorted(folder.glob("*.safetensors"))
    check(analyze(*paths), [read(path) for path in paths])
