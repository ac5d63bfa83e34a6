#!/usr/bin/env python3
"""Whole programs on many cores: two builds of lmc beside cp, on made-up bf16 weights.

Usage: bench/cores.py LMC [--old LMC] [--dir DIR] [--gib N] [--files N] [--rounds N] [--threads N]
       [--only NAME,...] [--json OUT]

The data is made in DIR (default /dev/shm, where no program waits for a disk) and removed at the
end, together with everything that the programs wrote. It has two parts:

many  a directory of --files safetensors files, together --gib GiB
one   the same values in one file, and a next step of it in which 30 % of the values moved

In each round every program does every command once. The fastest round counts, except for the peak
memory, which is the largest of all rounds. GiB/s are original bytes by wall time; cp-packed
copies what the new lmc compressed and counts the bytes of that. The last two columns are speeds
divided by those of the old lmc and of cp; note that cp waits for no disk, and lmc does. The first
round compares everything that was restored or copied, outside the timing. numpy is needed.

--only takes parts (many, one) and kinds of commands (files: compress and decompress; store: save,
check and restore; cp). Without a part it does both parts, without a kind all kinds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path

GIB, BLOCK = 1 << 30, 64 << 20
COLUMNS = 4096
CORES = len(os.sched_getaffinity(0))
KINDS = ("files", "store", "cp")
ROOM = {"many": 2.8, "one": 4.2}
"""The parts, and the room that each takes at most, in multiples of the size of its data."""


# Making the data. numpy is imported only by the processes that do this, because the peak memory of
# a process that Python starts is at least that of Python itself.


def begin_worker() -> None:
    """Makes the block that all others are variants of: normal values, with a scale per row."""
    global np, base
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    import numpy as np

    rng = np.random.default_rng(0)
    rows = BLOCK // 2 // COLUMNS
    values = rng.standard_normal((rows, COLUMNS), dtype=np.float32)
    values *= 0.02 * np.exp2(0.2 * rng.standard_normal((rows, 1), dtype=np.float32))
    base = (values.view(np.uint32) >> 16).astype(np.uint16)


def write_block(path: Path, offset: int, number: int, moved: bool) -> None:
    """Writes a variant of the block: rows and columns rolled, signs and low mantissa bits mixed."""
    random = np.random.PCG64(number)

    def values_of_16_bits():
        return random.random_raw(BLOCK // 8).view(np.uint16).reshape(base.shape)

    by = values_of_16_bits()[0, :2]
    block = np.roll(base, by, axis=(0, 1))
    block ^= values_of_16_bits() & 0x803F
    if moved:
        steps = np.zeros(1 << 16, np.uint16)
        for i, step in enumerate((1, 2, 0xFFFF, 0xFFFE)):
            steps[i : len(steps) * 3 // 10 : 4] = step
        block += steps[values_of_16_bits()]
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(block)


def start_file(path: Path, blocks: int) -> int:
    """Writes the header of a safetensors file and sets its size; returns where its data begins."""
    header, at = {}, 0
    while at < blocks:
        # Tensors of 64, 128 and 256 MiB.
        end = min(at + (1, 2, 4)[len(header) % 3], blocks)
        shape = [(end - at) * BLOCK // 2 // COLUMNS, COLUMNS]
        tensor = {"dtype": "BF16", "shape": shape, "data_offsets": [at * BLOCK, end * BLOCK]}
        header[f"model.layers.{len(header)}.weight"] = tensor
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + blocks * BLOCK)
    return 8 + len(text)


def make(files: list[tuple[Path, int, bool]], blocks: int) -> None:
    """Makes files of so many blocks: a path, the number of its first block, and if it has moved."""
    start, tasks = time.perf_counter(), []
    for path, first, moved in files:
        begin = start_file(path, blocks)
        tasks += [(path, begin + k * BLOCK, first + k, moved) for k in range(blocks)]
    workers, context = min(CORES, len(tasks)), get_context("fork")
    with ProcessPoolExecutor(workers, context, initializer=begin_worker) as pool:
        list(pool.map(write_block, *zip(*tasks, strict=True)))
    print(f"made data in {time.perf_counter() - start:.1f} s", file=sys.stderr)


# Measuring.


@dataclass
class Run:
    """What one run of a program took: seconds, and the largest resident set in bytes."""

    wall: float
    user: float
    system: float
    peak: int


@dataclass
class Row:
    """All runs of a command of a program."""

    part: str
    command: str
    program: str
    size: int
    packed: int = 0
    """What it compressed to, in bytes."""
    runs: list[Run] = field(default_factory=list)

    @property
    def best(self) -> Run:
        return min(self.runs, key=lambda run: run.wall)


def timed(command: list[str]) -> Run:
    """Runs a command, which must succeed."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        process.wait()
        raise
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed with status {process.returncode}")
    return Run(wall, usage.ru_utime, usage.ru_stime, usage.ru_maxrss * 1024)


def sizes(path: Path) -> dict[str, int]:
    """The sizes of all files of a directory by their relative paths, or that of a file."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {str(file.relative_to(path)): file.stat().st_size for file in files}


def size_of(path: Path) -> int:
    return sum(sizes(path).values())


def compare(original: Path, back: Path) -> None:
    """Stops if a file or directory differs from its original. Runs cmp on pieces of the files."""

    def same(piece: tuple[str, int]) -> bool:
        name, at = piece
        command = ["cmp", "-s", f"--ignore-initial={at}", f"--bytes={4 * BLOCK}"]
        return subprocess.call([*command, original / name, back / name]) == 0

    files = sizes(original)
    pieces = [(name, at) for name, size in files.items() for at in range(0, size, 4 * BLOCK)]
    with ThreadPoolExecutor(CORES) as pool:
        if sizes(back) != files or not all(pool.map(same, pieces)):
            raise SystemExit(f"{back} is not {original}")


def remove(*paths: Path) -> None:
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def fetch_memory(folder: Path, size: int) -> None:
    """Writes and removes files of zeros.

    A virtual machine may give free memory back to its host. To fetch it again can take longer than
    what is measured here, so no program should have to.
    """
    zeros, folder = bytes(1 << 20), folder / "zeros"
    folder.mkdir()

    def write(number: int) -> None:
        with (folder / str(number)).open("wb", buffering=0) as file:
            for _ in range(size // CORES >> 20):
                file.write(zeros)

    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(write, range(CORES)))
        list(pool.map(os.unlink, folder.iterdir()))
    folder.rmdir()


class Bench:
    """A folder, the programs in it, and what was measured."""

    def __init__(self, folder: Path, lmcs: dict[str, str], threads: int | None) -> None:
        self.folder, self.lmcs, self.back = folder, lmcs, folder / "back"
        self.threads = [] if threads is None else [f"-T{threads}"]
        self.rows: dict[tuple[str, str, str], Row] = {}
        self.part, self.comparing = "", True

    def rounds(self, part: str, kinds: list[str], rounds: int, sources: list[Path]) -> None:
        """Every round of a part; its data is a directory, or a file and its next step."""
        self.part = part
        programs = [*self.lmcs, *(["cp"] if "cp" in kinds else [])]
        for i in range(rounds):
            self.comparing = i == 0
            # The one that begins changes from round to round.
            for name in programs if i % 2 == 0 else programs[::-1]:
                print(f"{part}, round {i + 1}: {name}", file=sys.stderr)
                if name == "cp":
                    self.copy("cp", sources[0])
                    continue
                if "files" in kinds:
                    self.files(name, sources[0], "cp" in kinds)
                if "store" in kinds:
                    self.store(name, sources)

    def files(self, name: str, source: Path, with_cp: bool) -> None:
        """Compresses and decompresses."""
        packed, size = self.folder / "packed.lmc", size_of(source)
        row = self.lmc("compress", name, size, source, "-o", packed)
        row.packed = size_of(packed)
        self.lmc("decompress", name, size, packed, "-o", self.back)
        self.finish(source, self.back)
        if with_cp and name == "new" and self.part == "one":
            self.copy("cp-packed", packed)
        remove(packed)

    def store(self, name: str, sources: list[Path]) -> None:
        """Saves one or two steps in a new store and restores them; checks a store of one step."""
        store, before = self.folder / "store", 0
        at = ("--store", store)
        timed([self.lmcs[name], "init", str(store)])
        steps = [(source, "-next" * i, i + 1) for i, source in enumerate(sources)]
        for source, note, step in steps:
            words = (source, *at, "--run", "r", "--step", step)
            row = self.lmc(f"save{note}", name, size_of(source), *words)
            row.packed = size_of(store) - before
            before += row.packed
        if len(steps) == 1:
            self.lmc("check", name, size_of(sources[0]), "--read-data", *at)
        for source, note, step in steps:
            self.lmc(f"restore{note}", name, size_of(source), f"r@{step}", self.back, *at)
            self.finish(source, self.back)
        remove(store)

    def copy(self, command: str, source: Path) -> None:
        target = self.folder / "copy"
        self.run(command, "cp", size_of(source), ["cp", "-r", str(source), str(target)])
        self.finish(source, target)

    def finish(self, source: Path, back: Path) -> None:
        """Compares what came back, in the first round, and removes it."""
        if self.comparing:
            compare(source, back)
        remove(back)

    def lmc(self, command: str, name: str, size: int, *words: object) -> Row:
        verb = command.removesuffix("-next")
        quiet = [] if verb == "check" else ["-q"]
        line = [self.lmcs[name], verb, *quiet, *self.threads, *map(str, words)]
        return self.run(command, name, size, line)

    def run(self, command: str, program: str, size: int, line: list[str]) -> Row:
        fetch_memory(self.folder, size)
        key = (self.part, command, program)
        row = self.rows.setdefault(key, Row(*key, size))
        row.runs.append(timed(line))
        return row

    def report(self) -> None:
        """Prints the table."""
        print("| part | command | program | ratio | s | GiB/s | user s | system s", end=" ")
        print("| CPU s/GiB | peak MiB | / old | / cp |\n|---|---|---|" + "---|" * 9)
        order = list(dict.fromkeys(key[:2] for key in self.rows))
        for row in sorted(self.rows.values(), key=lambda r: order.index((r.part, r.command))):
            best, gib = row.best, row.size / GIB
            cpu, peak = best.user + best.system, max(run.peak for run in row.runs) / (1 << 20)
            packed = f"{row.size / row.packed:.3f}" if row.packed else ""
            old = self.rows.get((row.part, row.command, "old")) if row.program == "new" else None
            # A copy says nothing about a check, which writes nothing.
            compared = row.program != "cp" and row.command != "check"
            cp = self.rows.get((row.part, "cp", "cp")) if compared else None
            ratios = (f"{other.best.wall / best.wall:.2f}" if other else "" for other in (old, cp))
            times = f"{best.wall:.2f} | {gib / best.wall:.2f} | {best.user:.2f} | {best.system:.2f}"
            print(f"| {row.part} | {row.command} | {row.program} | {packed} | {times}", end="")
            print(f" | {cpu / gib:.3f} | {peak:.0f} | {' | '.join(ratios)} |")


# The command line.


def need_room(folder: Path, need: float) -> None:
    """Stops if the folder, or the memory that it is in, has too little room."""
    free = shutil.disk_usage(folder).free
    kind = subprocess.check_output(["stat", "-f", "-c%T", folder], text=True)
    if kind.strip() in ("tmpfs", "ramfs"):
        lines = Path("/proc/meminfo").read_text().splitlines()
        memory = next(int(line.split()[1]) << 10 for line in lines if "MemAvailable" in line)
        # Programs need memory besides the files.
        free = max(0, min(free, memory - CORES * GIB // 2))
    if free < need:
        room = f"{need / GIB:.1f} GiB are needed and {free / GIB:.1f} are free"
        raise SystemExit(f"{folder}: {room}; give a smaller --gib or another --dir")


def measure(bench: Bench, parts: list[str], kinds: list[str], args: argparse.Namespace) -> None:
    """Makes the data of each part, measures it and removes it."""
    blocks = max(1, round(args.gib * GIB / BLOCK / args.files))
    data = bench.folder / "data"
    need_room(args.dir, max(ROOM[part] for part in parts) * blocks * args.files * BLOCK)
    if "many" in parts:
        files = [(data / f"model-{i + 1:05}.safetensors", i * blocks) for i in range(args.files)]
        make([(path, first, False) for path, first in files], blocks)
        bench.rounds("many", kinds, args.rounds, [data])
        remove(data)
    if "one" in parts:
        # A trainer saves each step under the same name.
        steps = [data / step / "model.safetensors" for step in ("1", "2")]
        steps = steps if "store" in kinds else steps[:1]
        make([(path, 0, path != steps[0]) for path in steps], blocks * args.files)
        bench.rounds("one", kinds, args.rounds, steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lmc")
    parser.add_argument("--old", metavar="LMC")
    parser.add_argument("--dir", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--gib", type=float, default=16)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, metavar="N", help="for lmc; else it decides itself")
    parser.add_argument("--only", metavar="NAME,...", default="", help="parts and kinds, see above")
    parser.add_argument("--json", type=Path, metavar="OUT")
    args = parser.parse_args()
    only = {name for name in args.only.split(",") if name}
    if unknown := only - {*ROOM, *KINDS}:
        parser.error(f"--only does not know {', '.join(sorted(unknown))}")
    if args.files < 1 or args.rounds < 1 or args.gib <= 0:
        parser.error("--files, --rounds and --gib must be above 0")
    lmcs = {"new": args.lmc} | ({"old": args.old} if args.old else {})
    for lmc in lmcs.values():
        if not shutil.which(lmc):
            parser.error(f"{lmc} is not a program")
    parts = [part for part in ROOM if part in only] or list(ROOM)
    kinds = [kind for kind in KINDS if kind in only] or list(KINDS)
    # The folder is removed also if the benchmark is stopped.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit("stopped"))
    folder = Path(tempfile.mkdtemp(prefix="lmc-cores-", dir=args.dir))
    try:
        bench = Bench(folder, lmcs, args.threads)
        measure(bench, parts, kinds, args)
        bench.report()
        if args.json:
            rows = [asdict(row) for row in bench.rows.values()]
            setup = {"cores": CORES, "threads": args.threads}
            args.json.write_text(json.dumps({**setup, "rows": rows}, indent=1))
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
