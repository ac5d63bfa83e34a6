#!/usr/bin/env python3
"""torch.distributed.checkpoint with the writers of torch and with a store: a small GPT is trained
on some ranks with FSDP, and its state at two steps saved and loaded by each. Prints a Markdown
table.

    python bench/python/dcp.py --ranks 2 --width 512 --layers 8 --steps 20 5
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from lmckpt.dcp import StoreReader, StoreWriter
from torch.distributed.checkpoint._extension import ZStandard
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from train_gpt import Gpt, batch

CONTEXT = 64
# For each writer, what saves a step into a folder and what loads it.
ENGINES: dict[str, tuple[Callable[[Path, int], Any], Callable[[Path, int], Any]]] = {
    "FileSystemWriter": (
        lambda folder, step: dcp.FileSystemWriter(folder / str(step)),
        lambda folder, step: dcp.FileSystemReader(folder / str(step)),
    ),
    "FileSystemWriter, zstd": (
        lambda folder, step: dcp.FileSystemWriter(folder / str(step), _extensions=[ZStandard()]),
        lambda folder, step: dcp.FileSystemReader(folder / str(step)),
    ),
    "StoreWriter": (
        lambda folder, step: StoreWriter(folder, step=step, threads=1),
        lambda folder, step: StoreReader(folder, f"main@{step}", threads=1),
    ),
}


def copied(value: Any) -> Any:
    """A copy of a state, so that training can continue."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def states(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The state after each of the numbers of steps."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    text = torch.frombuffer(bytearray(Path(__file__).read_bytes()), dtype=torch.uint8).long()
    model = Gpt(options.width, options.layers, options.width // 64, CONTEXT)
    # By itself it would take a GPU, if there is one.
    mesh = init_device_mesh("cpu", (ranks,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    found = []
    for steps in options.steps:
        for _ in range(steps):
            x, y = (part.chunk(ranks)[rank] for part in batch(text, CONTEXT, 4 * ranks))
            loss = functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        weights, moments = get_state_dict(model, optimizer)
        found.append(copied({"model": weights, "optimizer": moments}))
    return found


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long all ranks take for something, and what it gives."""
    dist.barrier()
    start = time.perf_counter()
    result = work()
    dist.barrier()
    return time.perf_counter() - start, result


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def check(found: Any, wanted: Any) -> None:
    """Fails unless two states are the same."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            check(found[key], value)
    elif isinstance(wanted, torch.Tensor):
        local = [
            getattr(value, "to_local", lambda value=value: value)() for value in (found, wanted)
        ]
        assert torch.equal(*local)


def measure(name: str, folder: Path, both: list[dict[str, Any]]) -> dict[str, float]:
    """One round of one writer."""
    writer, reader = ENGINES[name]
    figures: dict[str, float] = {}
    size = 0
    for step, state in enumerate(both, 1):
        if name == "StoreWriter" and dist.get_rank() == 0 and step == 1:
            writer(folder, step)  # Makes the store.
        dist.barrier()
        size = size_of(folder)
        time_taken, _ = seconds(
            lambda step=step, state=state: dcp.save(state, storage_writer=writer(folder, step))
        )
        figures[f"save {step}"] = time_taken
        figures[f"bytes {step}"] = size_of(folder) - size
    target = copied(both[1])
    for tensor in _tensors(target):
        tensor.zero_()
    figures["load"], _ = seconds(lambda: dcp.load(target, storage_reader=reader(folder, 2)))
    check(target, both[1])
    start = time.perf_counter()
    future = dcp.async_save(both[0], storage_writer=writer(folder, 3))
    figures["blocked"] = time.perf_counter() - start
    future.result()
    figures["background"] = time.perf_counter() - start
    return figures


def _tensors(state: Any) -> list[torch.Tensor]:
    if isinstance(state, dict):
        return [tensor for value in state.values() for tensor in _tensors(value)]
    return [state] if isinstance(state, torch.Tensor) else []


def copy_seconds(state: dict[str, Any]) -> float:
    """How long a copy of a rank's shards takes, to existing memory."""
    tensors = [getattr(tensor, "to_local", lambda t=tensor: t)() for tensor in _tensors(state)]
    memory = [torch.empty_like(tensor) for tensor in tensors]
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for target, tensor in zip(memory, tensors, strict=True):
            target.copy_(tensor)
        best = min(best, time.perf_counter() - start)
    return best


def work(rank: int, options: argparse.Namespace, folder: str) -> None:
    """One rank."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(options.ranks))
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=options.ranks)
    both = states(options)
    best: dict[str, dict[str, float]] = {name: {} for name in ENGINES}
    for turn in range(options.rounds):
        for name in ENGINES:
            place = Path(folder) / f"{turn} {name}"
            for key, value in measure(name, place, both).items():
                best[name][key] = min(value, best[name].get(key, float("inf")))
            dist.barrier()
            if rank == 0:
                shutil.rmtree(place)
    own = sum(
        tensor.to_local().nbytes for tensor in _tensors(both[0]) if hasattr(tensor, "to_local")
    )
    total = torch.tensor(own)
    dist.all_reduce(total)
    copy = copy_seconds(both[0])
    if rank == 0:
        report(options, best, total.item() / 1e6, copy)
    dist.destroy_process_group()


def report(
    options: argparse.Namespace, best: dict[str, dict[str, float]], size: float, copy: float
) -> None:
    """Prints the table."""
    first, more = options.steps
    print(
        f"{size:.0f} MB of FSDP shards (f32 weights and Adam moments) on {options.ranks} ranks, "
        f"after {first} and {first + more} steps; least of {options.rounds} rounds. One copy of "
        f"a rank's shards takes {copy:.3f} s.\n"
    )
    print("| | first MB | second MB | save s | save s, second | load s | async_save blocks s |")
    print("|---|---|---|---|---|---|---|")
    for name, figures in best.items():
        cells = [figures["bytes 1"] / 1e6, figures["bytes 2"] / 1e6]
        times = [figures[key] for key in ("save 1", "save 2", "load", "blocked")]
        row = [f"{cell:.1f}" for cell in cells] + [f"{cell:.2f}" for cell in times]
        print(f"| {name} | {' | '.join(row)} |")


def main() -> None:
    """Runs all ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--steps", type=int, nargs=2, default=[20, 5])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where to save; a temporary folder otherwise")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        torch.multiprocessing.spawn(work, (options, folder), options.ranks)


if __name__ == "__main__":
    main()
