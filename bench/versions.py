#!/usr/bin/env python3
"""Two builds of lmc side by side: is the newer one as fast as the older one?

Usage: bench/versions.py OLD NEW FILE [--next FILE] [--dir DIR] [--rounds N] [--threads 1,2]

OLD and NEW are two `lmc` commands. FILE is a checkpoint, NEXT a later step of it with the same
layout (without one, the steps that need it are left out). Both commands do the same steps in turn,
round after round, in DIR (default /dev/shm, where no program waits for a disk). A row has the
fastest round of each command and the median over all rounds of NEW's time divided by OLD's in the
same round: above 1, the newer one is slower. Every restored file is compared with its original.
"""

from __future__ import annotations

import argparse
import filecmp
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path


def timed(command: list[str]) -> float:
    """Seconds that a command takes; it must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


class Side:
    """One of the two commands, with a folder of its own."""

    def __init__(self, lmc: str, folder: Path, threads: int, files: list[Path]) -> None:
        self.lmc, self.folder, self.files = lmc, folder, files
        self.threads = f"-T{threads}"

    def steps(self) -> dict[str, float]:
        """Does every step once; seconds by the names of the steps."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        first = self.files[0]
        packed, back = self.folder / "packed.lmc", self.folder / "back"
        done = {
            "compress": self.run("compress", first, "-o", packed),
            "decompress": self.run("decompress", packed, "-o", back),
        }
        self.compare(first, back)
        store = self.folder / "store"
        subprocess.run([self.lmc, "init", store], check=True, stdout=subprocess.DEVNULL)
        at = ("--store", store)
        # Each step of training is saved from the same place, as a trainer does.
        source = self.folder / "model.safetensors"
        shutil.copy2(first, source)
        done["save, first"] = self.run("save", *at, source)
        done["restore, first"] = self.restore(at, first, "first")
        done["save, unchanged"] = self.run("save", *at, source)
        if len(self.files) > 1:
            shutil.copy2(self.files[1], source)
            done["save, next step"] = self.run("save", *at, source)
            done["restore, next step"] = self.restore(at, self.files[1], "next")
        return done

    def restore(self, at: tuple, original: Path, name: str) -> float:
        target = self.folder / name
        seconds = self.run("restore", *at, "latest", target)
        self.compare(original, target)
        return seconds

    def run(self, step: str, *words: object) -> float:
        return timed([self.lmc, step, "-q", self.threads, *map(str, words)])

    def compare(self, original: Path, back: Path) -> None:
        if not filecmp.cmp(original, back, shallow=False):
            raise SystemExit(f"{self.lmc}: {back} is not {original}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("file", type=Path)
    parser.add_argument("--next", type=Path)
    parser.add_argument("--dir", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", default="1,2")
    args = parser.parse_args()
    files = [file for file in (args.file, args.next) if file]
    print("| step | threads | old s | new s | new / old, median |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        for threads in map(int, args.threads.split(",")):
            sides = [
                Side(lmc, Path(folder) / name, threads, files)
                for name, lmc in (("old", args.old), ("new", args.new))
            ]
            times = defaultdict(list)
            for i in range(args.rounds):
                # The one that begins changes from round to round.
                order = sides if i % 2 == 0 else sides[::-1]
                done = {side: side.steps() for side in order}
                for step in done[sides[0]]:
                    times[step].append(tuple(done[side][step] for side in sides))
            for step, pairs in times.items():
                old, new = (min(pair[i] for pair in pairs) for i in range(2))
                ratio = statistics.median(new / old for old, new in pairs)
                print(f"| {step} | {threads} | {old:.3f} | {new:.3f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
