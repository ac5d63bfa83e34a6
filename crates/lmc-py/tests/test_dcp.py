"""Distributed checkpoints: several ranks, other numbers of ranks, saves in the background."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import lmckpt
import pytest
from s3_server import BUCKET, seaweed

torch = pytest.importorskip("torch")
WORKER = Path(__file__).with_name("dcp_worker.py")
# Fails what shuts the interpreter down while threads of gloo live, which may abort it.
ENDING = Path(__file__).with_name("ending")

# What every rank does, and how.
Job = tuple[str, dict[str, Any]]


def start(ranks: int, folder: Path, *jobs: Job) -> list[subprocess.Popen[str]]:
    text = json.dumps([uuid.uuid4().hex, jobs])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    paths = [str(ENDING), os.environ.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(rank), str(ranks), str(folder), text],
            env={**environment, "RANK": str(rank), "WORLD_SIZE": str(ranks)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]


def run(ranks: int, folder: Path, *jobs: Job) -> None:
    processes = start(ranks, folder, *jobs)
    errors = [process.communicate(timeout=300)[1] for process in processes]
    for process, error in zip(processes, errors, strict=True):
        assert process.returncode == 0, error


def save(step: int, **options: Any) -> Job:
    return "save", {"step": step, **options}


def load(step: int, **options: Any) -> Job:
    return "load", {"step": step, **options}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lmckpt.Store.init(tmp_path / "store")
    return tmp_path


def snapshots(folder: Path) -> list[lmckpt.Snapshot]:
    return lmckpt.Store(folder / "store").snapshots("run")


def test_other_numbers_of_ranks(folder: Path) -> None:
    """Deltas by name and region, whoever holds the rows now; any number of ranks loads them."""
    run(2, folder, save(1), load(1))
    run(3, folder, load(1), save(2), load(2))
    run(1, folder, load(1), load(2), save(3), save(4))
    run(2, folder, load(2), load(3), load(4))
    first, *others = [snapshot.added for snapshot in snapshots(folder)]
    assert all(other < 0.8 * first for other in others), (first, others)
    # As small as where nothing but the values changed.
    assert all(other < 1.1 * others[-1] for other in others), others
    assert lmckpt.Store(folder / "store").check(read_data=True) == []


def test_caching_and_background(folder: Path) -> None:
    """Plans that are cached say nothing of the snapshot before; staged tensors may be changed."""
    run(
        2,
        folder,
        ("save_again", {"steps": [1, 2, 3]}),
        load(3),
        ("save_async", {"kind": "THREAD", "steps": [4, 5]}),
        ("save_async", {"kind": "PROCESS", "steps": [6, 7]}),
        *[load(step) for step in (1, 4, 5, 6, 7)],
    )
    found = snapshots(folder)
    assert [snapshot.step for snapshot in found] == [1, 2, 3, 4, 5, 6, 7]
    first, *others = [snapshot.added for snapshot in found]
    assert all(other < 0.8 * first for other in others), (first, others)


@pytest.mark.parametrize(("rank", "when"), [(0, "before"), (1, "after")])
def test_killed_rank(folder: Path, rank: int, when: str) -> None:
    """The snapshot before stays the latest, and the next save works."""
    processes = start(2, folder, save(1), ("die", {"step": 2, "rank": rank, "when": when}))
    for i, process in enumerate(processes):
        process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL if i == rank else process.returncode != 0
    store = lmckpt.Store(folder / "store")
    assert [snapshot.step for snapshot in store.snapshots()] == [1]
    run(2, folder, load(1, name="latest"), save(3), load(3, name="latest"))
    assert store.check(read_data=True) == []


def test_bucket(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in a bucket."""
    with seaweed(folder / "server") as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        url = f"s3://{BUCKET}/store"
        store = lmckpt.Store.init(url)
        run(2, folder, save(1, url=url), save(2, url=url), load(1, url=url), load(2, url=url))
        run(1, folder, load(2, url=url), save(3, url=url), load(3, url=url))
        first, *others = [snapshot.added for snapshot in store.snapshots()]
        assert all(other < 0.8 * first for other in others), (first, others)
        assert store.check(read_data=True) == []
