"""Checkpoints of a run compared with earlier ones while the run continues.

A window is a checkpoint (the anchor) and its bases, 1 to 1000 steps earlier. Copies of the bases
stay on the device until the anchor is reached. Bounds are computed there; sizes by lmc come from a
thread beside the training. After each window the record is written again, so a run that is cut off
keeps what it had.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import bounds
import torch
from settings import Phase, Run
from sizes import WHOLE, Sizer, Tensors, sample, values, whole, write

# Windows that may wait for their sizes; each holds up to eight states.
WAITING = 3
States = dict[str, Tensors]


def states_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> States:
    """A copy of everything that training holds after a step."""
    found: States = {"weights-bf16": {}, "weights-fp32": {}, "adam-m": {}, "adam-v": {}}
    found["gradients"] = {}
    for name, weights in model.named_parameters():
        state = optimizer.state[weights]
        found["weights-bf16"][name] = weights.detach().bfloat16()
        found["weights-fp32"][name] = weights.detach().clone()
        found["adam-m"][name] = state["exp_avg"].clone()
        found["adam-v"][name] = state["exp_avg_sq"].clone()
        found["gradients"][name] = weights.grad.clone()
    return found


def side_stream() -> contextlib.AbstractContextManager[Any]:
    """Copies from a GPU that do not wait for the training that is queued there."""
    if torch.cuda.is_available():
        return torch.cuda.stream(torch.cuda.Stream())
    return contextlib.nullcontext()


def kind_of(name: str) -> str:
    return re.sub(r"\b\d+\b", "*", name)


def alone(tensors: Tensors) -> dict[str, Any]:
    """Bounds of a state without a base."""
    parts = [(tensor.numel(), bounds.alone(tensor)) for tensor in tensors.values()]
    return bounds.mean(bounds.ALONE, parts)


def change(current: Tensors, base: Tensors) -> dict[str, Any]:
    """Bounds of a state against a base, overall and by kind of layer."""
    parts: dict[str, list[tuple[int, torch.Tensor]]] = {}
    for name, tensor in current.items():
        figures = bounds.change(tensor, base[name])
        parts.setdefault(kind_of(name), []).append((tensor.numel(), figures))
    everything = [part for kind in parts.values() for part in kind]
    found = bounds.mean(bounds.CHANGE, everything)
    found["kinds"] = {}
    for kind, own in parts.items():
        figures = bounds.mean(bounds.CHANGE, own)
        keys = ("values", "unchanged", "xor", "difference_given_exponent")
        found["kinds"][kind] = {key: figures[key] for key in keys}
    return found


class Record:
    """The figures of a run, as JSON."""

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self.path, self.content = path, content
        self.lock = threading.Lock()

    def write(self) -> None:
        """Puts a whole file in the place of the last."""
        with self.lock:
            text = json.dumps(self.content, indent=1)
            # Lists of numbers on one line.
            text = re.sub(r"\[\s+([-\d.,\se]+?)\s+\]", lambda m: f"[{_joined(m[1])}]", text)
            part = self.path.with_suffix(".part")
            part.write_text(text + "\n")
            os.replace(part, self.path)


def _joined(numbers: str) -> str:
    return ", ".join(number.strip() for number in numbers.split(","))


class Windows:
    """What is held and measured as a run passes its steps."""

    def __init__(self, run: Run, record: Record, sizer: Sizer | None) -> None:
        self.run, self.record, self.sizer = run, record, sizer
        # Copies by step, of one phase.
        self.held: dict[int, States] = {}
        self.weights: dict[int, Tensors] = {}
        self.jobs: queue.Queue[tuple[dict[str, Any], dict[int, States]] | None]
        self.jobs = queue.Queue(WAITING)
        self.failed: Exception | None = None
        self.thread = threading.Thread(target=self._work, daemon=True)
        if sizer:
            self.thread.start()

    def begin(self) -> None:
        """A phase begins: bases are of the same phase."""
        self.held.clear()
        self.weights.clear()

    def after(self, phase: Phase, step: int, take: Any) -> None:
        """A step has passed; `take` gives a copy of its states."""
        if self.failed:
            raise RuntimeError("lmc could not be measured") from self.failed
        states = None
        if step in phase.anchors:
            states = take()
            self._window(phase, step, states)
        later = [anchor for anchor in phase.anchors if step in phase.bases(anchor).values()]
        if later:
            self.held[step] = states or take()
        self._curve(phase, step, take)

    def _window(self, phase: Phase, anchor: int, states: States) -> None:
        bases = {d: self.held[step] for d, step in phase.bases(anchor).items()}
        window: dict[str, Any] = {"phase": phase.name, "step": anchor, "alone": {}, "pairs": []}
        for kind, tensors in states.items():
            window["alone"][kind] = alone(tensors)
        for distance, base in bases.items():
            kinds = {kind: change(tensors, base[kind]) for kind, tensors in states.items()}
            window["pairs"].append({"distance": distance, "states": kinds})
        self.record.content["windows"].append(window)
        needed = {s for a in phase.anchors if a > anchor for s in phase.bases(a).values()}
        self.held = {step: held for step, held in self.held.items() if step in needed}
        self.record.write()
        if self.sizer:
            self.jobs.put((window, {0: states, **bases}))

    def _curve(self, phase: Phase, step: int, take: Any) -> None:
        every = self.run.curve_every
        if step % every not in (0, every - 10):
            return
        tensors = take()["weights-bf16"]
        if step % every == 0:
            row: dict[str, Any] = {"phase": phase.name, "step": step}
            row["bound"] = alone(tensors)["bound"]
            for distance in (10, every):
                base = self.weights.get(step - distance)
                if base:
                    found = change(tensors, base)
                    keys = ("unchanged", "xor", "difference_given_exponent")
                    row[str(distance)] = {key: found[key] for key in keys}
            self.record.content["curve"].append(row)
            self.weights.clear()
        self.weights[step] = tensors

    def _work(self) -> None:
        """The thread that asks lmc."""
        while job := self.jobs.get():
            try:
                start = time.monotonic()
                with side_stream():
                    self._sizes(*job)
                self.record.write()
                where = f"{job[0]['phase']} {job[0]['step']}"
                print(f"sizes of {where}: {time.monotonic() - start:.1f} s", flush=True)
            except Exception as error:  # noqa: BLE001, since after() and finish() raise it again
                self.failed = error
                print(f"sizes: {error!r}", file=sys.stderr, flush=True)
            del job
            self.jobs.task_done()

    def _sizes(self, window: dict[str, Any], states: dict[int, States]) -> None:
        folder = self.sizer.folder
        distances = [distance for distance in states if distance]
        slow: list[tuple[dict[str, Any], Path, Path | None]] = []
        for kind in [*states[0], "whole"]:
            current, part = folder / f"{kind}.current", folder / f"{kind}.0.sample"
            tensors = whole(states[0]) if kind == "whole" else states[0][kind]
            write(current, tensors)
            figures = window["alone"].setdefault(kind, {"values": values(tensors)})
            figures["bytes"] = self.sizer.levels(kind, current, None)
            if kind != "whole":
                write(part, sample(tensors))
                slow.append((figures, part, None))
            for distance in distances:
                if kind == "whole" and distance not in WHOLE:
                    continue
                old = states[distance]
                pair = next(p for p in window["pairs"] if p["distance"] == distance)
                tensors = whole(old) if kind == "whole" else old[kind]
                base = folder / f"{kind}.base"
                write(base, tensors)
                found = pair["states"].setdefault(kind, {"values": values(tensors)})
                found["bytes"] = self.sizer.levels(kind, current, base)
                if kind == "weights-bf16" and distance == min(100, max(distances)):
                    self.sizer.keep_pair(current, base)
                base.unlink()
                if kind != "whole":
                    old_part = folder / f"{kind}.{distance}.sample"
                    write(old_part, sample(tensors))
                    slow.append((found, part, old_part))
            current.unlink()
        engines = self.sizer.engines([(path, base) for _, path, base in slow])
        for (figures, *_), found in zip(slow, engines, strict=True):
            figures["sample_bits_per_byte"] = found
        for path in folder.glob("*.sample"):
            path.unlink()

    def finish(self) -> None:
        """Waits for the sizes of all windows."""
        if self.sizer:
            self.jobs.put(None)
            self.thread.join()
        if self.failed:
            raise RuntimeError("lmc could not be measured") from self.failed
