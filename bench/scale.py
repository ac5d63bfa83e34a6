"""What a command costs in a store of 10 snapshots and in one of 10,000.

Usage: scale.py [--count N] [--rounds N] [--runs N]

A store is filled by writing manifests that differ in step, time and name, as saves of the same
file would. lmc is taken from LMC, or from the PATH. Needs the package blake3.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

from blake3 import blake3

LMC = os.environ.get("LMC", "lmc")
# Snapshots of a run in one folder (docs/store.md, section 1).
PAGE_LEN = 256


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def fill(store, count, runs):
    """Adds snapshots until there are `count`, in `runs` runs."""
    folder = os.path.join(store, "snapshots", "main", f"{0:08}")
    (name,) = os.listdir(folder)
    with open(os.path.join(folder, name), "rb") as file:
        manifest = json.load(file)
    size = name.split("-")[2]
    for i in range(1, count):
        manifest["run"] = "main" if i % runs == 0 else f"run{i % runs}"
        manifest["step"] = i
        manifest["time_ms"] += 1
        manifest["save"] = f"{i:032x}"
        data = json.dumps(manifest, separators=(",", ":")).encode() + b"\n"
        key = f"{i:020}-{manifest['time_ms']:014}-{size}-{manifest['added']}"
        page = i // runs // PAGE_LEN
        folder = os.path.join(store, "snapshots", manifest["run"], f"{page:08}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{key}-{blake3(data).hexdigest()[:32]}"), "wb") as file:
            file.write(data)


def timed(rounds, command):
    """Median and least time of a command in ms."""
    times = []
    for i in range(rounds):
        start = time.monotonic()
        run(*command(i))
        times.append(1000 * (time.monotonic() - start))
    return statistics.median(times), min(times)


def measure(work, count, options):
    store, source = os.path.join(work, f"store{count}"), os.path.join(work, "source")
    path = os.path.join(source, "x.bin")
    os.makedirs(source, exist_ok=True)
    with open(path, "wb") as file:
        file.write(os.urandom(100_000))
    run(LMC, "init", store)
    run(LMC, "save", source, "--store", store, "--step", "0", "-q")
    fill(store, count, options.runs)
    at = ["--store", store]
    target = lambda i: os.path.join(work, f"target{count}-{i}")

    def save(i):
        with open(path, "wb") as file:
            file.write(os.urandom(100_000))
        return [LMC, "save", source, "--step", str(10**6 + i), "-q", *at]

    return {
        "snapshots": count,
        "log": timed(options.rounds, lambda _: [LMC, "log", *at]),
        "log -n 10": timed(options.rounds, lambda _: [LMC, "log", "-n", "10", *at]),
        "restore latest": timed(
            options.rounds, lambda i: [LMC, "restore", "latest", target(i), "-q", *at]),
        "save": timed(options.rounds, save),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        rows = [measure(work, count, options) for count in (10, options.count)]
    print(f"median and least of {options.rounds}, in ms; {options.runs} runs")
    for name in [name for name in rows[0] if name != "snapshots"]:
        cells = [f"{row['snapshots']:>7}: {row[name][0]:7.1f} {row[name][1]:7.1f}" for row in rows]
        print(f"{name:<16}", *cells)


if __name__ == "__main__":
    main()
