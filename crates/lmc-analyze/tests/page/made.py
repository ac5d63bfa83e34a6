"""Made-up data for the pages, from a seed: what `lmc analyze --json` and `lmc report --json` give.

The figures look like those of a training run, but nothing was measured.
"""

from __future__ import annotations

import math
import random
from typing import Any

Json = dict[str, Any]

FLOATS = {"BF16": (8, 7, 120), "F32": (8, 23, 118), "F8_E4M3": (4, 3, 6)}
KINDS = ["attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.o_proj", "mlp.up_proj", "mlp.down_proj"]


def alone(rng: random.Random, dtype: str, values: int, at: float, exponents: bool = True) -> Json:
    """The figures of values for themselves; `at` is how far training is, from 0 to 1."""
    bits, mantissa, centre = FLOATS[dtype]
    exponent = min(bits - 0.5, 2.55 + 0.25 * at + rng.uniform(-0.12, 0.12))
    bound = exponent + 1 + mantissa
    width = bits + mantissa + 1
    figures = {"sign": 1.0, "exponent": exponent, "mantissa": mantissa - 0.01, "bound": bound}
    planes = [7.99] * (width // 8 - 1) + [min(7.9, bound - width + 8)]
    result: Json = {"values": values, "bytes": values * width // 8, "planes": planes, **figures}
    result["blocks"] = {"planes": planes, **{key: v * 0.995 for key, v in figures.items()}}
    result |= {"coded": bound * 1.004 + 0.02, "counted": max(1, values // 8)}
    if exponents:
        spread = [
            (e, math.exp(-(((e - centre) / 2.4) ** 2))) for e in range(centre - 14, centre + 9)
        ]
        whole = sum(share for _, share in spread)
        result["exponents"] = [[0, values // 500]] + [
            [e, int(values * share / whole)] for e, share in spread if 0 < e < 2**bits
        ]
    return result


def change(rng: random.Random, dtype: str, values: int, at: float, distance: int) -> Json:
    """The figures of values against a base that many steps back."""
    bits, mantissa, _ = FLOATS[dtype]
    width = bits + mantissa + 1
    moved = min(1.0, (0.75 - 0.5 * at) * distance**0.25 * rng.uniform(0.92, 1.08))
    difference = (mantissa + 1.4) * (0.35 + 0.65 * moved)
    flipped = [0.5 * moved * math.exp(-max(0, bit - mantissa * moved) / 2) for bit in range(width)]
    coded_alone = mantissa + 3.75
    return {
        "values": values,
        "compared": values,
        "unchanged": 1 - moved,
        "exponent_changed": 0.08 * moved,
        "flipped": flipped,
        "xor": difference * 1.16 + 0.3,
        "xor_planes": [7.0] * (width // 8),
        "difference": difference * 1.05,
        "difference_given_exponent": difference,
        "coded": min(difference * 1.03 + 0.05, coded_alone),
        "coded_alone": coded_alone,
        "counted": max(1, values // 8),
    }


def mean(parts: list[Json], shapes: bool = True, weights: list[int] | None = None) -> Json:
    """A mean over values, as of a kind of layer or a whole checkpoint."""
    weights = weights or [part["values"] for part in parts]
    result: Json = {}
    for key, first in parts[0].items():
        if key in ("values", "bytes", "compared", "counted"):
            result[key] = sum(part[key] for part in parts)
        elif isinstance(first, float):
            weighted = [part[key] * weight for part, weight in zip(parts, weights, strict=True)]
            result[key] = sum(weighted) / sum(weights)
        elif key == "exponents":
            counts: dict[int, int] = {}
            for part in parts:
                for exponent, count in part[key]:
                    counts[exponent] = counts.get(exponent, 0) + count
            result[key] = [[e, counts[e]] for e in sorted(counts)]
        elif isinstance(first, list):
            lists = [part[key] for part in parts]
            same = shapes and len({len(each) for each in lists}) == 1
            columns = zip(*lists, strict=True) if same else []
            result[key] = [sum(column) / len(parts) for column in columns] if same else None
        else:
            result[key] = mean([part[key] for part in parts], shapes, weights)
    return result


def grouped(named: list[tuple[Json, Json]]) -> Json:
    """The fields total, kinds and dtypes of a checkpoint or pair, of tensors and their figures."""
    result: Json = {"kinds": {}, "dtypes": {}}
    for field in ("kinds", "dtypes"):
        groups: dict[str, list[Json]] = {}
        for tensor, figures in named:
            groups.setdefault(tensor[field[:-1]], []).append(figures)
        result[field] = {name: mean(parts) for name, parts in groups.items()}
    total = mean([figures for _, figures in named], len(result["dtypes"]) == 1)
    if "exponents" in total and len(result["dtypes"]) > 1:
        total["exponents"] = None
    return {"total": total, **result}


def analyze(
    steps: int = 10, layers: int = 6, seed: int = 1, engines: bool = True, plan: bool = True
) -> Json:
    """A series of checkpoints, with all that the page can show."""
    rng = random.Random(seed)
    tensors: list[Json] = [
        {"name": "embed.weight", "kind": "embed.weight", "dtype": "F32", "shape": [4096, 256]}
    ]
    for layer in range(layers):
        for kind in KINDS:
            tensors.append(
                {
                    "name": f"layers.{layer}.{kind}.weight",
                    "kind": f"layers.*.{kind}.weight",
                    "dtype": "BF16",
                    "shape": [256, 1024 if "mlp" in kind else 256],
                }
            )
    for tensor in tensors:
        values = math.prod(tensor["shape"])
        tensor["alone"] = [
            alone(rng, tensor["dtype"], values, i / max(1, steps - 1)) for i in range(steps)
        ]
    checkpoints = [
        {"name": f"step-{100 * (i + 1)}", "step": 100 * (i + 1), "files": 2}
        | {"other_bytes": 640}
        | grouped([(tensor, tensor["alone"][i]) for tensor in tensors])
        for i in range(steps)
    ]
    for checkpoint in checkpoints:
        checkpoint["bytes"] = checkpoint["total"]["bytes"] + checkpoint["other_bytes"]
    pairs = []
    for tensor in tensors:
        tensor["changes"] = []
        for figures in tensor["alone"]:
            del figures["exponents"]
    for new in range(1, steps):
        for distance in (1, 2, 4, 8):
            if distance > new:
                continue
            figures = [
                change(rng, t["dtype"], math.prod(t["shape"]), new / steps, distance)
                for t in tensors
            ]
            pairs.append(
                {"checkpoint": new, "base": new - distance, "distance": distance}
                | {"steps": 100 * distance, "sampled": distance > 1}
                | grouped(list(zip(tensors, figures, strict=True)))
                | {"only_new": [], "only_base": [], "reshaped": []}
            )
            for tensor, each in zip(tensors, figures, strict=True):
                tensor["changes"].append(each if distance == 1 else None)
    return {
        "schema": 1,
        "version": "0.1.0",
        "title": "checkpoints/",
        "level": "default",
        "all": False,
        "checkpoints": checkpoints,
        "pairs": pairs,
        "tensors": tensors,
        "skipped": [],
        "engines": made_engines(rng) if engines else None,
        "plan": made_plan() if plan else None,
    }


def made_engines(rng: random.Random) -> Json:
    """Compressors of many speeds, alone and against a base."""
    rows = []
    known = [("lmc", "fast", 1.48, 5e9), ("lmc", "default", 1.5, 2.4e9), ("lmc", "max", 1.52, 2e8)]
    known += [
        ("zstd", str(level), 1.25 + 0.01 * level, 6e8 / level**1.2) for level in (1, 3, 9, 19)
    ]
    known += [("lz4", "1", 1.01, 3e9), ("xz", "6", 1.36, 9e6), ("bzip2", "9", 1.3, 2e7)]
    for base in (False, True):
        for engine, level, ratio, speed in known:
            for group in (False, True) if engine != "lmc" else (True,):
                factor = (1.4 if base else 1) * (1 if group else 0.86) * rng.uniform(0.97, 1.03)
                rate = speed * rng.uniform(0.8, 1.2)
                rows.append(
                    {"engine": engine, "level": level, "grouped": group, "base": base}
                    | {"xor": base and engine != "lmc", "bytes_in": 2**28}
                    | {"bytes_out": int(2**28 / (ratio * factor)), "ratio": ratio * factor}
                    | {"bits_per_value": 16 / (ratio * factor), "compress_speed": rate}
                    | {"decompress_speed": rate * 2.2, "compress_cpu": rate * 0.98}
                    | {"decompress_cpu": rate * 2.1}
                )
    return {"sample_bytes": 2**28, "checkpoint": 1, "base": 0, "rows": rows}


def planned(method: Json, inputs: Json) -> Json:
    """The model of the plan, written apart from the page's."""
    size, cores, bandwidth = inputs["state_bytes"], inputs["cores"], inputs["bandwidth"]
    between = inputs["interval"] * inputs["step_time"]

    def moves(speed: float | None, ratio: float) -> float:
        return max(0 if speed is None else size / (cores * speed), size / ratio / bandwidth)

    save = moves(method["compress_speed"], method["ratio"])
    copy = size / inputs["copy_speed"]
    background = copy + max(0, save - between)
    saves = 30 * 24 * 3600 / between
    kept = min(
        saves,
        inputs["keep_last"] + math.floor(saves * inputs["interval"] / inputs["keep_every"]),
    )
    restore = moves(method["decompress_speed"], method["ratio"])
    stored = size / method["ratio"]
    if method["delta"]:
        every = inputs["whole_every"]
        whole = moves(method["whole_decompress_speed"], method["whole_ratio"])
        restore = whole + (every - 1) / 2 * restore
        stored = (stored * (every - 1) + size / method["whole_ratio"]) / every
    shares = {"1": 0.01, "2": 0.02, "5": 0.05}
    return {
        "save": save,
        "wait_blocking": save,
        "wait_background": background,
        "lost_blocking": save / (between + save),
        "lost_background": background / (between + background),
        "shortest_blocking": {key: save * (1 - p) / p for key, p in shares.items()},
        "shortest_background": {key: max(copy * (1 - p) / p, save) for key, p in shares.items()},
        "month_bytes": kept * stored,
        "restore": restore,
    }


def made_plan() -> Json:
    """A plan for a state of 100 GB."""
    inputs = {"state_bytes": 100e9, "cores": 16, "bandwidth": 2e9, "copy_speed": 1e10}
    inputs |= {"step_time": 0.8, "interval": 100, "keep_last": 3, "keep_every": 1000}
    inputs |= {"whole_every": 8}
    methods = []
    for name, engine, level, delta, ratio, fast, back in [
        ("none", "none", None, False, 1.0, None, None),
        ("zstd 3", "zstd", "3", False, 1.2, 3.5e8, 1.1e9),
        ("lmc fast", "lmc", "fast", False, 1.48, 5e9, 8e9),
        ("lmc default", "lmc", "default", False, 1.5, 2.4e9, 5e9),
        ("lmc default, delta", "lmc", "default", True, 2.1, 1.4e9, 3e9),
    ]:
        method = {"name": name, "engine": engine, "level": level, "delta": delta, "ratio": ratio}
        method |= {"whole_ratio": 1.5 if delta else ratio}
        method |= {"compress_speed": fast, "decompress_speed": back}
        method["whole_decompress_speed"] = 5e9 if delta else back
        methods.append(method | planned(method, inputs))
    return {"inputs": inputs, "methods": methods}


def report(runs: int = 2, snapshots: int = 24, seed: int = 1) -> Json:
    """A store with runs whose snapshots are chains of deltas."""
    rng = random.Random(seed)
    result = []
    sums = {"saved_reuse": 0, "saved_delta": 0, "saved_coding": 0, "bytes": 0, "added_bytes": 0}
    for run in range(runs):
        made: list[Json] = []
        for i in range(snapshots):
            whole = i % 8 == 0
            size = 48_000_000_000 + rng.randrange(10**9)
            whole_bytes = int(size / 1.5)
            added = whole_bytes if whole else int(size / (2.2 + 0.3 * rng.random()))
            reused = 0 if whole else size // 40
            snapshot = {
                "id": f"{rng.getrandbits(128):032x}",
                "step": 1000 * (i + 1),
                "time": f"2026-01-{1 + i // 24:02}T{i % 24:02}:{10 * run:02}:00Z",
                "tags": ["eval"] if i % 10 == 4 else [],
                "files": 3,
                "bytes": size,
                "added_bytes": added,
                "whole_bytes": whole_bytes,
                "depth": i % 8 + 1,
                "reused_bytes": reused,
                "saved_reuse": reused,
                "saved_delta": max(0, whole_bytes - added - reused),
                "saved_coding": size - whole_bytes,
                "bases": [] if whole else [made[-1]["id"]],
                "damage": None,
            }
            made.append(snapshot)
            for key in sums:
                sums[key] += snapshot[key]
        result.append(
            {"run": ["pretrain", "finetune"][run % 2] + str(run // 2 or ""), "snapshots": made}
        )
    archives = sums["bytes"] - sums["saved_reuse"] - sums["saved_delta"] - sums["saved_coding"]
    return {
        "schema": 1,
        "version": "0.1.0",
        "store": "checkpoints",
        "runs": result,
        "totals": {
            "snapshots": runs * snapshots,
            "files": runs * snapshots * 3,
            "logical_bytes": sums["bytes"],
            "archive_bytes": archives,
            "bases_only_bytes": 40_000_000_000,
            "pack_bytes": archives + 90_000_000_000,
            "manifest_bytes": 4_000_000,
            "unneeded_bytes": 50_000_000_000,
            "saved_by_reuse_bytes": sums["saved_reuse"],
            "saved_by_delta_bytes": sums["saved_delta"],
            "saved_by_coding_bytes": sums["saved_coding"],
        },
        "retention": [
            {"rule": "--keep-last 3", "snapshots_removed": 42, "freed_bytes": 700_000_000_000},
            {"rule": "--keep-every 5000", "snapshots_removed": 38, "freed_bytes": 610_000_000_000},
        ],
        "damage": [],
        "checked": "names and sizes",
    }
