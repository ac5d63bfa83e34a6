#!/usr/bin/env python3
"""One bf16 tensor from memory to memory: lmckpt beside ZipNN, OpenZL, a copy and the Rust library.

In every round each engine runs twice; the fastest run counts. What is decoded is compared with
the tensor. Memory that an engine makes for its result counts, since whoever calls it waits for it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from engines import Engine, in_memory
from timing import GIB, MIB, cores, machine, print_table, seconds
from weights import tensor as make_tensor


class Timed:
    """An engine under its name in the table, and what was measured of it."""

    def __init__(self, name: str, engine: Engine) -> None:
        self.name, self.engine, self.threads = name, engine, engine.threads
        self.compress_s = self.decompress_s = float("inf")
        self.size = 0


class Rust:
    """The library without Python: `lmc-bench scale` on the same bytes in a file."""

    def __init__(self, program: str, file: Path, level: str, threads: int) -> None:
        self.name, self.threads = f"Rust {level}", threads
        options = ["--file", str(file), "--level", level, "--threads", str(threads)]
        self.command = [program, "scale", *options, "--repeats", "1"]
        self.compress = self.compress_new = self.decompress = 0.0

    def run(self) -> None:
        """One round; the columns of its last line are speeds."""
        done = subprocess.run(self.command, stdout=subprocess.PIPE, check=True, text=True)
        speeds = [float(word) for word in done.stdout.splitlines()[-1].split()]
        _, _, compress, compress_new, _, decompress, _ = speeds
        self.compress = max(self.compress, compress)
        self.compress_new = max(self.compress_new, compress_new)
        self.decompress = max(self.decompress, decompress)


def measure(timed: Timed, words: np.ndarray, out: np.ndarray) -> None:
    """One round of an engine."""
    engine = timed.engine
    torch.set_num_threads(engine.threads)
    pieces, outs = engine.cut([words]), engine.cut([out])
    prepared = engine.prepare(pieces)
    compress_s, coded = seconds(engine.compress, prepared)
    del prepared
    out.fill(1)  # What an earlier engine left there must not pass for a result.
    decompress_s, decoded = seconds(engine.decompress, coded, outs)
    for piece, output in zip(pieces, decoded, strict=True):
        if not np.array_equal(piece.view(np.uint8), np.frombuffer(engine.as_bytes(output), "B")):
            raise SystemExit(f"{timed.name}: the decoded tensor differs")
    timed.size = sum(memoryview(piece).nbytes for piece in coded)
    timed.compress_s = min(timed.compress_s, compress_s)
    timed.decompress_s = min(timed.decompress_s, decompress_s)


def run(tensor: torch.Tensor, threads: list[int], rounds: int, lmc_bench: str | None) -> None:
    """All rounds, and the tables."""
    words = tensor.view(torch.uint16).numpy()
    engines, out = [Timed(*row) for row in in_memory(tensor.nbytes, threads)], np.ones_like(words)
    with tempfile.TemporaryDirectory() as folder:
        rust: list[Rust] = []
        if lmc_bench:
            file = Path(folder) / "tensor"
            words.tofile(file)
            rust = [Rust(lmc_bench, file, "default", count) for count in threads]
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for engine in engines:
                # Twice, as lmc-bench does: new memory is faster if it was given back just before.
                measure(engine, words, out)
                measure(engine, words, out)
            for one in rust:
                one.run()
    report(engines, tensor.nbytes)
    if rust:
        report_rust(engines, rust, tensor.nbytes)


def report(engines: list[Timed], size: int) -> None:
    """Ratio and speed of every engine."""
    rows = []
    for e in sorted(engines, key=lambda engine: engine.threads):
        compress, decompress = (size / GIB / s for s in (e.compress_s, e.decompress_s))
        ratio = f"{size / e.size:.3f}"
        rows.append([e.name, str(e.threads), ratio, f"{compress:.2f}", f"{decompress:.2f}"])
    print_table(["engine", "threads", "ratio", "compress GiB/s", "decompress GiB/s"], rows)


def report_rust(engines: list[Timed], rust: list[Rust], size: int) -> None:
    """Python beside Rust."""
    rows = []
    for one in rust:
        ours = {e.name: e for e in engines if e.threads == one.threads}
        new, there = ours["lmckpt default"], ours["lmckpt default, into="]
        decompress_s = min(new.decompress_s, there.decompress_s)
        pairs = [
            ("compress into new memory", size / GIB / new.compress_s, one.compress_new),
            ("compress into existing memory", size / GIB / there.compress_s, one.compress),
            ("decompress", size / GIB / decompress_s, one.decompress),
        ]
        for name, own, other in pairs:
            share = f"{own / other:.2f}"
            rows.append([name, str(one.threads), f"{own:.2f}", f"{other:.2f}", share])
    print_table(["", "threads", "Python GiB/s", "Rust GiB/s", "Python / Rust"], rows)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default=f"1,{cores()}", help="1 and all cores by default")
    parser.add_argument("--lmc-bench", help="this program, to time the Rust library beside")
    options = parser.parse_args()
    threads = sorted({int(count) for count in options.threads.split(",")})
    tensor = make_tensor(options.size_mib * MIB)
    print(f"{options.size_mib} MiB of bf16 on {machine()}; fastest of {options.rounds} rounds\n")
    run(tensor, threads, options.rounds, options.lmc_bench)


if __name__ == "__main__":
    main()
