"""A real Lightning trainer on a store: it saves, resumes and removes, and no bit is lost."""

from __future__ import annotations

import json
import os
import pickle
import threading
from pathlib import Path

import pytest

pytest.importorskip("lightning")

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.plugins.io import AsyncCheckpointIO
from lmckpt import Store, errors
from lmckpt.integrations.lightning import KEPT
from lmckpt.lightning import StoreCheckpointIO, load_checkpoint
from lmckpt.store.native import native_of

pytestmark = pytest.mark.filterwarnings("ignore")


class Model(lightning.LightningModule):
    def __init__(self, width: int = 8, extra: object = None) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(8, width)

    def training_step(self, batch, _):
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, _):
        self.log("val", self.layer(batch[0]).square().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
        steps = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2, 3], 0.5)
        return [optimizer], [steps]


def data() -> torch.utils.data.DataLoader:
    values = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(values), batch_size=8)


def fit(root: Path, plugin, epochs: int, resume=None, extra=None, **checkpoint):
    torch.manual_seed(0)
    model = Model(extra=extra)
    saver = ModelCheckpoint(dirpath=root / "ckpt", **checkpoint)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        default_root_dir=root,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[saver, EarlyStopping("val", patience=100)],
        plugins=[] if plugin is None else [plugin],
    )
    trainer.fit(model, data(), data(), ckpt_path=resume)
    return trainer, model


def same(one, other) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def test_saves_what_torch_saves_and_resumes(tmp_path) -> None:
    whole, model = fit(tmp_path / "whole", None, 4, save_last=True)
    plugin = StoreCheckpointIO(tmp_path / "store", run="r")
    fit(tmp_path / "a", plugin, 2, monitor="val", save_top_k=-1, save_last=True)
    pointer = tmp_path / "a/ckpt/last.ckpt"
    assert pointer.stat().st_size < 1000
    assert json.loads(pointer.read_text())["step"] == 8
    names = {path.name for path in (tmp_path / "a/ckpt").iterdir()}
    assert names == {"epoch=0-step=4.ckpt", "epoch=1-step=8.ckpt", "last.ckpt"}
    assert len(plugin.store.snapshots("r")) == 3  # The first last.ckpt is forgotten.

    for resume in (pointer, "r@8"):
        again = StoreCheckpointIO(tmp_path / "store", run="again")
        trainer, resumed = fit(tmp_path / "b", again, 4, resume, save_last=True)
        assert trainer.global_step == whole.global_step == 16
        assert same(dict(resumed.state_dict()), dict(model.state_dict()))
        assert same(trainer.optimizers[0].state_dict(), whole.optimizers[0].state_dict())

    expected = torch.load(tmp_path / "whole/ckpt/last.ckpt", weights_only=False)
    found = load_checkpoint(tmp_path / "b/ckpt/last.ckpt")
    assert list(found) == list(expected)
    for key in set(expected) - {"callbacks"}:
        assert same(found[key], expected[key]), key
    # A file that Lightning wrote before is still read.
    assert same(plugin.load_checkpoint(tmp_path / "whole/ckpt/last.ckpt"), expected)


def test_keeps_the_best_only(tmp_path) -> None:
    plugin = StoreCheckpointIO(tmp_path / "store", run="r")
    trainer, _ = fit(tmp_path, plugin, 5, monitor="val", save_top_k=1, save_last="link")
    store = Store.open(tmp_path / "store")
    assert [snapshot.step for snapshot in store.snapshots("r")] == [20]
    last = tmp_path / "ckpt/last.ckpt"
    assert last.is_symlink() and load_checkpoint(last)["global_step"] == 20
    plugin.remove_checkpoint(last)
    assert not last.is_symlink() and len(store.snapshots("r")) == 1
    assert load_checkpoint(trainer.checkpoint_callback.best_model_path)["epoch"] == 4


def state(step: int) -> dict:
    return {"global_step": step, "state_dict": {"a": torch.full((100,), float(step))}}


def test_forgets_only_its_own(tmp_path) -> None:
    plugin = StoreCheckpointIO(tmp_path / "store", run="r")
    store, paths = plugin.store, [tmp_path / f"{i}.ckpt" for i in range(6)]
    store.save(state(100), run="r", step=0)
    for i, path in enumerate(paths):
        plugin.save_checkpoint(state(i), path)
    store.tag("r@3", "mine")
    for path in paths:
        plugin.remove_checkpoint(path)
        plugin.remove_checkpoint(path)
    assert not any(path.exists() for path in paths)
    # Another's, one with a tag, and the newest.
    assert [s.step for s in store.snapshots("r")] == [0, 3, 5]
    plugin.save_checkpoint(state(6), paths[0])
    plugin.save_checkpoint(state(7), paths[0])
    assert [s.step for s in store.snapshots("r")] == [0, 3, 7]
    assert store.get("r@7").tags == [KEPT]
    assert same(pickle.loads(pickle.dumps(plugin)).load_checkpoint(paths[0]), state(7))
    with pytest.raises(FileNotFoundError):
        plugin.load_checkpoint(paths[1])


def test_removed_while_it_is_saved(tmp_path, monkeypatch) -> None:
    plugin = StoreCheckpointIO(tmp_path / "store")
    started, go, save = threading.Event(), threading.Event(), plugin.store.save

    def slow(*args, **kwargs):
        started.set()
        go.wait(10)
        return save(*args, **kwargs)

    monkeypatch.setattr(plugin.store, "save", slow)
    one, two = tmp_path / "one.ckpt", tmp_path / "two.ckpt"
    behind = AsyncCheckpointIO(plugin)
    behind.save_checkpoint(state(1), one)
    assert started.wait(10)
    behind.save_checkpoint(state(2), two)
    behind.remove_checkpoint(one)
    go.set()
    behind.teardown()
    assert not one.exists() and two.exists()
    plugin.save_checkpoint(state(3), one)
    plugin.remove_checkpoint(two)
    assert [s.step for s in plugin.store.snapshots()] == [3]
    assert plugin.load_checkpoint(one)["global_step"] == 3


def test_async_trainer(tmp_path) -> None:
    plugin = StoreCheckpointIO(tmp_path / "store", run="r")
    fit(tmp_path, AsyncCheckpointIO(plugin), 3, monitor="val", save_top_k=2, save_last=True)
    for path in (tmp_path / "ckpt").iterdir():
        assert plugin.load_checkpoint(path)["pytorch-lightning_version"]
    assert plugin.store.latest("r").step == 12


def test_background(tmp_path, monkeypatch) -> None:
    plugin = StoreCheckpointIO(tmp_path / "store", run="r", background=True)
    trainer, model = fit(tmp_path, plugin, 3, monitor="val", save_top_k=1, save_last=True)
    assert [s.step for s in plugin.store.snapshots("r")] == [12, 12]
    found = plugin.load_checkpoint(trainer.checkpoint_callback.best_model_path)
    assert same(found["state_dict"], dict(model.state_dict()))

    # Removals find the saves that they mean, however far those are.
    paths = [tmp_path / f"{i}.ckpt" for i in range(12)]
    for i, path in enumerate(paths):
        plugin.save_checkpoint(state(20 + i), path)
        if i:
            plugin.remove_checkpoint(paths[i - 1])
    plugin.teardown()
    assert [path.name for path in paths if path.exists()] == ["11.ckpt"]
    plugin.save_checkpoint(state(40), paths[0])
    plugin.remove_checkpoint(paths[11])
    assert plugin.load_checkpoint(paths[0])["global_step"] == 40
    plugin.remove_checkpoint(tmp_path / "none.ckpt")
    assert [s.step for s in plugin.store.snapshots("r")] == [12, 12, 40]

    def fail(*_, **__):
        raise errors.StorageError("the disk is full")

    monkeypatch.setattr(native_of(plugin.store), "save_flat", fail)
    plugin.save_checkpoint(state(41), paths[0])
    with pytest.raises(errors.StorageError, match="full"):
        plugin.teardown()
    plugin.teardown()
    assert plugin.load_checkpoint(paths[0])["global_step"] == 40


def test_an_error_in_the_background_is_raised_once(tmp_path, monkeypatch) -> None:
    """By the next save or by the end, not by both; other saves go on."""
    plugin = StoreCheckpointIO(tmp_path / "store", background=True)
    path = tmp_path / "a.ckpt"

    def fail(*_, **__):
        raise errors.StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(native_of(plugin.store), "save_flat", fail)
        plugin.save_checkpoint(state(1), path)
        with pytest.raises(errors.StorageError, match="full"):
            plugin.save_checkpoint(state(2), path)
    plugin.teardown()
    assert not path.exists()
    plugin.save_checkpoint(state(3), path)
    plugin.teardown()
    assert load_checkpoint(path)["global_step"] == 3


def test_saved_again_while_the_removed_one_is_saved(tmp_path, monkeypatch) -> None:
    """A removal is of the saves that had begun, not of a later one to the same path."""
    plugin = StoreCheckpointIO(tmp_path / "store", background=True)
    path, go, save = tmp_path / "a.ckpt", threading.Event(), native_of(plugin.store).save_flat

    def slow(flat, options):
        assert go.wait(60)
        return save(flat, options)

    monkeypatch.setattr(native_of(plugin.store), "save_flat", slow)
    plugin.save_checkpoint(state(1), path)
    plugin.remove_checkpoint(path)
    threading.Timer(0.2, go.set).start()
    plugin.save_checkpoint(state(2), path)
    plugin.teardown()
    assert plugin.load_checkpoint(path)["global_step"] == 2
    assert [s.step for s in plugin.store.snapshots()] == [2]


def test_refuses_what_needs_pickle(tmp_path) -> None:
    plugin = StoreCheckpointIO(tmp_path / "store")
    with pytest.raises(errors.InvalidError, match=r"hyper_parameters.extra.*without pickle"):
        fit(tmp_path, plugin, 1, extra=torch.nn.ReLU())
    assert not plugin.store.snapshots()
    with pytest.raises(TypeError, match="storage_options"):
        plugin.save_checkpoint(state(1), tmp_path / "a", storage_options={"a": 1})


def test_handover_of_spawned_processes_is_no_snapshot(tmp_path) -> None:
    plugin, path = StoreCheckpointIO(tmp_path / "store"), tmp_path / ".temp.ckpt"
    plugin.save_checkpoint(state(1)["state_dict"], path)
    assert same(plugin.load_checkpoint(path), state(1)["state_dict"])
    plugin.remove_checkpoint(path)
    assert not path.exists() and not plugin.store.snapshots()


def test_fabric(tmp_path) -> None:
    plugin = StoreCheckpointIO(tmp_path / "store")
    fabric = lightning.Fabric(accelerator="cpu", devices=1, plugins=[plugin])
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer = fabric.setup(model, optimizer)
    for _ in range(2):
        fabric.backward(model(torch.ones(2, 4)).sum())
        optimizer.step()
    fabric.save(tmp_path / "a.ckpt", {"model": model, "optimizer": optimizer, "count": 7})
    expected = {key: value.clone() for key, value in model.state_dict().items()}
    moments = optimizer.state_dict()["state"][0]["exp_avg"].clone()
    fabric.backward(model(torch.ones(2, 4)).sum())
    optimizer.step()
    rest = fabric.load(tmp_path / "a.ckpt", {"model": model, "optimizer": optimizer})
    assert rest == {"count": 7}
    assert same(expected, dict(model.state_dict()))
    assert torch.equal(moments, optimizer.state_dict()["state"][0]["exp_avg"])
    assert plugin.store.latest().tags == [KEPT]


def test_what_is_written_holds_no_secrets(tmp_path: Path) -> None:
    """Neither the pointer nor the snapshot has the query of a URL; the store is still found."""
    # A store in a directory, so that no server is needed.
    store = Store(f"file://{tmp_path}/store", create=True)
    saver = StoreCheckpointIO(store, "r")
    pointer = tmp_path / "ckpt" / "a.ckpt"
    saver.save_checkpoint({"global_step": 3, "value": 7}, pointer)
    assert "signed-by-me" not in pointer.read_text()
    assert json.loads(pointer.read_text())["store"] == f"file://{tmp_path}/store"
    assert load_checkpoint(pointer, store)["value"] == 7
    saver.save_checkpoint({"global_step": 4}, f"file://{tmp_path}/b.ckpt?sig=signed-by-me")
    assert all("signed-by-me" not in str(store.meta(each)) for each in store.snapshots("r"))


def test_a_pointer_goes_to_no_planted_file(tmp_path: Path) -> None:
    """The pointer appears whole, under a name that nobody can have taken before."""
    saver = StoreCheckpointIO(Store(tmp_path / "store", create=True), "r")
    victim, folder = tmp_path / "victim", tmp_path / "ckpt"
    victim.write_text("precious")
    folder.mkdir()
    (folder / f".a.ckpt.{os.getpid()}.part").symlink_to(victim)
    saver.save_checkpoint({"global_step": 3}, folder / "a.ckpt")
    assert victim.read_text() == "precious"
    assert json.loads((folder / "a.ckpt").read_text())["step"] == 3
