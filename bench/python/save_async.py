#!/usr/bin/env python3
"""How long Store.save_async keeps a training loop waiting, compared with a copy of the same state.

The first call of a store makes memory for its copy, later ones use it again; both are timed in
every round, when no save is running. The copies go to existing memory.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator

import lmckpt
import numpy as np
import torch
from timing import GIB, MIB, cores, machine, print_table, seconds
from weights import size_of, training_state


def tensors_of(state: object) -> Iterator[torch.Tensor]:
    """Every tensor of a state."""
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, dict):
        for value in state.values():
            yield from tensors_of(value)


def arrays_of(tensors: list[torch.Tensor]) -> list[np.ndarray]:
    """The bytes of tensors as numpy has them."""
    return [tensor.view(torch.uint8).numpy() for tensor in tensors]


def run(state: dict, rounds: int, folder: str) -> dict[str, list[float]]:
    """Seconds of every call, by what was called."""
    tensors = list(tensors_of(state))
    copies = [torch.ones_like(tensor) for tensor in tensors]
    arrays, array_copies = arrays_of(tensors), arrays_of(copies)
    store = lmckpt.Store(f"{folder}/store", create=True)
    taken: dict[str, list[float]] = {}

    def keep(name: str, call) -> object:
        time, result = seconds(call)
        taken.setdefault(name, []).append(time)
        return result

    def copy_torch() -> None:
        for copy, tensor in zip(copies, tensors, strict=True):
            copy.copy_(tensor)

    def copy_numpy() -> None:
        for copy, array in zip(array_copies, arrays, strict=True):
            np.copyto(copy, array)

    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        keep("torch copy_, all threads", copy_torch)
        keep("numpy copyto, one thread", copy_numpy)
        keep("save_async, first call", lambda: store.save_async(state)).result()
        keep("torch copy_, all threads", copy_torch)
        keep("save_async, later call", lambda: store.save_async(state)).result()
        store.close()
    return taken


def report(taken: dict[str, list[float]], size: int) -> None:
    """Prints the table; shares are of the faster copy."""
    copies = [min(times) for name, times in taken.items() if "copy" in name]
    rows = []
    for name, times in taken.items():
        least, median = min(times), statistics.median(times)
        speed = f"{size / GIB / least:.2f}"
        share = f"{least / min(copies):.2f}"
        rows.append([name, f"{least * 1e3:.0f}", f"{median * 1e3:.0f}", speed, share])
    print_table(["call", "least ms", "median ms", "GiB/s", "of a copy"], rows)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dir", help="folder for the store; by default that for temporary files")
    options = parser.parse_args()
    torch.set_num_threads(cores())
    state = training_state(options.size_mib * MIB)
    size = size_of(state)
    print(f"{size / MIB:.0f} MiB of state on {machine()}; {options.rounds} rounds\n")
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        report(run(state, options.rounds, folder), size)


if __name__ == "__main__":
    main()
