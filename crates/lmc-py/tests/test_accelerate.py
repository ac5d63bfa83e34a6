"""accelerate with a store, as docs/python/accelerate.md has it: a resumed run has the same bits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("accelerate")

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from lmckpt import Store, errors

pytestmark = pytest.mark.filterwarnings("ignore")


def prepare() -> tuple[Accelerator, torch.nn.Module, torch.optim.Optimizer, object]:
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Dropout(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3])
    return accelerator, *accelerator.prepare(model, optimizer, scheduler)


def train(accelerator, model, optimizer, scheduler, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(8, 16)).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("background", [False, True])
def test_resumes_bit_for_bit(background: bool, tmp_path) -> None:
    store = Store(tmp_path / "store", create=True)
    run = prepare()
    for step in (2, 4):
        train(*run, 2)
        folder = tmp_path / f"step-{step}"
        store.wait()
        run[0].save_state(str(folder))
        run[0].wait_for_everyone()
        if run[0].is_main_process:
            if background:
                store.save_async(folder, run="run", step=step)
            else:
                store.save(folder, run="run", step=step)
    store.close()
    wanted = train(*run, 3), {k: v.clone() for k, v in run[1].state_dict().items()}
    files = {path.name: path.read_bytes() for path in (tmp_path / "step-4").iterdir()}
    assert {"model.safetensors", "optimizer.bin", "scheduler.bin"} < set(files)

    snapshot = store.latest("run")
    assert snapshot is not None and snapshot.step == 4
    again = prepare()
    train(*again, 1)
    target = tmp_path / "restored" / f"step-{snapshot.step}"
    target.parent.mkdir()
    store.restore(snapshot, target)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == files
    again[0].load_state(str(target))
    assert train(*again, 3) == wanted[0]
    assert all(torch.equal(v, wanted[1][k]) for k, v in again[1].state_dict().items())


def test_background_errors(tmp_path) -> None:
    """A directory that cannot be saved is an error for whoever waits, and later saves go on."""
    store = Store(tmp_path / "store", create=True)
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        store.save_async(tmp_path / "nowhere").result()
    with pytest.raises(errors.NotFoundError):
        store.wait()
    (tmp_path / "file").write_bytes(os.urandom(1000))
    assert store.save_async(str(tmp_path / "file"), step=3).result().step == 3
    state = {"x": torch.ones(3)}
    store.save_async(state, step=4)
    store.save_async(Path(tmp_path / "file"), step=5)
    store.save_async(state, step=6)
    store.close()
    assert [snapshot.step for snapshot in store.snapshots()] == [3, 4, 5, 6]
