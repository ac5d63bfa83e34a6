#!/usr/bin/env python3
"""Whole programs, file to file: lmc beside cp, zstd, lbzip2 and ZipNN.

Usage: bench/files.py FILE [--dir DIR] [--repeats N] [--threads 1,2] [--lmc PATH] [--json OUT]
       [--zipnn-python PATH]

FILE is copied to DIR (default /dev/shm: files in memory, where the fsync of lmc costs nothing and
no program waits for a disk). In every round each program compresses and restores it once; the
fastest round counts, and every restored file is compared. cp is the yardstick. Peak memory is the
largest resident set of the round. zstd and lbzip2 are left out where they are not installed, ZipNN
where peers.sh has not installed it. ZipNN takes FILE for bf16, through zipnn_file.py; loading
Python and torch takes most of its time, so a second row has that taken off.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

GIB = 1 << 30
BENCH = Path(__file__).resolve().parent
VENV_PYTHON = str(BENCH / ".venv-bench" / "bin" / "python")


@dataclass
class Program:
    """A program: its command lines, with IN and OUT for the files, and what was measured."""

    name: str
    threads: int
    compress: list[str]
    restore: list[str]
    start: list[str] | None = None
    """A command that starts as the others do and does nothing, if that takes long."""
    start_s: float = float("inf")
    compress_s: float = float("inf")
    restore_s: float = float("inf")
    memory: int = 0
    size: int = 0


def run(command: list[str], source: Path, target: Path) -> tuple[float, int]:
    """Runs a command; seconds and the largest resident set in bytes."""
    filled = [{"IN": str(source), "OUT": str(target)}.get(word, word) for word in command]
    start = time.perf_counter()
    process = subprocess.Popen(filled, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status != 0:
        raise SystemExit(f"{' '.join(filled)} failed with status {status}")
    return seconds, usage.ru_maxrss * 1024


def programs(lmc: str, python: str, threads: list[int]) -> list[Program]:
    """Every program that is installed."""
    found = [Program("cp", 1, ["cp", "IN", "OUT"], ["cp", "IN", "OUT"])]
    for n in threads:
        levels = {"default": [], "default, no verify": ["--no-verify"], "fast": ["--fast"]}
        for name, options in levels.items():
            compress = [lmc, "compress", "-q", "-f", f"-T{n}", *options, "IN", "-o", "OUT"]
            restore = [lmc, "decompress", "-q", "-f", f"-T{n}", "IN", "-o", "OUT"]
            found.append(Program(f"lmc {name}", n, compress, restore))
        zstd = ["zstd", "-q", "-f", f"-T{n}", "IN", "-o", "OUT"]
        found.append(Program("zstd -1", n, [*zstd, "-1"], [*zstd, "-d"]))
        shell = ["bash", "-c", f"lbzip2 -n{n} -c $1 > $0", "OUT", "IN"]
        unpack = ["bash", "-c", f"lbzip2 -d -n{n} -c $1 > $0", "OUT", "IN"]
        found.append(Program("lbzip2", n, shell, unpack))
        script = [python, "-W", "ignore", str(BENCH / "zipnn_file.py")]
        steps = ([*script, what, "IN", "OUT", str(n)] for what in ("compress", "restore", "start"))
        found.append(Program("ZipNN, our script", n, *steps))
    needed = {"cp": "cp", "lmc": lmc, "zstd": "zstd", "lbzip2": "lbzip2", "ZipNN,": python}
    return [p for p in found if shutil.which(needed[p.name.split()[0]])]


def measure(program: Program, original: Path, folder: Path) -> None:
    """One round of one program."""
    packed, restored = folder / "packed", folder / "restored"
    for path in (packed, restored):
        path.unlink(missing_ok=True)
    seconds, memory = run(program.compress, original, packed)
    program.compress_s = min(program.compress_s, seconds)
    program.size = packed.stat().st_size
    seconds, more = run(program.restore, packed, restored)
    program.restore_s = min(program.restore_s, seconds)
    program.memory = max(program.memory, memory, more)
    if program.start:
        program.start_s = min(program.start_s, run(program.start, original, packed)[0])
    if not filecmp.cmp(original, restored, shallow=False):
        raise SystemExit(f"{program.name}: the restored file differs")


def report(all_programs: list[Program], size: int) -> None:
    """Prints the table."""
    print("| program | threads | ratio | compress GiB/s | restore GiB/s | peak MiB |")
    print("|---|---|---|---|---|---|")
    for p in all_programs:
        report_row(p, p.name, 0, size)
        if p.start:
            report_row(p, f"{p.name}, start taken off", p.start_s, size)


def report_row(p: Program, name: str, start_s: float, size: int) -> None:
    """Prints a row; `start_s` is not counted."""
    compress, restore = (size / GIB / (s - start_s) for s in (p.compress_s, p.restore_s))
    memory = p.memory / (1 << 20)
    row = f"{size / p.size:.3f} | {compress:.2f} | {restore:.2f} | {memory:.0f}"
    print(f"| {name} | {p.threads} | {row} |")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--dir", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--lmc", default="target/release/lmc")
    parser.add_argument("--zipnn-python", default=VENV_PYTHON, help="a Python that has zipnn")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = options.dir / f"lmc-files-{os.getpid()}"
    folder.mkdir()
    try:
        original = folder / "original"
        shutil.copy(options.file, original)
        threads = [int(n) for n in options.threads.split(",")]
        found = programs(options.lmc, options.zipnn_python, threads)
        for number in range(options.repeats):
            for program in found:
                print(f"round {number + 1}: {program.name}", file=sys.stderr)
                measure(program, original, folder)
        report(found, original.stat().st_size)
        if options.json:
            rows = [{**vars(p), "bytes_in": original.stat().st_size} for p in found]
            options.json.write_text(json.dumps(rows, indent=1))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
