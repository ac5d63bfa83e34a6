#!/usr/bin/env python3
"""Trains a small language model in three phases and measures how its checkpoints compress.

    study/train.py --size tiny --lmc target/release/lmc --out tiny.json       # minutes on a CPU
    study/train.py --size 110m --lmc target/release/lmc --out 110m.json       # minutes on a GPU

Phases: pretraining (AdamW, warm-up, cosine decay); fine-tuning on other text at a constant small
rate; and steps of the size that reinforcement learning takes. These sample text from the model,
reward the share of tokens that are words, and follow the policy gradient (REINFORCE with the mean
of a prompt's samples as the baseline). Weights are fp32, and a GPU computes in bf16.

Weights are not kept: figures go to --out. `lmc` needs the feature `bench`. With --minutes the run
stops after that time; with --state it can be continued by the same command. Needs torch and numpy.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import text
import torch
from model import Model
from settings import RUNS, Phase, Run
from sizes import Sizer
from torch.nn import functional
from windows import Record, Windows, states_of


class Training:
    """A model in training."""

    def __init__(self, run: Run, device: str, seed: int, compiled: bool) -> None:
        self.run, self.device = run, device
        # First, since it forks.
        self.text = text.load(run.shape.vocabulary, run.text_bytes, run.wide_text)
        torch.manual_seed(seed)
        self.model = Model(run.shape).to(device)
        self.forward = self.model
        self.tokens = {
            name: torch.frombuffer(tokens, dtype=torch.int16).to(device)
            for name, tokens in (("train", self.text.train), ("other", self.text.other))
        }
        words = [len(word) > 2 and word.strip().isalpha() for word in self.text.words]
        self.is_word = torch.tensor(words, dtype=torch.float32, device=device)
        self.optimizer: torch.optim.Optimizer
        if compiled:
            self.compile()
        torch.manual_seed(seed)

    def compile(self) -> None:
        """Compiles the model where the machine has what that needs."""
        self.forward = torch.compile(self.model, dynamic=False)
        start = time.monotonic()
        try:
            self.loss_of_text("train").backward()
        except (RuntimeError, OSError) as error:
            print(f"runs without torch.compile: {error!r}"[:500], flush=True)
            self.forward = self.model
        self.model.zero_grad()
        print(f"compiled in {time.monotonic() - start:.0f} s", flush=True)

    def begin(self, phase: Phase) -> None:
        """New moments. Matrices decay, norms do not."""
        matrices = [weights for weights in self.model.parameters() if weights.dim() == 2]
        norms = [weights for weights in self.model.parameters() if weights.dim() != 2]
        groups = [
            {"params": matrices, "weight_decay": 0.1},
            {"params": norms, "weight_decay": 0.0},
        ]
        fused = self.device == "cuda"
        self.optimizer = torch.optim.AdamW(groups, phase.rate, phase.betas, 1e-8, fused=fused)

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        if self.device == "cuda":
            return torch.autocast("cuda", torch.bfloat16)
        return contextlib.nullcontext()

    def rows(self, kind: str, count: int, length: int) -> torch.Tensor:
        """Random places of a text."""
        tokens = self.tokens[kind]
        starts = torch.randint(len(tokens) - length, (count, 1))
        places = (starts + torch.arange(length)).to(self.device)
        return tokens[places].long() & 0xFFFF

    def loss_of_text(self, kind: str) -> torch.Tensor:
        rows = self.rows(kind, self.run.batch, self.run.shape.context + 1)
        with self.precision():
            scores = self.forward(rows[:, :-1].contiguous())
            return functional.cross_entropy(scores.flatten(0, 1).float(), rows[:, 1:].flatten())

    def loss_of_samples(self) -> torch.Tensor:
        """The policy gradient of the model's own text."""
        sampling = self.run.sampling
        start = sampling.prompt_length
        prompts = self.rows("other", sampling.prompts, start)
        rows = prompts.repeat_interleave(sampling.samples, 0)
        # Of one length throughout, so that there is one shape to compile for.
        rows = functional.pad(rows, (0, sampling.new_length))
        with torch.no_grad(), self.precision():
            for place in range(start, rows.shape[1]):
                scores = self.forward(rows)[:, place - 1].float()
                rows[:, place] = torch.multinomial(scores.softmax(-1), 1).squeeze(1)
        reward = self.is_word[rows[:, start:]].mean(1).view(sampling.prompts, sampling.samples)
        spread = reward.std(1, keepdim=True) + 1e-6
        advantage = ((reward - reward.mean(1, keepdim=True)) / spread).flatten()
        with self.precision():
            scores = self.forward(rows)[:, start - 1 : -1]
        chosen = functional.cross_entropy(
            scores.flatten(0, 1).float(), rows[:, start:].flatten(), reduction="none"
        ).view(rows.shape[0], -1)
        self.reward = reward.mean()
        return (chosen.mean(1) * advantage).mean()

    def step(self, phase: Phase, step: int) -> torch.Tensor:
        """One step; gives its loss, or the mean reward where there is one."""
        for group in self.optimizer.param_groups:
            group["lr"] = phase.rate_at(step)
        self.optimizer.zero_grad()
        if phase.name == "rl":
            loss = self.loss_of_samples()
        else:
            loss = self.loss_of_text("other" if phase.name == "finetune" else "train")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return self.reward if phase.name == "rl" else loss.detach()

    def copy(self) -> dict[str, dict[str, torch.Tensor]]:
        return states_of(self.model, self.optimizer)


def facts(run: Run, training: Training, options: argparse.Namespace) -> dict[str, Any]:
    """What a record says of its run."""
    shape, sampling = vars(run.shape), vars(run.sampling)
    gpu = torch.cuda.get_device_name() if training.device == "cuda" else None
    return {
        "schema": 1,
        "run": run.name,
        "parameters": sum(weights.numel() for weights in training.model.parameters()),
        "model": dict(shape),
        "batch": run.batch,
        "sampling": dict(sampling),
        "phases": [vars(phase) for phase in run.phases],
        "text": training.text.facts,
        "seed": options.seed,
        "gpu": gpu,
        "compute": "bf16 autocast" if gpu else "fp32",
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "log": [],
        "curve": [],
        "windows": [],
    }


class Progress:
    """Prints and records the loss and the speed every so many steps."""

    def __init__(self, record: Record, every: int) -> None:
        self.record, self.every = record, every
        self.total, self.start = 0.0, time.monotonic()

    def after(self, phase: Phase, step: int, loss: torch.Tensor) -> None:
        self.total = self.total + loss
        if step % self.every:
            return
        seconds = (time.monotonic() - self.start) / self.every
        row = {"phase": phase.name, "step": step, "rate": phase.rate_at(step)}
        row["reward" if phase.name == "rl" else "loss"] = round(float(self.total) / self.every, 4)
        row["seconds_per_step"] = round(seconds, 4)
        self.record.content["log"].append(row)
        print(row, flush=True)
        self.total, self.start = 0.0, time.monotonic()


def save(path: Path, training: Training, windows: Windows, phase: int, step: int) -> None:
    """Everything that is needed to continue."""
    state = {
        "model": training.model.state_dict(),
        "optimizer": training.optimizer.state_dict(),
        "random": torch.get_rng_state(),
        "random of the GPU": torch.cuda.get_rng_state() if training.device == "cuda" else None,
        "held": windows.held,
        "weights": windows.weights,
        "record": windows.record.content,
        "phase": phase,
        "step": step,
    }
    part = path.with_suffix(".part")
    torch.save(state, part)
    part.replace(path)


def go_on(path: Path, training: Training, windows: Windows) -> tuple[int, int]:
    """The phase and step to continue after."""
    if not path.exists():
        return 0, 0
    state = torch.load(path, map_location=training.device, weights_only=True)
    training.model.load_state_dict(state["model"])
    training.begin(training.run.phases[state["phase"]])
    training.optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"].cpu())
    if training.device == "cuda":
        torch.cuda.set_rng_state(state["random of the GPU"].cpu())
    windows.held, windows.weights = state["held"], state["weights"]
    sized = path.with_name("record.json")
    known = json.loads(sized.read_text()) if sized.exists() else state["record"]
    windows.record.content.update(known)
    print(f"continues after step {state['step']} of {training.run.phases[state['phase']].name}")
    return state["phase"], state["step"]


def train(options: argparse.Namespace, training: Training, windows: Windows) -> bool:
    """Runs all phases; false if time ran out first."""
    run = training.run
    deadline = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    state = Path(options.state) / "state.pt" if options.state else None
    first, done = go_on(state, training, windows) if state else (0, 0)
    every = 50 if run.name == "110m" else 20
    for number, phase in enumerate(run.phases[first:], first):
        if done == 0:
            training.begin(phase)
            windows.begin()
        progress = Progress(windows.record, every)
        for step in range(done + 1, phase.steps + 1):
            progress.after(phase, step, training.step(phase, step))
            windows.after(phase, step, training.copy)
            if time.monotonic() > deadline:
                if state:
                    state.parent.mkdir(parents=True, exist_ok=True)
                    save(state, training, windows, number, step)
                print(f"out of time after step {step} of {phase.name}", flush=True)
                return False
        done = 0
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=RUNS, default="tiny")
    parser.add_argument("--out", required=True, type=Path, help="the record, a JSON file")
    parser.add_argument("--lmc", help="the command, built with the feature bench; sizes need it")
    parser.add_argument("--anchors", nargs="*", metavar="PHASE:STEP", help="checkpoints to measure")
    parser.add_argument("--batch", type=int, help="rows of text per step")
    parser.add_argument("--minutes", type=float, help="stop training after this time")
    parser.add_argument("--state", help="a folder to keep the state in, to continue from later")
    parser.add_argument("--folder", help="for temporary files; /dev/shm if there is one")
    parser.add_argument("--keep", type=Path, help="a folder for bf16 weights of the last anchor")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="for lmc")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    run = RUNS[options.size].with_batch(options.batch).with_anchors(options.anchors)
    compiled = options.device == "cuda" if options.compile is None else options.compile
    torch.set_float32_matmul_precision("high")
    training = Training(run, options.device, options.seed, compiled)
    record = Record(options.out, facts(run, training, options))
    shared = Path("/dev/shm")
    folder = options.folder or (shared if shared.is_dir() else None)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        sizer = None
        if options.lmc:
            sizer = Sizer(options.lmc, Path(place), options.threads, options.keep)
        windows = Windows(run, record, sizer)
        finished = train(options, training, windows)
        windows.finish()
        record.write()
        if options.state and not finished:
            # With the sizes that were missing when the state was saved.
            shutil.copyfile(options.out, Path(options.state) / "record.json")
    print("finished" if finished else "not finished: the same command continues")
    return 0


if __name__ == "__main__":
    sys.exit(main())
