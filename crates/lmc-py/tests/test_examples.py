"""The examples do what they say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from lmckpt import Store

EXAMPLES = Path(__file__).parents[3] / "examples"
STEPS, EVERY = 24, 4


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """A training into a store and a file of losses of this name."""
    script = [sys.executable, str(EXAMPLES / "train_gpt.py"), "--steps", str(STEPS)]
    places = ["--store", str(folder / name), "--losses", str(folder / f"{name}.txt")]
    with open(folder / "log", "ab") as log:
        return subprocess.Popen([*script, *places, "--every", str(EVERY)], stdout=log, stderr=log)


def losses(folder: Path, name: str) -> dict[int, str]:
    """The loss of each step; of one that was done again, the last, which must be the same."""
    found: dict[int, str] = {}
    path = folder / f"{name}.txt"
    for line in path.read_text().splitlines() if path.exists() else []:
        step, loss = line.split()
        assert found.setdefault(int(step), loss) == loss, f"step {step} differs"
    return found


def test_killed_and_resumed(tmp_path: Path) -> None:
    """A run that is killed over and over has the losses of one that was not, bit for bit."""
    assert start(tmp_path, "whole").wait(300) == 0
    whole = losses(tmp_path, "whole")
    assert sorted(whole) == list(range(1, STEPS + 1))
    for kill_after in (6, 13, 14, 21):
        child = start(tmp_path, "killed")
        deadline = time.monotonic() + 120
        while max(losses(tmp_path, "killed"), default=0) < kill_after:
            assert child.poll() is None and time.monotonic() < deadline
            time.sleep(0.002)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert start(tmp_path, "killed").wait(300) == 0
    assert losses(tmp_path, "killed") == whole
    store = Store(tmp_path / "killed")
    assert store.latest().step == STEPS and store.check(read_data=True) == []
