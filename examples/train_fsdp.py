"""Trains a small GPT on several ranks with FSDP and saves its shards into a store every few steps.
When it is started again, it continues from the last save, on the same number of ranks or another.

    torchrun --standalone --nproc-per-node 2 examples/train_fsdp.py --store /tmp/store --steps 20
    torchrun --standalone --nproc-per-node 3 examples/train_fsdp.py --store /tmp/store --steps 40
    python examples/train_fsdp.py --store /tmp/store --steps 60

Needs lmckpt and torch; runs on a CPU in a minute.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from typing import Any, NoReturn

import lmckpt
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from lmckpt.dcp import StoreReader, StoreWriter
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from train_gpt import Gpt, batch

# What 1, 2, 3, 4 and 6 ranks can share.
BATCH = 12


class Training:
    """Model and optimizer as torch.distributed.checkpoint saves and loads them."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer, self.step = model, optimizer, 0

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        self.step = state["step"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a small GPT on several ranks.")
    parser.add_argument(
        "--store", required=True, help="where snapshots go; created if it does not exist"
    )
    # Not --run, which torchrun takes for an option of its own.
    parser.add_argument("--run-name", dest="run", default="fsdp")
    parser.add_argument("--resume", help="a snapshot to continue from instead of the run's latest")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--every", type=int, default=5, help="steps from one save to the next")
    parser.add_argument("--losses", help="a file that each step's loss is added to")
    options = parser.parse_args()

    # Without torchrun, this is the only rank.
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("MASTER_PORT", "0" if os.environ["WORLD_SIZE"] == "1" else "29500")
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    source = pathlib.Path(__file__).with_name("train_gpt.py").read_bytes()
    text = torch.frombuffer(bytearray(source), dtype=torch.uint8).long()
    model = Gpt()
    # By itself it would take a GPU, if there is one.
    mesh = init_device_mesh("cpu", (ranks,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    training = Training(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    state = {"training": training}

    store = lmckpt.Store(options.store, create=True)
    resume = options.resume
    if resume is None and store.latest(options.run) is not None:
        resume = f"{options.run}@latest"
    if resume is not None:
        dcp.load(state, storage_reader=StoreReader(store, resume))
        if rank == 0:
            print(f"continues after step {training.step}")
    while training.step < options.steps:
        training.step += 1
        # The same batch for any number of ranks, of which each takes its share.
        torch.manual_seed(training.step)
        x, y = (part.chunk(ranks)[rank] for part in batch(text, size=BATCH))
        loss = functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        training.optimizer.zero_grad()
        loss.backward()
        training.optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        mean /= ranks
        if rank == 0:
            print(f"step {training.step}: loss {mean.item():.4f}", flush=True)
            if options.losses:
                with open(options.losses, "a") as file:
                    file.write(f"{training.step} {mean.item().hex()}\n")
        if training.step % options.every == 0 or training.step == options.steps:
            writer = StoreWriter(store, options.run, training.step, meta={"loss": mean.item()})
            dcp.save(state, storage_writer=writer)
    dist.destroy_process_group()


def leave() -> NoReturn:
    """Ends the process without shutting the interpreter down.

    The threads of gloo outlive destroy_process_group() here, since caches of torch keep the group.
    One that releases a tensor asks for the interpreter's lock; if the interpreter is shutting
    down, Python before 3.14 ends that thread by unwinding it, inside a C++ destructor, and the
    process dies with "terminate called without an active exception" though all its work is done.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
    leave()
