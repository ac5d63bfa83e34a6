#!/usr/bin/env python3
"""Puts the figures of the records into docs/study.md, and draws its charts.

    study/page.py             # writes docs/study.md, docs/study/*.svg and docs/study/tables.md
    study/page.py --check     # exits with 1 if they are not what the records give

The text of docs/study.md is written by hand. What lies between `<!-- table: NAME -->` and
`<!-- end -->` is replaced. Needs only Python's standard library.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import tables
from figures import PHASES, STATES, Row, find, load, rows
from plot import Line, Panel, chart

DOCS = Path(__file__).resolve().parents[1] / "docs"
# Where the y axis begins for states whose bits are never few.
BOTTOMS = {"weights-fp32": 10.0, "adam-m": 20.0, "adam-v": 10.0}
TABLE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def by_distance(found: list[Row]) -> str:
    """Bits per value by distance, a panel for each state and a line for each step."""
    panels = []
    for state, (name, _) in STATES.items():
        if state == "gradients":
            continue
        lines = []
        for i, (phase, step) in enumerate(tables.moments(found)):
            own = find(found, phase=phase, step=step, state=state)
            own = [row for row in own if row.distance]
            label = f"{PHASES[phase]}, step {step:,}"
            if own:
                points = [(row.distance, row.bits("default")) for row in own]
                lines.append(Line(label, points, i))
        panels.append(Panel(name, lines, bottom=BOTTOMS.get(state, 0.0)))
    title = "Bits per value against a base, by the distance between their steps"
    return chart(title, "steps between a checkpoint and its base", panels)


def by_method(found: list[Row]) -> str:
    """Bits per value by distance, a line for each method."""
    methods = (
        ("zstd 3 grouped", "XOR, byte groups, zstd -3", 3, False),
        ("bzip2 9 grouped", "XOR, byte groups, bzip2 -9", 4, False),
        ("paper", "XOR, byte groups, Huffman", 1, False),
        ("xor", "bound of XOR", 1, True),
        ("default", "lmc default", 0, False),
        ("max", "lmc max", 2, False),
        ("difference_given_exponent", "bound given exponent", 5, True),
    )
    panels = []
    for phase, step in (("pretrain", 3000), ("finetune", 1020), ("rl", 1020)):
        own = find(found, phase=phase, step=step, state="weights-bf16")
        own = [row for row in own if row.distance]
        lines = [
            Line(name, [(row.distance, row.bits(method)) for row in own], color, dashed)
            for method, name, color, dashed in methods
        ]
        panels.append(Panel(f"{PHASES[phase]}, step {step:,}", lines))
    return chart("bf16 weights: bits per value by method", "steps to the base", panels)


def by_step(record: dict) -> str:
    """How much the bf16 weights change in 10 and in 100 steps as training goes on."""
    panels = []
    for figure, title, scale in (
        ("difference_given_exponent", "bits per value (bound given exponent)", 1),
        ("unchanged", "unchanged values, %", 100),
    ):
        lines = []
        for phase in PHASES:
            for distance, dashed in (("10", False), ("100", True)):
                own = [row for row in record["curve"] if row["phase"] == phase]
                own = [row for row in own if distance in row]
                points = [(row["step"], scale * row[distance][figure]) for row in own]
                if points:
                    name = f"{PHASES[phase]}, {distance} steps"
                    color = list(PHASES).index(phase)
                    lines.append(Line(name, points, color, dashed))
        panels.append(Panel(title, lines, logarithmic=False))
    return chart("bf16 weights over training", "step of the phase", panels)


def files() -> Iterator[tuple[Path, str]]:
    """Every file and what it should contain."""
    large, small = load("h200-110m/110m.json"), load("cpu-tiny/tiny.json")
    # Another run with the same seed, of which RL alone was measured: the first ended too early.
    later = load("h200-110m/rl.json")
    large["windows"] += later["windows"]
    large["curve"] = [row for row in large["curve"] if row["phase"] != "rl"]
    large["curve"] += [row for row in later["curve"] if row["phase"] == "rl"]
    found = {"110m": list(rows(large)), "tiny": list(rows(small))}
    yield DOCS / "study/distance.svg", by_distance(found["110m"])
    yield DOCS / "study/methods.svg", by_method(found["110m"])
    yield DOCS / "study/steps.svg", by_step(large)
    yield DOCS / "study/tables.md", tables.everything(found)
    page = DOCS / "study.md"
    made = tables.named(found, large)

    def filled(match: re.Match[str]) -> str:
        return match[1] + made[match[2]] + match[3]

    text, places = TABLE.subn(filled, page.read_text())
    if places != len(made):
        raise SystemExit(f"{page}: {places} tables, and {len(made)} are known")
    yield page, text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    stale = 0
    for path, text in files():
        if check and (not path.exists() or path.read_text() != text):
            print(f"{path}: not what the records give; run study/page.py")
            stale += 1
        elif not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main())
