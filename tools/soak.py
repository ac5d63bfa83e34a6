#!/usr/bin/env python3
"""Many lmc commands on two stores at once, killed and stopped at random: is anything lost?

Usage: tools/soak.py LMC [--minutes 10] [--seed N] [--dir DIR] [--grace 60s]

Writers save to one store, each in a run of its own. Beside them other processes copy that store to
a second one, forget and prune both, check them, restore snapshots, and compress and restore files
with `--rm` while new versions are renamed over them. A random third of the commands is killed or
stopped for a while, some for longer than the store's grace period.

What must hold: a save that returned 0 is in the store, or a forget removed it; what is restored has
the bytes that were saved; a check finds no damage; a file that `--rm` removed is in its archive,
byte for byte. Ends with `N passed, N failed` and exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from hashlib import blake2b
from pathlib import Path

WRITERS = 3
KEEP_LAST = 4
OK, SOME, CONFLICT = 0, 3, 11
KILLED = -signal.SIGKILL


def digest(root: Path) -> str:
    """The names and bytes of all files below a folder."""
    seen = blake2b(digest_size=16)
    for path in sorted(root.rglob("*")):
        seen.update(bytes(path.relative_to(root)) + b"\0")
        if path.is_file():
            seen.update(path.stat().st_size.to_bytes(8, "little") + path.read_bytes())
    return seen.hexdigest()


class Soak:
    """Two stores, and what is known of them."""

    def __init__(self, lmc: str, folder: Path, seed: int, seconds: float, grace: str) -> None:
        self.lmc, self.folder, self.seed = lmc, folder, seed
        self.end = time.monotonic() + seconds
        self.stores = [str(folder / "store-a"), str(folder / "store-b")]
        self.lock = threading.Lock()
        self.saved: dict[tuple[str, int], str] = {}
        """What saves that returned 0 had, by run and step."""
        self.tried: dict[tuple[str, int], str] = {}
        """The same for all saves: one that was killed may have committed."""
        self.counts: dict[str, int] = {}
        self.failures: list[str] = []
        for store in self.stores:
            self.run("init", store, "--grace", grace)

    def count(self, what: str) -> None:
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def fail(self, what: str) -> None:
        with self.lock:
            self.failures.append(what)
        print(f"FAILED: {what}", file=sys.stderr, flush=True)

    def run(self, *words: str, chance: random.Random | None = None) -> tuple[int, str]:
        """Runs a command to its end; with `chance`, it may be killed or stopped on the way."""
        process = subprocess.Popen(
            [self.lmc, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
        )
        disturbance = chance.random() if chance else 1.0
        if disturbance < 1 / 3:
            self.disturb(process, disturbance * 3, chance)
        output, _ = process.communicate()
        code = process.returncode
        self.count(f"{words[0]}: exit {code}")
        if "panicked" in output or code == 101:
            self.fail(f"{' '.join(words)}: {output}")
        return code, output

    def disturb(self, process: subprocess.Popen, how: float, chance: random.Random) -> None:
        time.sleep(chance.expovariate(1 / 0.05))
        if how < 0.6:
            process.kill()
            return
        # Mostly a moment, sometimes longer than the grace period.
        pause = chance.uniform(0.1, 3) if how < 0.95 else chance.uniform(40, 90)
        process.send_signal(signal.SIGSTOP)
        time.sleep(min(pause, max(0.0, self.end - time.monotonic())))
        process.send_signal(signal.SIGCONT)

    def left(self) -> bool:
        return time.monotonic() < self.end

    def chance(self, name: str) -> random.Random:
        return random.Random(f"{self.seed} {name}")

    # What runs concurrently.

    def write(self, number: int) -> None:
        """Saves a folder again and again, a little changed each time."""
        run, chance = f"run-{number}", self.chance(f"writer {number}")
        source = self.folder / run
        (source / "layers").mkdir(parents=True)
        state = {f"layers/{i}.bin": bytearray(chance.randbytes(200_000)) for i in range(4)}
        state["twin.bin"] = state["layers/0.bin"]
        step = 0
        while self.left():
            step += 1
            for name in chance.sample(sorted(state), 2):
                data = state[name]
                for _ in range(50):
                    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            for name, data in state.items():
                new = source / "new.tmp"
                new.write_bytes(data)
                new.rename(source / name)
            key, content = (run, step), digest(source)
            with self.lock:
                self.tried[key] = content
            words = ["save", "-q", "--store", self.stores[0], "--run", run, "--step", str(step)]
            if step % 5 == 0:
                words += ["--tag", "eval"]
            code, output = self.run(*words, str(source), chance=chance)
            if code == OK:
                with self.lock:
                    self.saved[key] = content
            elif code not in (CONFLICT, KILLED):
                self.fail(f"save of {run}@{step} ended with {code}: {output}")

    def copy(self, number: int) -> None:
        chance = self.chance(f"copy {number}")
        while self.left():
            code, output = self.run("copy", "-q", *self.stores, chance=chance)
            if code not in (OK, SOME, CONFLICT, KILLED):
                self.fail(f"copy ended with {code}: {output}")
            time.sleep(chance.uniform(0, 1))

    def clean(self, store: str) -> None:
        chance = self.chance(f"clean {store}")
        while self.left():
            keep = ["--keep-last", str(KEEP_LAST), "--keep-tag", "eval"]
            for words in (["forget", *keep], ["prune"], ["prune", "-n"]):
                code, output = self.run(*words, "--store", store, chance=chance)
                if code not in (OK, CONFLICT, KILLED):
                    self.fail(f"{words[0]} ended with {code}: {output}")
                time.sleep(chance.uniform(0, 2))

    def check(self, store: str) -> None:
        chance = self.chance(f"check {store}")
        while self.left():
            words = chance.choice((["check"], ["check", "--read-data"], ["repair"]))
            code, output = self.run(*words, "--store", store, chance=chance)
            if code not in (OK, CONFLICT, KILLED):
                self.fail(f"{' '.join(words)} ended with {code}: {output}")
            time.sleep(chance.uniform(0, 2))

    def restore(self, number: int) -> None:
        chance = self.chance(f"restore {number}")
        while self.left():
            store = chance.choice(self.stores)
            snapshots = self.log(store)
            if snapshots:
                self.restore_one(store, chance.choice(snapshots), f"restored-{number}", chance)

    def files(self) -> None:
        """Compresses a file with `--rm` while a new version is renamed over it."""
        chance = self.chance("files")
        folder = self.folder / "files"
        folder.mkdir()
        source, packed = folder / "model.bin", folder / "model.bin.lmc"
        number = 0
        while self.left():
            number += 1
            old, new = (chance.randbytes(100_000) + bytes([number % 251, i]) for i in range(2))
            source.write_bytes(old)
            arriving = folder / "arriving"
            arriving.write_bytes(new)
            rename = threading.Timer(chance.expovariate(1 / 0.01), arriving.rename, (source,))
            rename.start()
            code, output = self.run("compress", "-q", "-f", "--rm", str(source), chance=chance)
            rename.join()
            # The newer version is under its name, or it is what was compressed and removed.
            there = source.read_bytes() if source.exists() else None
            if new not in (there, self.decompressed(packed)):
                self.fail(f"compress --rm ({code}): the newer version is gone: {output}")

    def decompressed(self, packed: Path) -> bytes:
        return subprocess.run([self.lmc, "decompress", "-c", packed], capture_output=True).stdout

    # What is looked at.

    def log(self, store: str) -> list[dict]:
        code, output = self.run("log", "--json", "--store", store)
        if code != OK:
            self.fail(f"log ended with {code}: {output}")
            return []
        return json.loads(output)

    def restore_one(self, store: str, snapshot: dict, name: str, chance: random.Random) -> None:
        key = (snapshot["run"], snapshot["step"])
        target = self.folder / name
        shutil.rmtree(target, ignore_errors=True)
        words = ("restore", "-q", "--store", store, snapshot["id"], str(target))
        code, output = self.run(*words, chance=chance)
        if code == OK:
            found = digest(target)
            if found != self.tried.get(key):
                self.fail(f"{key} of {store} came back different")
        elif code != KILLED and snapshot["id"] in {s["id"] for s in self.log(store)}:
            # It was not forgotten meanwhile.
            self.fail(f"restore of {key} of {store} ended with {code}: {output}")

    def finish(self) -> None:
        """Undisturbed: everything that should be there is, and nothing is damaged."""
        calm = self.chance("calm")
        calm.random = lambda: 1.0
        for store in self.stores:
            code, output = self.run("check", "--read-data", "--store", store)
            if code != OK:
                self.fail(f"the last check of {store} ended with {code}: {output}")
            for snapshot in self.log(store):
                self.restore_one(store, snapshot, "last", calm)
        there = {(s["run"], s["step"]) for s in self.log(self.stores[0])}
        for number in range(WRITERS):
            run = f"run-{number}"
            steps = sorted(step for name, step in self.saved if name == run)
            tried = sorted(step for name, step in self.tried if name == run)
            # A killed save may have committed too, and then counts for the forgets.
            recent = set(tried[-KEEP_LAST:])
            kept = [s for s in steps if s in recent or s % 5 == 0]
            missing = [step for step in kept if (run, step) not in there]
            if missing or not steps:
                self.fail(f"{run}: saved and gone: {missing} of {len(steps)}")

    def go(self) -> int:
        work = [(self.write, i) for i in range(WRITERS)] + [(self.copy, i) for i in range(2)]
        for store in self.stores:
            work += [(self.clean, store), (self.check, store)]
        work += [(self.restore, 0)]
        threads = [threading.Thread(target=target, args=(arg,)) for target, arg in work]
        threads += [threading.Thread(target=self.files)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.finish()
        for what, count in sorted(self.counts.items()):
            print(f"{what}: {count}")
        print(f"{sum(self.counts.values())} passed, {len(self.failures)} failed")
        return 1 if self.failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lmc", type=Path)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    parser.add_argument("--dir", type=Path, default=None)
    parser.add_argument("--grace", default="60s")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        lmc = str(args.lmc.resolve())
        soak = Soak(lmc, Path(folder), args.seed, 60 * args.minutes, args.grace)
        return soak.go()


if __name__ == "__main__":
    sys.exit(main())
