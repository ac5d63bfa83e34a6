#!/usr/bin/env python3
"""Draws docs/chart.svg, the chart of the README, from the records: ratio against speed.

    bench/chart.py            # writes docs/chart.svg
    bench/chart.py --check    # exits with 1 if docs/chart.svg is not what the records give

Needs only Python's standard library. All points are bf16 weights on one thread of one machine. They
are those of one interleaved run (peers.json), except lmc max, which comes from levels.json.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import NamedTuple

from svg import document, line, text

BENCH = Path(__file__).resolve().parent
RECORDS = BENCH / "record" / "xeon-icelake-2.8ghz"
CHART = BENCH.parent / "docs" / "chart.svg"
MACHINE = "an Intel Xeon (Ice Lake) at 2.8 GHz"
SET = "bf16"


class Label(NamedTuple):
    """What a point is called, and where its label is in each panel: its side, and pixels down."""

    text: str
    compress: tuple[str, int] = ("right", 5)
    decompress: tuple[str, int] = ("right", 5)


# Every engine that is drawn, by its record, name and level.
LABELS = {
    ("peers", "lmc", "fast"): Label("lmc fast"),
    ("peers", "lmc", "default"): Label("lmc default", ("below", 20), ("below", 20)),
    ("levels", "lmc", "max"): Label("lmc max"),
    ("peers", "zipnn", "auto"): Label("ZipNN", ("left", 14), ("below", 20)),
    ("peers", "openzl", "huffman"): Label("OpenZL huffman", ("right", 12), ("right", 12)),
    ("peers", "openzl", "fse"): Label("OpenZL fse", ("left", -2), ("below", -10)),
    ("peers", "blosc2", "shuf+zstd1"): Label("blosc2 shuffle+zstd"),
    ("peers", "blosc2", "bits+zstd1"): Label("blosc2 bitshuffle+zstd", ("left", 5), ("left", 5)),
    ("peers", "blosc2", "bits+lz4"): Label("blosc2 bitshuffle+lz4"),
    ("peers", "pcodec", "4"): Label("pcodec 4"),
    ("peers", "pcodec", "8"): Label("pcodec 8", decompress=("left", 5)),
}
SIDES = {"right": (10, "start"), "left": (-10, "end"), "below": (0, "middle")}

WIDTH, HEIGHT = 860, 590
LEFT, RIGHT = 60, 840
TITLES = {"compress": "Compress", "decompress": "Decompress"}
# Where each panel begins and ends, downwards.
PANELS = {"compress": (70, 260), "decompress": (330, 520)}
SPEEDS = (0.04, 20.0)
RATIOS = (1.30, 1.54)
SPEED_TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
RATIO_TICKS = (1.30, 1.35, 1.40, 1.45, 1.50)


def rows(record: str) -> list[dict]:
    """The rows of the newest record of that name, for the set that is drawn."""
    path = max(RECORDS.glob(f"*-{record}.json"))
    return [row for row in json.loads(path.read_text())["rows"] if row["set"] == SET]


def x_of(speed: float) -> float:
    """Speeds are on a logarithmic axis."""
    low, high = (math.log(end) for end in SPEEDS)
    return LEFT + (math.log(speed) - low) / (high - low) * (RIGHT - LEFT)


def y_of(ratio: float, panel: tuple[int, int]) -> float:
    top, bottom = panel
    return bottom - (ratio - RATIOS[0]) / (RATIOS[1] - RATIOS[0]) * (bottom - top)


def axes(what: str, panel: tuple[int, int]) -> list[str]:
    top, bottom = panel
    parts = [text(LEFT, top - 12, what, kind="title")]
    for ratio in RATIO_TICKS:
        y = y_of(ratio, panel)
        parts += [line(LEFT, y, RIGHT, y, "grid")]
        parts += [text(LEFT - 8, y + 4, f"{ratio:.2f}", "end", "note")]
    for speed in SPEED_TICKS:
        x = x_of(speed)
        parts += [line(x, top, x, bottom, "grid")]
        parts += [text(x, bottom + 18, f"{speed:g}", "middle", "note")]
    return [*parts, text(RIGHT, bottom + 18, "GiB/s", "end", "note")]


def points(direction: str, panel: tuple[int, int]) -> list[str]:
    """The engines, and the speed of memcpy as a line."""
    found = {
        (record, row["engine"], row["level"]): row
        for record in ("peers", "levels")
        for row in rows(record)
    }
    top, bottom = panel
    x = x_of(found["peers", "memcpy-rs", ""][f"{direction}_gib_s"])
    parts = [line(x, top, x, bottom, "copy"), text(x, top - 6, "memcpy", "middle", "note")]
    for key, label in LABELS.items():
        row = found[key]
        x = x_of(row[f"{direction}_gib_s"])
        y = y_of(row["bytes_in"] / row["bytes_out"], panel)
        kind = "ours" if key[1] == "lmc" else "other"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="{kind}"/>')
        side, down = getattr(label, direction)
        right, anchor = SIDES[side]
        parts.append(text(x + right, y + down, label.text, anchor, kind))
    return parts


def chart() -> str:
    title = "bf16 weights: compression ratio against speed (up and to the right is better)"
    parts = [text(8, 24, title, kind="title")]
    for direction, panel in PANELS.items():
        parts += axes(TITLES[direction], panel) + points(direction, panel)
    notes = (
        f"One thread of {MACHINE} with AVX-512, memory to memory."
        " One interleaved run; lmc max is from another run.",
        "OpenZL: the default graphs of its Python package."
        " README.md compares with the best graph that we found.",
    )
    parts += [text(8, HEIGHT - 26 + 18 * i, note, kind="note") for i, note in enumerate(notes)]
    return document(title, WIDTH, HEIGHT, parts)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draws docs/chart.svg from the records.")
    parser.add_argument("--check", action="store_true", help="only compare")
    if parser.parse_args().check:
        return int(CHART.read_text() != chart())
    CHART.write_text(chart())
    return 0


if __name__ == "__main__":
    sys.exit(main())
