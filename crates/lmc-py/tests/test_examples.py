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
# Fails what shuts the interpreter down while threads of gloo live, which may abort it.
ENDING = Path(__file__).with_name("ending")
STEPS, EVERY = 24, 4


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """A training into a store and a file of losses of this name."""
    script = [sys.executable, str(EXAMPLES / "train_gpt.py"), "--steps", str(STEPS)]
    places = ["--store", str(folder / name), "--losses", str(folder / f"{name}.txt")]
    with open(folder / "log", "ab") as log:
        return subprocess.Popen([*script, *places, "--every", str(EVERY)], stdout=log, stderr=log)


def train_fsdp(folder: Path, name: str, ranks: int, *options: str) -> dict[int, str]:
    """The losses of a run on this many ranks."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    script = [f"--nproc-per-node={ranks}", str(EXAMPLES / "train_fsdp.py"), "--run-name", name]
    places = ["--store", str(folder / "store"), "--losses", str(folder / f"{name}.txt")]
    paths = os.pathsep.join(filter(None, [str(ENDING), os.environ.get("PYTHONPATH")]))
    with open(folder / "log", "ab") as log:
        done = subprocess.run(
            [*torchrun, *script, *places, *options],
            stdout=log,
            stderr=log,
            check=False,
            env={**os.environ, "PYTHONPATH": paths},
        )
    assert done.returncode == 0, (folder / "log").read_text()
    return losses(folder, name)


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


def test_other_numbers_of_ranks(tmp_path: Path) -> None:
    """Shards that 2 ranks saved go on on 2, bit for bit, and on 1 and 3."""
    whole = train_fsdp(tmp_path, "whole", 2, "--steps=6", "--every=3")
    later = {step: whole[step] for step in (4, 5, 6)}
    for ranks in (1, 2, 3):
        found = train_fsdp(tmp_path, f"on-{ranks}", ranks, "--steps=6", "--resume=whole@3")
        if ranks == 2:
            assert found == later
        # Sums in another order are other sums.
        for step, loss in later.items():
            assert abs(float.fromhex(found[step]) - float.fromhex(loss)) < 1e-3


def test_a_training_that_is_done_does_not_abort(tmp_path: Path) -> None:
    """No rank shuts the interpreter down while threads of gloo may still ask for its lock."""
    train_fsdp(tmp_path, "short", 2, "--steps=1", "--every=1")
