#!/usr/bin/env python3
"""lmckpt.delta and lmckpt.apply beside XOR and zstd: bytes, seconds, and extra memory.

Each pair of weights is measured in rounds, in which every way has its turn; the fastest round
counts. Memory is the most that a call took beyond what was there before it, in a process of its
own. XOR is done by torch, and zstd has the same number of threads.

    python bench/python/delta.py --threads 2
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmckpt
import torch
import zstandard
from timing import MIB, machine, print_table, seconds
from weights import model, size_of

Tensors = dict[str, torch.Tensor]
SEED = 21


def made(size: int, share: float) -> tuple[Tensors, Tensors]:
    """Weights, and the same with this share of the values moved by a step or two."""
    old = model(size)
    torch.manual_seed(SEED)
    new = {name: tensor.clone() for name, tensor in old.items()}
    for tensor in new.values():
        words = tensor.view(torch.int16).view(-1)
        chosen = torch.rand(words.shape) < share
        words[chosen] += torch.randint(1, 3, (int(chosen.sum()),), dtype=torch.int16)
    return old, new


def pair(corpus: Path, size: int) -> tuple[Tensors, Tensors]:
    """Two steps of a run of reinforcement learning, repeated until they have this size."""
    from safetensors.torch import load_file

    steps = [
        load_file(corpus / f"rl/{step}.weights-bf16.safetensors") for step in ("000020", "000021")
    ]
    times = max(1, round(size / size_of(steps[0])))
    old, new = (
        {f"{i}.{name}": shuffled(value, i) for i in range(times) for name, value in step.items()}
        for step in steps
    )
    return old, new


def shuffled(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """The same rows in another order, so that no tensor is a copy of another one."""
    order = torch.randperm(len(tensor), generator=torch.Generator().manual_seed(seed))
    return tensor[order]


def xor(old: Tensors, new: Tensors) -> torch.Tensor:
    """The XOR of all words, in one tensor; words that are equal give 0."""
    out = torch.empty(size_of(old) // 2, dtype=torch.int16)
    at = 0
    for name, tensor in old.items():
        place = out[at : at + tensor.numel()]
        torch.bitwise_xor(words_of(tensor), words_of(new[name]), out=place)
        at += tensor.numel()
    return out


def words_of(tensor: torch.Tensor) -> torch.Tensor:
    """The words of a tensor, which stay where they are."""
    return tensor.view(torch.int16).view(-1)


def xor_delta(old: Tensors, new: Tensors, threads: int) -> bytes:
    """What zstd makes of the words that differ."""
    packer = zstandard.ZstdCompressor(level=1, threads=threads)
    return packer.compress(xor(old, new).numpy().view("u1"))


def xor_apply(old: Tensors, data: bytes, threads: int) -> None:
    """Turns the old weights into the new ones."""
    unpacked = bytearray(zstandard.ZstdDecompressor().decompress(data))
    words = torch.frombuffer(unpacked, dtype=torch.int16)
    at = 0
    for tensor in old.values():
        words_of(tensor).bitwise_xor_(words[at : at + tensor.numel()])
        at += tensor.numel()


def lmc_delta(old: Tensors, new: Tensors, threads: int) -> bytes:
    """The delta of lmckpt, decoded and compared as it is made."""
    return lmckpt.delta(old, new, threads=threads)


def lmc_delta_unverified(old: Tensors, new: Tensors, threads: int) -> bytes:
    """The same without that."""
    return lmckpt.delta(old, new, threads=threads, verify=False)


def lmc_apply(old: Tensors, data: bytes, threads: int) -> None:
    """In place."""
    lmckpt.apply(old, data, threads=threads)


def lmc_apply_safe(old: Tensors, data: bytes, threads: int) -> None:
    """All or nothing."""
    lmckpt.apply(old, data, threads=threads, safe=True)


# What makes a delta and what applies it.
WAYS: dict[str, tuple[Callable[..., bytes], Callable[..., None]]] = {
    "XOR, zstd -1": (xor_delta, xor_apply),
    "lmckpt": (lmc_delta, lmc_apply),
    "lmckpt, `verify=False`, `safe=True`": (lmc_delta_unverified, lmc_apply_safe),
}


def copied(tensors: Tensors) -> Tensors:
    """A copy that may be overwritten."""
    return {name: tensor.clone() for name, tensor in tensors.items()}


def measure(old: Tensors, new: Tensors, rounds: int, threads: int) -> dict[str, list[float]]:
    """For each way, the size of the delta and the least seconds to make and to apply it."""
    best: dict[str, list[float]] = {name: [0, float("inf"), float("inf")] for name in WAYS}
    held = copied(old)
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for name, (make, apply) in WAYS.items():
            made_in, data = seconds(make, old, new, threads)
            for target, tensor in zip(held.values(), old.values(), strict=True):
                target.copy_(tensor)
            applied_in, _ = seconds(apply, held, data, threads)
            assert all(torch.equal(words_of(held[key]), words_of(new[key])) for key in new), name
            sizes = [len(data), made_in, applied_in]
            best[name] = [sizes[0], *map(min, best[name][1:], sizes[1:])]
    return best


def high_water() -> int:
    """The most memory that this process has had since the count was last reset."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def extra(call: Callable[..., Any], *arguments: Any) -> tuple[int, Any]:
    """The most bytes that a call takes beyond what exists, and what it returns."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = high_water()
    result = call(*arguments)
    return high_water() - before, result


def memory(results: Any, name: str, old: Tensors, new: Tensors, threads: int) -> None:
    """Puts what one way takes to make a delta, and to apply it."""
    torch.set_num_threads(threads)
    old, new = copied(old), copied(new)
    make, apply = WAYS[name]
    small = {"x": torch.zeros(10, dtype=torch.bfloat16)}
    apply(small, make(small, small, threads), threads)
    made_with, data = extra(make, old, new, threads)
    applied_with, _ = extra(apply, old, data, threads)
    results.put((made_with, applied_with))


def measure_memory(name: str, old: Tensors, new: Tensors, threads: int) -> tuple[int, int]:
    """The same in a process of its own."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=memory, args=(results, name, old, new, threads))
    process.start()
    found: tuple[int, int] = results.get(timeout=600)
    process.join()
    return found


def report(title: str, pair: tuple[Tensors, Tensors], options: argparse.Namespace) -> None:
    """Prints the table of one pair."""
    old, new = pair
    best = measure(old, new, options.rounds, options.threads)
    print(f"{title}, {size_of(old) / 1e6:.0f} MB\n")
    rows = []
    for name, (size, make, apply) in best.items():
        taken = measure_memory(name, old, new, options.threads)
        share = f"{size / best['XOR, zstd -1'][0]:.2f}"
        memory = [f"{count / MIB:.0f}" for count in taken]
        times = [f"{time * 1e3:.0f}" for time in (make, apply)]
        rows.append([name, f"{size / 1e6:.2f}", share, *times, *memory])
    columns = ["way", "MB", "of XOR", "delta ms", "apply ms", "delta MiB more", "apply MiB more"]
    print_table(columns, rows)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size-mb", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.01, help="of the values that change")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    size = options.size_mb * 1_000_000
    print(f"{options.threads} threads on {machine()}; fastest of {options.rounds} rounds\n")
    report(f"{options.share:.0%} of the values changed", made(size, options.share), options)
    if corpus := os.environ.get("LMC_CORPUS"):
        report("rl/000021 on rl/000020, repeated", pair(Path(corpus), size), options)


if __name__ == "__main__":
    main()
