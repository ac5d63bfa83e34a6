"""Directories as DeepSpeed, Megatron and torchtitan write them, there and back byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from lmckpt import Store

pytestmark = pytest.mark.filterwarnings("ignore")


def state(step: int) -> dict:
    torch.manual_seed(0)
    weight = torch.randn(200, 300) + torch.randn(200, 300) * 1e-4 * step
    return {"weight": weight.bfloat16(), "exp_avg": weight, "step": torch.tensor(step)}


def deepspeed(folder: Path, step: int) -> str:
    tag = f"global_step{step}"
    (folder / tag).mkdir(parents=True)
    torch.save({"module": state(step)}, folder / tag / "mp_rank_00_model_states.pt")
    for rank in range(2):
        name = f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save({"optimizer_state_dict": state(step)}, folder / tag / name)
    (folder / "latest").write_text(tag)
    return tag


def megatron(folder: Path, step: int) -> str:
    name = f"iter_{step:07d}"
    dcp.save(state(step), checkpoint_id=folder / name, no_dist=True)
    torch.save({"iteration": step}, folder / name / "common.pt")
    (folder / name / "metadata.json").write_text('{"sharded_backend": "torch_dist"}')
    (folder / "latest_checkpointed_iteration.txt").write_text(str(step))
    return name


def torchtitan(folder: Path, step: int) -> str:
    dcp.save(state(step), checkpoint_id=folder / f"step-{step}", no_dist=True)
    return f"step-{step}"


@pytest.mark.parametrize("write", [deepspeed, megatron, torchtitan])
def test_layouts(write, tmp_path) -> None:
    store, folder = Store.init(tmp_path / "store"), tmp_path / "checkpoints"
    names = {step: write(folder, step) for step in (1000, 2000)}
    sizes = []
    for step, name in names.items():
        saved = store.save(folder / name, run="run")
        assert saved.step == step  # The number at the end of the name.
        sizes.append(saved.added)
    assert sizes[1] < sizes[0]
    for step, name in names.items():
        restored = tmp_path / "restored" / name
        restored.parent.mkdir(exist_ok=True)
        store.restore(f"run@{step}", restored)
        files = sorted(path.name for path in (folder / name).iterdir())
        assert files == sorted(path.name for path in restored.iterdir())
        for file in files:
            assert (restored / file).read_bytes() == (folder / name / file).read_bytes()
    if write is not deepspeed:
        found = {key: torch.zeros_like(value) for key, value in state(0).items()}
        dcp.load(found, checkpoint_id=tmp_path / "restored" / names[2000], no_dist=True)
        assert all(torch.equal(value, found[key]) for key, value in state(2000).items())


@pytest.mark.parametrize("write", [megatron, torchtitan])
def test_beside_the_training(write, tmp_path) -> None:
    """The loops of the documentation save what is whole, once."""
    store, folder = Store.init(tmp_path / "store"), tmp_path / "checkpoints"

    def look() -> None:
        if write is megatron:
            tracker = folder / "latest_checkpointed_iteration.txt"
            text = tracker.read_text() if tracker.exists() else ""
            whole = [folder / f"iter_{int(text):07d}"] if text.isdigit() else []
        else:
            whole = [path.parent for path in folder.glob("step-*/.metadata")]
        saved = {snapshot.step for snapshot in store.snapshots("run")}
        for path in whole:
            step = int(path.name.replace("_", "-").rpartition("-")[2])
            if step not in saved:
                store.save(path, run="run", step=step)

    look()
    for step in (5, 10):
        write(folder, step)
        (folder / f"step-{step + 1}").mkdir()  # One that is being written.
        look()
        look()
    assert sorted(snapshot.step for snapshot in store.snapshots("run")) == [5, 10]
