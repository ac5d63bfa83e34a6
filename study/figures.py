"""Reads the records of the study: bits per value by state, phase, distance and method."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parent / "record"
# Every state of a run: its name in a record, what it is called, and bytes per value.
STATES = {
    "weights-bf16": ("bf16 weights", 2),
    "weights-fp32": ("f32 master weights", 4),
    "adam-m": ("first moment", 4),
    "adam-v": ("second moment", 4),
    "gradients": ("gradients", 4),
}
PHASES = {"pretrain": "pretraining", "finetune": "fine-tuning", "rl": "RL"}
BOUNDS = {
    "bound": "exponent",
    "xor": "XOR",
    "difference": "difference",
    "difference_given_exponent": "given exponent",
}
LEVELS = ("paper", "fast", "default", "max")


@dataclass(frozen=True)
class Row:
    """A state at a step, alone or against a base some steps earlier."""

    run: str
    phase: str
    step: int
    state: str
    # None: without a base.
    distance: int | None
    figures: dict[str, Any]

    @property
    def moment(self) -> str:
        return f"{PHASES[self.phase]}, step {self.step:,}"

    def bits(self, method: str) -> float | None:
        """Bits per value of a bound, a level of lmc, or another compressor."""
        if method in BOUNDS:
            return self.figures.get(method)
        if method in LEVELS:
            size = self.figures.get("bytes", {}).get(method)
            return None if size is None else 8 * size / self.figures["values"]
        per_byte = self.figures.get("sample_bits_per_byte", {}).get(method)
        return None if per_byte is None else per_byte * STATES[self.state][1]

    def ratio(self, method: str) -> float | None:
        bits = self.bits(method)
        return None if bits is None else 8 * STATES[self.state][1] / bits


def load(name: str) -> dict[str, Any]:
    return json.loads((RECORD / name).read_text())


def rows(record: dict[str, Any]) -> Iterator[Row]:
    """Every state at every measured step, first alone and then against each base."""
    for window in record["windows"]:
        place = (record["run"], window["phase"], window["step"])
        for state in STATES:
            if state in window["alone"]:
                yield Row(*place, state, None, window["alone"][state])
            for pair in window["pairs"]:
                if state in pair["states"]:
                    yield Row(*place, state, pair["distance"], pair["states"][state])


def find(rows: list[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(getattr(row, key) == value for key, value in wanted.items())]
