#!/usr/bin/env python3
"""What a plan of `lmc analyze --plan` promises, beside what a training run then loses.

    study/saves.py --lmc target/release/lmc --out study/record/saves/MACHINE.json

A small GPT is trained on two processes with FSDP. First without saves, which gives the time of a
step and two checkpoints. `lmc analyze --plan` says from these how long a save takes by each method
and how often it can be made. Then the training goes on with each writer of
torch.distributed.checkpoint in turn, at the interval that the plan gives for it, and the time that
the loop loses is measured. `lmc` needs the feature `bench`; lmckpt, torch and zstandard must be
installed.

A local disk is often faster than the storage of a cluster. A control group makes it as slow:

    cd /sys/fs/cgroup/blkio && mkdir slow
    echo "254:0 150000000" > slow/blkio.throttle.write_bps_device
    echo $$ > slow/cgroup.procs
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from safetensors.torch import save_file
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "bench/python")]
from dcp import ENGINES, _tensors
from timing import machine
from train_gpt import Gpt, batch

CONTEXT = 64
# What the plan calls the method of each writer.
METHODS = {
    "FileSystemWriter": ("none", "", False),
    "FileSystemWriter, zstd": ("zstd", "3", False),
    "StoreWriter": ("lmc", "default", True),
}


class Training:
    """A GPT on several ranks, which takes steps."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(0)
        source = (ROOT / "examples/train_gpt.py").read_bytes()
        self.text = torch.frombuffer(bytearray(source), dtype=torch.uint8).long()
        self.model = Gpt(options.width, options.layers, options.width // 64, CONTEXT)
        # By itself it would take a GPU, if there is one.
        mesh = init_device_mesh("cpu", (self.ranks,))
        for block in self.model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=options.rate)
        self.rows = options.rows

    def step(self) -> None:
        """One step; all ranks end it together."""
        rows = batch(self.text, CONTEXT, self.rows * self.ranks)
        x, y = (part.chunk(self.ranks)[self.rank] for part in rows)
        loss = functional.cross_entropy(self.model(x).flatten(0, 1), y.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        dist.barrier()

    def steps(self, count: int) -> float:
        """Takes steps, and gives the seconds that they take."""
        start = time.perf_counter()
        for _ in range(count):
            self.step()
        return time.perf_counter() - start

    def state(self) -> dict[str, Any]:
        weights, moments = get_state_dict(self.model, self.optimizer)
        return {"model": weights, "optimizer": moments}

    def write(self, path: Path) -> None:
        """The shards of this rank as a safetensors file, for the plan."""
        tensors = {}
        for name, value in flat("", self.state()):
            local = value.to_local() if hasattr(value, "to_local") else value
            tensors[name] = local.detach().clone().contiguous()
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path)


def flat(prefix: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a state with their names."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flat(f"{prefix}.{key}" if prefix else str(key), item)
    elif isinstance(value, torch.Tensor):
        yield prefix, value


def plan(options: argparse.Namespace, folder: Path, step_time: float, size: int) -> dict[str, Any]:
    """What the command plans for this state, and the speed of this storage."""
    command = [options.lmc, "analyze", "--json", "--plan", "--engines"]
    command += ["--cores", str(options.ranks), "--step-time", f"{step_time:.6f}"]
    command += ["--interval", str(options.distance), "--state-size", str(size)]
    command += ["--storage-dir", str(folder)]
    paths = [str(folder / f"step-{step}") for step in (1, 2)]
    done = subprocess.run([*command, *paths], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["plan"]


def method(planned: dict[str, Any], writer: str) -> dict[str, Any]:
    """The row of the plan for a writer."""
    engine, level, delta = METHODS[writer]
    for row in planned["methods"]:
        if (row["engine"], row["level"], row["delta"]) == (engine, level, delta):
            return row
    raise SystemExit(f"the plan has no method for {writer}")


def lost(
    training: Training, writer: str, folder: Path, interval: int, saves: int
) -> dict[str, Any]:
    """Trains with saves; what a save takes and what it makes the loop lose."""
    make, _ = ENGINES[writer]
    if writer == "StoreWriter" and training.rank == 0:
        make(folder, 0)  # Makes the store.
    dist.barrier()
    # The first save of a run has no base, and is not what the plan is about.
    dcp.save(training.state(), storage_writer=make(folder, 0))
    waits, stepping = [], 0.0
    for save in range(1, saves + 1):
        stepping += training.steps(interval)
        start = time.perf_counter()
        dcp.save(training.state(), storage_writer=make(folder, save))
        dist.barrier()
        waits.append(time.perf_counter() - start)
    return {
        "save": statistics.median(waits),
        "saves": waits,
        "lost": sum(waits) / (stepping + sum(waits)),
        "step_time": stepping / (interval * saves),
    }


def work(rank: int, options: argparse.Namespace, place: str) -> None:
    """One rank."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(options.ranks))
    meeting = f"file://{place}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=options.ranks)
    folder = Path(place)
    training = Training(options)
    training.steps(options.warm_up)
    training.write(folder / "step-1" / f"rank-{rank}.safetensors")
    step_time = training.steps(options.distance) / options.distance
    training.write(folder / "step-2" / f"rank-{rank}.safetensors")
    dist.barrier()
    own = [t.to_local() for t in _tensors(training.state()) if hasattr(t, "to_local")]
    size = torch.tensor(sum(tensor.nbytes for tensor in own))
    dist.all_reduce(size)
    shared: list[Any] = [None]
    if rank == 0:
        shared[0] = plan(options, folder, step_time, int(size))
    dist.broadcast_object_list(shared)
    rows = []
    for writer in ENGINES:
        row = method(shared[0], writer)
        seconds = row["shortest_blocking"][str(options.percent)]
        interval = max(1, math.ceil(seconds / step_time))
        found = lost(training, writer, folder / writer, interval, options.saves)
        found |= {"writer": writer, "interval": interval, "planned_save": row["save"]}
        found["planned_lost"] = row["save"] / (interval * step_time + row["save"])
        rows.append(found)
        if rank == 0:
            print(json.dumps(found), flush=True)
    if rank == 0:
        content = {
            "schema": 1,
            "machine": machine(),
            "ranks": options.ranks,
            "state_bytes": int(size),
            "step_time": step_time,
            "percent": options.percent,
            "inputs": shared[0]["inputs"],
            "rows": rows,
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(content, indent=1) + "\n")
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lmc", required=True, help="the command, built with the feature bench")
    parser.add_argument("--out", required=True, type=Path, help="the record, a JSON file")
    parser.add_argument("--folder", help="where to save; a temporary folder otherwise")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rows", type=int, default=2, help="rows of text per step and rank")
    parser.add_argument("--rate", type=float, default=1e-4, help="the learning rate")
    parser.add_argument("--warm-up", type=int, default=40, help="steps before anything is measured")
    parser.add_argument("--distance", type=int, default=20, help="steps between the checkpoints")
    parser.add_argument("--saves", type=int, default=5, help="saves for each writer")
    parser.add_argument("--percent", type=int, choices=(1, 2, 5), default=5, help="time to lose")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        torch.multiprocessing.spawn(work, (options, place), options.ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
