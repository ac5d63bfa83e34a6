"""The two training runs of the study: their models, phases, and the steps that are measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from model import Shape

# Steps between a checkpoint and its base.
DISTANCES = (1, 3, 10, 30, 100, 300, 1000)


@dataclass(frozen=True)
class Phase:
    """A part of a run. Each begins with new moments, as a run that starts from weights does."""

    name: str
    steps: int
    rate: float
    betas: tuple[float, float]
    # The rate grows for this many steps and then falls to a tenth on a cosine; 0: it is constant.
    warm_up: int
    # The steps whose checkpoint is compared with earlier ones.
    anchors: tuple[int, ...]

    def rate_at(self, step: int) -> float:
        """The learning rate of a step; the first is 1."""
        if not self.warm_up:
            return self.rate
        if step <= self.warm_up:
            return self.rate * step / self.warm_up
        done = (step - self.warm_up) / (self.steps - self.warm_up)
        return self.rate * (0.55 + 0.45 * math.cos(math.pi * done))

    def bases(self, anchor: int) -> dict[int, int]:
        """The base of an anchor at each distance. Step 0 has no moments, so it is not one."""
        return {d: anchor - d for d in DISTANCES if anchor - d > 0}


@dataclass(frozen=True)
class Sampling:
    """What a step of the RL-like phase samples."""

    prompts: int
    samples: int
    prompt_length: int
    new_length: int


@dataclass(frozen=True)
class Run:
    """A model and how it is trained."""

    name: str
    shape: Shape
    batch: int
    text_bytes: int
    # Whether installed packages are read beside the standard library.
    wide_text: bool
    phases: tuple[Phase, ...]
    sampling: Sampling
    # Every so many steps, bf16 weights are compared with those 10 and 100 steps before.
    curve_every: int

    def with_batch(self, batch: int | None) -> Run:
        return replace(self, batch=batch) if batch else self

    def with_anchors(self, anchors: list[str] | None) -> Run:
        """Other anchors, written `phase:step`."""
        if not anchors:
            return self
        wanted: dict[str, list[int]] = {}
        for anchor in anchors:
            name, step = anchor.split(":")
            wanted.setdefault(name, []).append(int(step))
        phases = tuple(replace(p, anchors=tuple(wanted.get(p.name, []))) for p in self.phases)
        return replace(self, phases=phases)


PRETRAIN, LATER = (0.9, 0.95), (0.9, 0.999)

RUNS = {
    "tiny": Run(
        name="tiny",
        shape=Shape(vocabulary=2048, width=192, hidden=512, layers=6, heads=6, context=128),
        batch=8,
        text_bytes=20_000_000,
        wide_text=False,
        phases=(
            Phase("pretrain", 1200, 1e-3, PRETRAIN, 60, (60, 300, 1200)),
            Phase("finetune", 320, 1e-5, LATER, 0, (320,)),
            Phase("rl", 320, 1e-6, LATER, 0, (320,)),
        ),
        sampling=Sampling(prompts=4, samples=4, prompt_length=16, new_length=16),
        curve_every=100,
    ),
    "110m": Run(
        name="110m",
        shape=Shape(vocabulary=16384, width=768, hidden=2048, layers=12, heads=12, context=1024),
        batch=16,
        text_bytes=200_000_000,
        wide_text=True,
        phases=(
            Phase("pretrain", 3000, 6e-4, PRETRAIN, 150, (150, 500, 1500, 3000)),
            Phase("finetune", 1020, 1e-5, LATER, 0, (1020,)),
            Phase("rl", 1020, 1e-6, LATER, 0, (1020,)),
        ),
        sampling=Sampling(prompts=8, samples=8, prompt_length=40, new_length=24),
        curve_every=100,
    ),
    # For a quick look at whether everything works: a minute, and its figures mean nothing.
    "smoke": Run(
        name="smoke",
        shape=Shape(vocabulary=1024, width=64, hidden=128, layers=2, heads=2, context=64),
        batch=4,
        text_bytes=2_000_000,
        wide_text=True,
        phases=(
            Phase("pretrain", 40, 1e-3, PRETRAIN, 10, (12, 40)),
            Phase("finetune", 12, 1e-5, LATER, 0, (12,)),
            Phase("rl", 12, 1e-6, LATER, 0, (12,)),
        ),
        sampling=Sampling(prompts=2, samples=4, prompt_length=8, new_length=8),
        curve_every=20,
    ),
}
