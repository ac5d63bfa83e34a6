#!/usr/bin/env python3
"""lmckpt.torch.load_file beside safetensors.torch.load_file, on a bf16 model.

Both are timed until every page of every tensor has been touched: safetensors maps the file and
reads nothing before. The files are in the page cache; with --cold they are also thrown out of it
before each load, which measures this machine's own disk. The last table says what disks of a given
speed would come to: the size over that speed, or the time from the cache if that is longer. Both
read ahead while they decode or copy, lmckpt by a span of 8 MiB a thread, so the times do not add
up.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import lmckpt.torch
import safetensors.torch
import torch
from timing import MIB, cores, machine, print_table, seconds
from weights import model

PAGE = 4096
GB = 1e9
RATES = [0.5, 1.0, 2.0, 4.0]


class Loader:
    """A way to load a file, and what was measured."""

    def __init__(self, name: str, threads: int, path: Path, load: Callable[[Path], dict]) -> None:
        self.name, self.threads, self.path, self.load = name, threads, path, load
        self.size = path.stat().st_size
        self.cached_s = self.cold_s = float("inf")

    def seconds(self) -> float:
        """One load, to the last page."""
        torch.set_num_threads(self.threads)
        return seconds(lambda: touch(self.load(self.path)))[0]

    def disk_s(self, rate: float) -> float:
        """What a load from a disk of this rate would take, in bytes a second."""
        return max(self.size / rate, self.cached_s)


def touch(tensors: dict[str, torch.Tensor]) -> None:
    """Reads a byte of every page."""
    for tensor in tensors.values():
        tensor.view(torch.uint8).reshape(-1)[::PAGE].sum()


def evict(path: Path) -> None:
    """Throws a file out of the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_whole(path: Path) -> None:
    """Reads a file to the end, and keeps nothing."""
    buffer = bytearray(8 * MIB)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def make_loaders(tensors: dict, folder: Path, threads: list[int]) -> list[Loader]:
    """Writes both files; the ways to load them."""
    plain, coded = folder / "model.safetensors", folder / "model.lmc"
    safetensors.torch.save_file(tensors, plain)
    lmckpt.torch.save_file(tensors, coded)
    loaders = [Loader("safetensors", 1, plain, safetensors.torch.load_file)]
    for count in threads:

        def load(path: Path, count: int = count) -> dict:
            return lmckpt.torch.load_file(path, threads=count)

        loaders.append(Loader("lmckpt", count, coded, load))
    for loader in loaders:
        check(loader, tensors)
    return loaders


def check(loader: Loader, tensors: dict) -> None:
    """Fails unless a loader gives the same tensors back."""
    loaded = loader.load(loader.path)
    same = loaded.keys() == tensors.keys()
    if not same or not all(torch.equal(loaded[name], tensors[name]) for name in tensors):
        raise SystemExit(f"{loader.name}: the loaded tensors differ")


def run(loaders: list[Loader], rounds: int, is_cold: bool) -> float:
    """All rounds; seconds of a plain read of the first file from the disk."""
    read_s = float("inf")
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for loader in loaders:
            loader.cached_s = min(loader.cached_s, loader.seconds())
    for number in range(rounds if is_cold else 0):
        print(f"round {number + 1} of {rounds} from the disk", file=sys.stderr)
        for loader in loaders:
            evict(loader.path)
            loader.cold_s = min(loader.cold_s, loader.seconds())
        evict(loaders[0].path)
        read_s = min(read_s, seconds(read_whole, loaders[0].path)[0])
    return read_s


def report(loaders: list[Loader], raw: int, read_s: float) -> None:
    """Prints both tables."""
    rows = []
    for one in loaders:
        row = [one.name, str(one.threads), f"{one.size / MIB:.0f}", f"{one.cached_s:.3f}"]
        row.append(f"{raw / GB / one.cached_s:.2f}")
        rows.append([*row, f"{one.cold_s:.3f}"] if read_s < float("inf") else row)
    columns = ["", "threads", "MiB", "s from the cache", "GB/s from the cache"]
    if read_s < float("inf"):
        print(f"A plain read from this disk: {raw / GB / read_s:.2f} GB/s\n")
        columns.append("s from this disk")
    print_table(columns, rows)
    columns = ["", "threads", *(f"s at {rate} GB/s" for rate in RATES)]
    rows = [
        [one.name, str(one.threads), *(f"{one.disk_s(rate * GB):.3f}" for rate in RATES)]
        for one in loaders
    ]
    print_table(columns, rows)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default=f"1,{cores()}", help="1 and all cores by default")
    parser.add_argument("--dir", help="folder for the files; by default that for temporary ones")
    parser.add_argument("--cold", action="store_true", help="measure this disk too")
    options = parser.parse_args()
    threads = sorted({int(count) for count in options.threads.split(",")})
    print(f"A model of {options.size_mib} MiB on {machine()}; {options.rounds} rounds\n")
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        loaders = make_loaders(model(options.size_mib * MIB), Path(folder), threads)
        read_s = run(loaders, options.rounds, options.cold)
        report(loaders, loaders[0].size, read_s)


if __name__ == "__main__":
    main()
