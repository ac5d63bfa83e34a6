"""Line charts side by side, as one SVG file.

Goes in: panels of lines, each a list of points. Comes out: the text of a file that reads well on
light and on dark pages. The x axis is logarithmic where a panel says so.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
from svg import document, line, text

# By Okabe and Ito, told apart by colour-blind people too; the second of each is for dark pages.
COLORS = (
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff8c42"),
    ("#009e73", "#34c99a"),
    ("#b8578f", "#e699c6"),
    ("#8a6d00", "#f0c808"),
    ("#3d444d", "#d1d7e0"),
)
WIDTH, PANEL_HEIGHT, MARGIN, GAP, TOP = 860, 250, 44, 30, 62
# Room on the right for half of the last number.
RIGHT = 24
LEGEND_COLUMN, LEGEND_LINE = 202, 20


@dataclass(frozen=True)
class Line:
    """Points in the order of x; a dashed line is a bound, and shares the colour of its number."""

    name: str
    points: list[tuple[float, float]]
    color: int
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """A chart: its title and its lines."""

    title: str
    lines: list[Line]
    logarithmic: bool = True
    # Where the y axis begins.
    bottom: float = 0.0


def style() -> str:
    light = "".join(
        f"\n  .c{i} {{ stroke: {pair[0]}; fill: {pair[0]}; }}" for i, pair in enumerate(COLORS)
    )
    dark = "".join(
        f"\n    .c{i} {{ stroke: {pair[1]}; fill: {pair[1]}; }}" for i, pair in enumerate(COLORS)
    )
    return (
        "  path { fill: none !important; stroke-width: 2; }\n"
        "  .dashed { stroke-dasharray: 5 4; stroke-width: 1.5; }"
        f"{light}\n  @media (prefers-color-scheme: dark) {{{dark}\n  }}\n"
    )


def ticks(bottom: float, top: float) -> list[float]:
    """About four round numbers from `bottom` to a little above `top`."""
    rough = (top - bottom) / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    return [bottom + step * i for i in range(math.ceil((top - bottom) / step) + 1)]


class Axes:
    """Where points of a panel are."""

    def __init__(self, panel: Panel, left: float, width: float, top: float) -> None:
        self.panel, self.left, self.width, self.top = panel, left, width, top
        xs = [x for line in panel.lines for x, _ in line.points]
        ys = [y for line in panel.lines for _, y in line.points]
        self.low, self.high = self.scaled(min(xs)), self.scaled(max(xs))
        self.marks = ticks(panel.bottom, max(ys))

    def scaled(self, x: float) -> float:
        return math.log(x) if self.panel.logarithmic else x

    def x(self, x: float) -> float:
        span = self.high - self.low or 1.0
        return self.left + (self.scaled(x) - self.low) / span * self.width

    def y(self, y: float) -> float:
        low, high = self.marks[0], self.marks[-1]
        return self.top + PANEL_HEIGHT * (high - y) / (high - low)

    def draw(self) -> list[str]:
        right, bottom = self.left + self.width, self.top + PANEL_HEIGHT
        parts = [text(self.left, self.top - 14, self.panel.title, kind="title")]
        for mark in self.marks:
            parts.append(line(self.left, self.y(mark), right, self.y(mark), "grid"))
            parts.append(text(self.left - 6, self.y(mark) + 4, f"{mark:g}", "end", "note"))
        xs = sorted({x for line in self.panel.lines for x, _ in line.points})
        if not self.panel.logarithmic:
            xs = [mark for mark in ticks(0.0, xs[-1]) if xs[0] <= mark <= xs[-1]]
        for x in xs:
            parts.append(text(self.x(x), bottom + 18, f"{x:g}", "middle", "note"))
        for one in self.panel.lines:
            places = [f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in one.points]
            kind = f"c{one.color}" + (" dashed" if one.dashed else "")
            parts.append(f'<path class="{kind}" d="M{" L".join(places)}"/>')
            if not one.dashed:
                parts += [
                    f'<circle class="c{one.color}" cx="{place.split(",")[0]}"'
                    f' cy="{place.split(",")[1]}" r="3"/>'
                    for place in places
                ]
        return parts


def legend(panels: list[Panel], top: float) -> tuple[list[str], int]:
    """The names of all lines, each once, and how many rows they take."""
    seen = {line.name: line for panel in panels for line in panel.lines}
    columns = (WIDTH - MARGIN) // LEGEND_COLUMN
    parts = []
    for i, one in enumerate(seen.values()):
        x, y = MARGIN + i % columns * LEGEND_COLUMN, top + i // columns * LEGEND_LINE
        kind = f"c{one.color}" + (" dashed" if one.dashed else "")
        parts.append(f'<path class="{kind}" d="M{x},{y - 4} L{x + 24},{y - 4}"/>')
        parts.append(text(x + 30, y, one.name, kind="note"))
    return parts, math.ceil(len(seen) / columns)


def chart(title: str, axis: str, panels: list[Panel], columns: int = 2) -> str:
    """A file with all panels, `columns` of them beside each other."""
    rows = math.ceil(len(panels) / columns)
    width = (WIDTH - MARGIN - RIGHT - (columns - 1) * (GAP + MARGIN)) / columns
    parts = [text(8, 24, title, kind="title")]
    for i, panel in enumerate(panels):
        left = MARGIN + i % columns * (width + GAP + MARGIN)
        top = TOP + i // columns * (PANEL_HEIGHT + 66)
        parts += Axes(panel, left, width, top).draw()
    bottom = TOP + rows * (PANEL_HEIGHT + 66)
    parts.append(text(WIDTH - RIGHT, bottom - 22, axis, "end", "note"))
    names, lines = legend(panels, bottom + 8)
    return document(title, WIDTH, bottom + lines * LEGEND_LINE + 8, parts + names, style())
