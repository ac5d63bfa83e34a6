"""A history of 16 snapshots in an lmc store and in its rivals: size, save time, restore time.

Usage: history.py [--work DIR] [--seed N] [--only NAME ...]

The snapshots are made from the corpus (LMC_CORPUS, ../shared/corpus if it is not set) and from
changes made here: a step with frozen layers, a renamed tensor, files sharded again, a fork, an RL
tail. Every snapshot is restored in a random order and compared byte for byte. lmc is taken from
LMC, or from the PATH; restic, borg and zstd from the PATH, dvc from DVC or the PATH. A rival that
is not installed is left out. Needs numpy.
"""

import argparse
import filecmp
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORPUS = os.environ.get("LMC_CORPUS", os.path.join(REPOSITORY, "..", "shared", "corpus"))
LMC = os.environ.get("LMC", "lmc")
DVC = os.environ.get("DVC", "dvc")
PASSWORD = {"RESTIC_PASSWORD": "x", "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}


# --- the history -------------------------------------------------------------------------------


def read_safetensors(path):
    """The header as a dict of entries in the order of their data, and the data."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        data = np.frombuffer(file.read(), np.uint8).copy()
    metadata = header.pop("__metadata__", None)
    entries = dict(sorted(header.items(), key=lambda item: item[1]["data_offsets"]))
    return metadata, entries, data


def write_safetensors(path, metadata, tensors):
    """Writes `(name, entry, bytes)` one after the other."""
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, entry, data in tensors:
        header[name] = {**entry, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":"))
    text += " " * (-len(text) % 8)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text.encode())
        for _, _, data in tensors:
            file.write(data.tobytes())


def tensors_of(path):
    metadata, entries, data = read_safetensors(path)
    part = lambda entry: data[slice(*entry["data_offsets"])]
    return metadata, [(name, entry, part(entry)) for name, entry in entries.items()]


def nudged(data, share, rng):
    """bf16 values of which a share has moved by one step up or down."""
    values = data.view(np.uint16).copy()
    moved = rng.random(len(values)) < share
    values[moved] += rng.choice(np.array([1, 0xFFFF], np.uint16), int(moved.sum()))
    return values.view(np.uint8)


class History:
    """Folders, each with the run, the step and the parent of its save."""

    def __init__(self, root, seed):
        self.root, self.rng, self.snapshots = root, np.random.default_rng(seed), []
        self.build()

    def add(self, run, step, parent="auto"):
        path = os.path.join(self.root, f"{len(self.snapshots):02}-{run}-{step}")
        os.makedirs(path)
        self.snapshots.append({"path": path, "run": run, "step": step, "parent": parent})
        return path

    def corpus(self, run, step, files):
        path = self.add(run, step)
        for name, source in files.items():
            target = os.path.join(path, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(CORPUS, run, f"{step:06}.{source}.safetensors"), target)
        return path

    def change(self, source, run, step, change, parent="auto"):
        """A snapshot whose model.safetensors is that of `source` with each tensor changed."""
        metadata, tensors = tensors_of(os.path.join(source, "model.safetensors"))
        path = self.add(run, step, parent)
        changed = [change(i, *tensor) for i, tensor in enumerate(tensors)]
        write_safetensors(os.path.join(path, "model.safetensors"), metadata, changed)
        return path

    def shards(self, source, run, step, count, share):
        """The same in several files, with a share of the values moved."""
        metadata, tensors = tensors_of(os.path.join(source, "model.safetensors"))
        path = self.add(run, step)
        tensors = [(name, entry, nudged(data, share, self.rng)) for name, entry, data in tensors]
        for i in range(count):
            name = f"model-{i + 1:05}-of-{count:05}.safetensors"
            part = tensors[i * len(tensors) // count : (i + 1) * len(tensors) // count]
            write_safetensors(os.path.join(path, name), metadata, part)
        whole = tempfile.mkdtemp(dir=self.root, prefix="unsharded-")
        write_safetensors(os.path.join(whole, "model.safetensors"), metadata, tensors)
        return whole

    def build(self):
        weights = {"model.safetensors": "weights-bf16"}
        full = {
            **weights,
            "master.safetensors": "weights-fp32",
            "optimizer/exp_avg.safetensors": "adam-m",
            "optimizer/exp_avg_sq.safetensors": "adam-v",
        }
        rng = self.rng
        nudge = lambda share: lambda _, name, entry, data: (name, entry, nudged(data, share, rng))
        first = self.corpus("pretrain", 1000, full)
        self.corpus("pretrain", 1010, weights)
        last = self.corpus("pretrain", 1100, full)
        frozen = lambda i, name, entry, data: (
            name, entry, nudged(data, 0.6, rng) if i == 0 else data)
        last = self.change(last, "pretrain", 1101, frozen)
        renamed = lambda i, name, entry, data: (
            "renamed." + name if i == 1 else name, entry, nudged(data, 0.3, rng))
        last = self.change(last, "pretrain", 1102, renamed)
        whole = self.shards(last, "pretrain", 1103, 2, 0.3)
        whole = self.shards(whole, "pretrain", 1104, 3, 0.3)
        self.change(whole, "pretrain", 1105, nudge(0.3))
        shutil.rmtree(whole)
        fork = self.change(first, "fork", 1001, nudge(0.5), parent="pretrain@1000")
        self.change(fork, "fork", 1002, nudge(0.5))
        self.corpus("finetune", 20, weights)
        self.corpus("finetune", 30, weights)
        self.corpus("rl", 20, weights)
        last = self.corpus("rl", 21, weights)
        for step in (22, 23):
            last = self.change(last, "rl", step, nudge(0.01))
        for name in os.listdir(self.root):
            if name.startswith("unsharded-"):
                shutil.rmtree(os.path.join(self.root, name))

    def files(self):
        """`(snapshot, path in it, whole path)` of every file, in the order of saving."""
        for i, snapshot in enumerate(self.snapshots):
            for folder, _, names in sorted(os.walk(snapshot["path"])):
                for name in sorted(names):
                    whole = os.path.join(folder, name)
                    yield i, os.path.relpath(whole, snapshot["path"]), whole


# --- the engines -------------------------------------------------------------------------------


def run(*command, cwd=None, env=None):
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **PASSWORD, **(env or {})},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.decode()}")
    return done.stdout.decode()


def size_of(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(size_of(os.path.join(path, name)) for name in os.listdir(path))


class Lmc:
    name = "lmc store"

    def __init__(self, work, level=()):
        self.store, self.level = os.path.join(work, "lmc" + "".join(level)), level
        self.name = " ".join(("lmc store", *level))
        run(LMC, "init", self.store)

    def save(self, i, snapshot):
        run(LMC, "save", snapshot["path"], "--store", self.store, "--run", snapshot["run"],
            "--step", str(snapshot["step"]), "--parent", snapshot["parent"], "-q", *self.level)

    def restore(self, i, snapshot, target):
        name = f"{snapshot['run']}@{snapshot['step']}"
        run(LMC, "restore", name, target, "--store", self.store, "-q")

    def size(self):
        return size_of(self.store)


class LmcFast(Lmc):
    def __init__(self, work):
        super().__init__(work, ("--fast",))


class LmcMax(Lmc):
    def __init__(self, work):
        super().__init__(work, ("--max",))


class Restic:
    name = "restic, --compression max"

    def __init__(self, work):
        self.repo, self.ids = os.path.join(work, "restic"), {}
        run("restic", "init", "-q", "-r", self.repo)

    def save(self, i, snapshot):
        text = run("restic", "-r", self.repo, "backup", "--json", "--compression", "max", ".",
                   cwd=snapshot["path"])
        self.ids[i] = json.loads(text.strip().splitlines()[-1])["snapshot_id"]

    def restore(self, i, snapshot, target):
        run("restic", "-r", self.repo, "restore", self.ids[i], "--target", target, "-q")

    def size(self):
        return size_of(self.repo)


class Borg:
    name = "borg, zstd,3"

    def __init__(self, work):
        self.repo = os.path.join(work, "borg")
        run("borg", "init", "-e", "none", self.repo)

    def save(self, i, snapshot):
        run("borg", "create", "--compression", "zstd,3", f"{self.repo}::s{i}", ".",
            cwd=snapshot["path"])

    def restore(self, i, snapshot, target):
        os.makedirs(target)
        run("borg", "extract", f"{self.repo}::s{i}", cwd=target)

    def size(self):
        return size_of(self.repo)


class Dvc:
    name = "DVC"

    def __init__(self, work):
        self.repo, self.notes = os.path.join(work, "dvc"), {}
        os.makedirs(self.repo)
        run(DVC, "init", "--no-scm", "-q", cwd=self.repo)

    def save(self, i, snapshot):
        # As a training run has it: the checkpoint is in the working tree, and is added.
        target = os.path.join(self.repo, "checkpoint")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(snapshot["path"], target)
        run(DVC, "add", "-q", "checkpoint", cwd=self.repo)
        with open(target + ".dvc", encoding="utf-8") as file:
            self.notes[i] = file.read()

    def restore(self, i, snapshot, target):
        with open(os.path.join(self.repo, "checkpoint.dvc"), "w", encoding="utf-8") as file:
            file.write(self.notes[i])
        run(DVC, "checkout", "-q", "--force", cwd=self.repo)
        shutil.move(os.path.join(self.repo, "checkpoint"), target)

    def size(self):
        return size_of(os.path.join(self.repo, ".dvc", "cache"))


class Zstd:
    name = "zstd -3, each file"

    def __init__(self, work):
        self.folder = os.path.join(work, "zstd")

    def save(self, i, snapshot):
        for folder, _, names in os.walk(snapshot["path"]):
            for name in names:
                whole = os.path.join(folder, name)
                target = self.path(i, os.path.relpath(whole, snapshot["path"]))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                run("zstd", "-3", "-q", "-T0", whole, "-o", target + ".zst")

    def path(self, i, name):
        return os.path.join(self.folder, str(i), name)

    def restore(self, i, snapshot, target):
        top = os.path.join(self.folder, str(i))
        for folder, _, names in os.walk(top):
            for name in names:
                whole = os.path.join(folder, name)
                out = os.path.join(target, os.path.relpath(whole, top))[: -len(".zst")]
                os.makedirs(os.path.dirname(out), exist_ok=True)
                run("zstd", "-d", "-q", whole, "-o", out)

    def size(self):
        return size_of(self.folder)


ENGINES = {"lmc": Lmc, "lmc-fast": LmcFast, "lmc-max": LmcMax, "restic": Restic, "borg": Borg,
           "dvc": Dvc, "zstd": Zstd}
PROGRAMS = {"restic": "restic", "borg": "borg", "dvc": DVC, "zstd": "zstd"}


def same(one, other):
    """Whether two folders hold the same files with the same bytes."""
    names = lambda top: sorted(
        os.path.relpath(os.path.join(folder, name), top)
        for folder, _, files in os.walk(top) for name in files)
    equal = lambda name: filecmp.cmp(
        os.path.join(one, name), os.path.join(other, name), shallow=False)
    return names(one) == names(other) and all(map(equal, names(one)))


def measure(engine_class, history, work, order):
    engine = engine_class(work)
    start = time.monotonic()
    for i, snapshot in enumerate(history.snapshots):
        engine.save(i, snapshot)
    saved, restored = time.monotonic() - start, 0.0
    for i in order:
        target = os.path.join(work, "restored")
        start = time.monotonic()
        engine.restore(i, history.snapshots[i], target)
        restored += time.monotonic() - start
        if not same(target, history.snapshots[i]["path"]):
            sys.exit(f"{engine.name}: snapshot {i} differs")
        shutil.rmtree(target)
    return {"name": engine.name, "bytes": engine.size(), "save_s": saved, "restore_s": restored}


def best_deltas(history, work):
    """The sum over all files of the smallest archive: alone, or against any one earlier file."""
    total, before, out = 0, [], os.path.join(work, "delta.lmc")
    start = time.monotonic()
    lines = []
    for i, name, path in history.files():
        sizes = []
        for base in [None, *before]:
            extra = ["--base", base] if base else []
            run(LMC, "compress", path, "-o", out, "-f", "-q", *extra)
            sizes.append((os.path.getsize(out), base))
        best = min(sizes, key=lambda item: item[0])
        total += best[0]
        lines.append((i, name, best[0], best[1] and os.path.relpath(best[1], history.root)))
        before.append(path)
    return total, time.monotonic() - start, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(ENGINES))
    parser.add_argument("--no-deltas", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        history = History(os.path.join(work, "history"), options.seed)
        logical = sum(os.path.getsize(path) for _, _, path in history.files())
        order = list(range(len(history.snapshots)))
        random.Random(options.seed).shuffle(order)
        print(f"{len(order)} snapshots, {logical / 1e6:.1f} MB, seed {options.seed}")
        rows = []
        for name in options.only:
            if shutil.which(PROGRAMS.get(name, LMC)):
                rows.append(measure(ENGINES[name], history, work, order))
                print("|", rows[-1], flush=True)
            else:
                print(f"{name} is not installed", flush=True)
        print("| | MB | of all | save, s | restore, s |\n|---|---|---|---|---|")
        for row in rows:
            share = f"{100 * row['bytes'] / logical:.1f} %"
            times = f"{row['save_s']:.1f} | {row['restore_s']:.1f}"
            print(f"| {row['name']} | {row['bytes'] / 1e6:.2f} | {share} | {times} |")
        if "lmc" in options.only:
            print(run(LMC, "log", "--store", os.path.join(work, "lmc")))
            print(run(LMC, "stats", "--store", os.path.join(work, "lmc")))
        if not options.no_deltas:
            total, seconds, lines = best_deltas(history, work)
            print(f"| best single-file deltas, all bases tried | {total / 1e6:.2f} |"
                  f" {100 * total / logical:.1f} % | {seconds:.1f} | |")
            for line in lines:
                print("  ", *line)
            store = next((row["bytes"] for row in rows if row["name"] == "lmc store"), None)
            if store is not None and store > total:
                sys.exit(f"the store takes {store - total} bytes more than the best deltas")


if __name__ == "__main__":
    main()
