"""The tables of docs/study.md and docs/study/tables.md, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from figures import PHASES, STATES, Row, find, load

Found = dict[str, list[Row]]
RUNS = {"110m": "110 M parameters", "tiny": "3.4 M parameters"}
ALONE_METHODS = {
    "bound": "bound",
    "zstd 3": "zstd -3",
    "zstd 3 grouped": "groups, zstd -3",
    "bzip2 9 grouped": "groups, bzip2 -9",
    "xz 1 grouped": "groups, xz -1",
    "paper": "groups, Huffman",
    "default": "lmc default",
    "max": "lmc max",
}
DELTA_METHODS = {
    "xor": "bound of XOR",
    "difference": "of difference",
    "difference_given_exponent": "given exponent",
    "zstd 3 grouped": "XOR, groups, zstd -3",
    "bzip2 9 grouped": "XOR, groups, bzip2 -9",
    "paper": "XOR, groups, Huffman",
    "default": "lmc default",
    "max": "lmc max",
}


def number(value: float | None) -> str:
    """Three digits after the point below 1, and two above."""
    if value is None:
        return "-"
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def table(columns: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    columns = list(columns)
    head = f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|\n"
    return head + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def moments(found: list[Row]) -> list[tuple[str, int]]:
    """Phases and steps that were measured, in their order."""
    return list(dict.fromkeys((row.phase, row.step) for row in found))


def alone(found: list[Row], state: str) -> str:
    """All methods without a base, a line for each step."""
    lines = [
        [row.moment, *(number(row.bits(method)) for method in ALONE_METHODS)]
        for row in find(found, state=state, distance=None)
    ]
    return table(["checkpoint", *ALONE_METHODS.values()], lines)


def against(found: list[Row], state: str) -> str:
    """All methods against a base, a line for each step and distance."""
    lines = []
    for row in find(found, state=state):
        if row.distance:
            cells = [row.moment, str(row.distance), percent(row.figures["unchanged"])]
            lines.append(cells + [number(row.bits(method)) for method in DELTA_METHODS])
    return table(["checkpoint", "distance", "unchanged", *DELTA_METHODS.values()], lines)


def summary(found: list[Row]) -> str:
    """lmc's default level: a line for each state and step, a column for each distance."""
    lines = []
    measured = sorted({row.distance for row in found if row.distance})
    for state, (name, _) in STATES.items():
        for phase, step in moments(found):
            own = {row.distance: row for row in find(found, state=state, phase=phase, step=step)}
            if len(own) < 2:
                continue
            bits = [own[d].bits("default") if d in own else None for d in (None, *measured)]
            lines.append([name, f"{PHASES[phase]}, step {step:,}", *map(number, bits)])
    distances = (f"{distance:,}" for distance in measured)
    return table(["state", "checkpoint", "alone", *distances], lines)


def grouping(found: list[Row]) -> str:
    """Ratios of general engines on raw and on grouped bytes, and what grouping gains."""
    lines = []
    for state, (name, _) in STATES.items():
        [row] = find(found, state=state, distance=None, phase="pretrain", step=3000)
        cells = [name]
        for engine in ("lz4 1", "zstd 1", "zstd 3", "xz 1", "bzip2 9"):
            raw, grouped = row.ratio(engine), row.ratio(f"{engine} grouped")
            cells.append(f"{number(raw)} → {number(grouped)} ({100 * (grouped / raw - 1):+.0f} %)")
        lines.append([*cells, number(row.ratio("paper")), number(row.ratio("default"))])
    names = ("lz4", "zstd -1", "zstd -3", "xz -1", "bzip2 -9")
    return table(["state", *names, "groups, Huffman", "lmc default"], lines)


def convergence(found: list[Row]) -> str:
    """Ratios of deltas of bf16 weights as training goes on."""
    lines = []
    for phase, step in moments(found):
        own = {r.distance: r for r in find(found, state="weights-bf16", phase=phase, step=step)}
        cells = [f"{PHASES[phase]}, step {step:,}", number(own[None].ratio("default"))]
        for distance in (1, 10, 100):
            row = own.get(distance)
            cells.append("-" if row is None else percent(row.figures["unchanged"]))
            for method in ("paper", "default"):
                cells.append(number(row.ratio(method) if row else None))
        lines.append(cells)
    columns = ["checkpoint", "alone"]
    for distance in ("1 step", "10 steps", "100 steps"):
        columns += [f"{distance}: unchanged", "XOR, groups, Huffman", "lmc default"]
    return table(columns, lines)


def whole(record: dict[str, Any]) -> str:
    """Ratios of everything that a mixed-precision run saves, at the default level."""

    def ratio(figures: dict[str, Any]) -> str:
        # 14 bytes of a parameter are four values.
        return number(3.5 * figures["values"] / figures["bytes"]["default"])

    distances = (1, 10, 100, 1000)
    lines = []
    for window in record["windows"]:
        against = {pair["distance"]: pair["states"].get("whole") for pair in window["pairs"]}
        cells = [f"{PHASES[window['phase']]}, step {window['step']:,}"]
        cells.append(ratio(window["alone"]["whole"]))
        cells += [ratio(against[d]) if against.get(d) else "-" for d in distances]
        lines.append(cells)
    return table(["checkpoint", "alone", *(f"{d:,}" for d in distances)], lines)


def engines(analysis: dict[str, Any]) -> str:
    """Size and speed of every engine on a sample, in the order of size."""
    lines = []
    for base in (False, True):
        own = [row for row in analysis["engines"]["rows"] if row["base"] == base]
        for row in sorted(own, key=lambda row: row["bits_per_value"]):
            steps = [("XOR", row["xor"]), ("byte groups", row["grouped"])]
            before = ", ".join(name for name, is_done in steps if is_done) or "-"
            speeds = (row["compress_speed"] / 1e6, row["decompress_speed"] / 1e6)
            lines.append(
                [
                    f"{row['engine']} {row['level']}".strip(),
                    "yes" if base else "no",
                    before,
                    number(row["bits_per_value"]),
                    number(row["ratio"]),
                    *(f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}" for speed in speeds),
                ]
            )
    columns = ("engine", "base", "preprocessing", "bits per value", "ratio")
    return table([*columns, "compress MB/s", "decompress MB/s"], lines)


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    for size, unit in ((3600, "h"), (60, "min")):
        if value >= 2 * size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.1f} s"


def plan(planned: dict[str, Any]) -> str:
    """How long a save takes by each method, and how often it can be made."""
    lines = []
    for row in planned["methods"]:
        shortest = row["shortest_blocking"]
        lines.append(
            [
                row["name"],
                number(row["ratio"]),
                seconds(row["save"]),
                *(seconds(shortest[percent]) for percent in ("1", "2", "5")),
                seconds(row["shortest_background"]["1"]),
                f"{row['month_bytes'] / 1e12:.1f} TB",
            ]
        )
    columns = ["method", "ratio", "a save takes", "at most 1 % lost", "2 %", "5 %"]
    return table([*columns, "1 %, in the background", "a month's saves"], lines)


def saves(records: list[dict[str, Any]]) -> str:
    """A plan beside a real run."""
    lines = []
    for record in records:
        for row in record["rows"]:
            lines.append(
                [
                    f"{record['state_bytes'] / 1e9:.1f} GB",
                    f"{record['inputs']['bandwidth'] / 1e9:.2f} GB/s",
                    row["writer"],
                    f"{row['planned_save']:.2f} s",
                    f"{min(row['saves']):.2f} to {max(row['saves']):.2f} s",
                    f"{row['interval']} steps",
                    percent(row["planned_lost"]),
                    percent(row["lost"]),
                ]
            )
    columns = ["state", "storage", "writer", "a save: planned", "measured", "interval"]
    return table([*columns, "lost: planned", "measured"], lines)


def named(found: Found, record: dict[str, Any]) -> dict[str, str]:
    """The tables of docs/study.md."""
    records = [load(f"saves/{name}.json") for name in ("cpu-slow-disk", "cpu", "cpu-small")]
    return {
        "engines": engines(load("corpus/bf16.json")),
        "plan": plan(load("corpus/state.json")["plan"]),
        "saves": saves(records),
        "whole": whole(record),
        "grouping": grouping(found["110m"]),
        "convergence": convergence(found["110m"]),
        "summary": summary(found["110m"]),
    }


def everything(found: Found) -> str:
    """docs/study/tables.md."""
    parts = [
        "# All figures of the study\n\n",
        "Bits per value of every method and bound, by state, phase and distance, in two training "
        "runs. `study/page.py`\nwrites this page from the [records](../../study/record). "
        "[study.md](../study.md) explains it.\n",
    ]
    for run, label in RUNS.items():
        for state, (name, _) in STATES.items():
            parts.append(f"\n## {label}, {name}\n\nAlone:\n\n{alone(found[run], state)}")
            parts.append(f"\nAgainst a base:\n\n{against(found[run], state)}")
    return "".join(parts)
