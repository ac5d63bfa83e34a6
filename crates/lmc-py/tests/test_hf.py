"""A real transformers Trainer with a store: it saves, is broken off, resumes, and no bit
differs."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import torch
from lmckpt import Store, errors
from lmckpt.hf import StoreCallback, restore_checkpoint
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

pytestmark = pytest.mark.filterwarnings("ignore")


def trainer(root, callback, steps: int = 8, **args) -> Trainer:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    model = GPT2LMHeadModel(config)
    tokens = torch.randint(0, 64, (32, 16), generator=torch.Generator().manual_seed(1))
    settings = TrainingArguments(
        output_dir=str(root),
        max_steps=steps,
        per_device_train_batch_size=4,
        save_steps=args.pop("save_steps", 2),
        learning_rate=1e-3,
        logging_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=3,
        **args,
    )
    rows = [{"input_ids": row, "labels": row} for row in tokens]
    callbacks = [] if callback is None else [callback]
    return Trainer(model=model, args=settings, train_dataset=rows, callbacks=callbacks)


class StopAt(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, **_):
        control.should_training_stop = state.global_step >= self.step


def same(one: Trainer, other: Trainer) -> bool:
    """Whether weights and the moments of the optimizer are the same, bit for bit."""
    a, b = one.model.state_dict(), other.model.state_dict()
    if list(a) != list(b) or not all(torch.equal(a[key], b[key]) for key in a):
        return False
    a, b = (each.optimizer.state_dict()["state"] for each in (one, other))
    return list(a) == list(b) and all(
        torch.equal(a[key]["exp_avg_sq"], b[key]["exp_avg_sq"])
        and torch.equal(a[key]["exp_avg"], b[key]["exp_avg"])
        for key in a
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Trainer:
    run = trainer(tmp_path_factory.mktemp("whole"), None, save_strategy="no")
    run.train()
    return run


@pytest.mark.parametrize("background", [False, True])
def test_resumes_bit_for_bit(tmp_path, whole: Trainer, background: bool) -> None:
    callback = StoreCallback(tmp_path / "store", "r", background=background, delete=True)
    out = tmp_path / "broken"
    broken = trainer(out, callback)
    # The learning rate falls towards step 8; training is broken off after step 5.
    broken.add_callback(StopAt(5))
    broken.train()
    store = Store.open(tmp_path / "store")
    assert [snapshot.step for snapshot in store.snapshots("r")] == [2, 4]
    assert not list(out.glob("checkpoint-*"))
    assert not same(whole, broken)

    resume = restore_checkpoint(store, "r", out)
    assert resume == str(out / "checkpoint-4")
    again = trainer(out, StoreCallback(store, "r"))
    again.train(resume_from_checkpoint=resume)
    assert same(whole, again)
    assert [snapshot.step for snapshot in store.snapshots("r")] == [2, 4, 6, 8]
    assert store.meta("r@8")["epoch"] == "1.0"
    for path, size in store.files("r@8").items():
        original = (out / "checkpoint-8" / path).read_bytes()
        assert len(original) == size and store.read_file("r@8", path) == original


def test_restore(tmp_path) -> None:
    where = tmp_path / "store"
    assert restore_checkpoint(where, "r", tmp_path, missing_ok=True) is None
    with pytest.raises(errors.NoStoreError):
        restore_checkpoint(where, "r", tmp_path)
    store = Store.init(where)
    assert restore_checkpoint(store, "r", tmp_path, missing_ok=True) is None
    with pytest.raises(errors.NotFoundError):
        restore_checkpoint(store, "r", tmp_path)
    source = tmp_path / "source"
    source.mkdir()
    for step in (1, 2):
        (source / "a.json").write_text(str(step))
        store.save(source, run="r", step=step)
    out = tmp_path / "out"
    assert restore_checkpoint(store, "r", out) == str(out / "checkpoint-2")
    assert restore_checkpoint(where, "r", out, step=1) == str(out / "checkpoint-1")
    (out / "checkpoint-2" / "mine").touch()
    assert restore_checkpoint(store, "r", out) == str(out / "checkpoint-2")
    assert (out / "checkpoint-2" / "mine").exists()
    (out / "checkpoint-2/a.json").write_text("broken")
    (out / "checkpoint-2/more").write_text("more")
    assert restore_checkpoint(store, "r", out, overwrite=True)
    assert [path.name for path in (out / "checkpoint-2").iterdir()] == ["a.json"]
    assert (out / "checkpoint-2/a.json").read_text() == "2"
    assert sorted(path.name for path in out.iterdir()) == ["checkpoint-1", "checkpoint-2"]


def test_rotation_waits_for_the_background(tmp_path, monkeypatch) -> None:
    callback = StoreCallback(tmp_path / "store", "r", background=True)
    save, busy = callback.store.save, threading.Event()

    def slow(*args, **kwargs):
        busy.wait(0.3)
        return save(*args, **kwargs)

    monkeypatch.setattr(callback.store, "save", slow)
    trainer(tmp_path / "out", callback, steps=4, save_steps=1, save_total_limit=1).train()
    assert [snapshot.step for snapshot in callback.store.snapshots()] == [1, 2, 3, 4]


def test_errors_of_the_background_are_raised(tmp_path, monkeypatch) -> None:
    callback = StoreCallback(tmp_path / "store", background=True)

    def fail(*_, **__):
        raise errors.StorageError("the disk is full")

    monkeypatch.setattr(callback.store, "save", fail)
    run = trainer(tmp_path / "out", callback, steps=8)
    with pytest.raises(errors.StorageError, match="full"):
        run.train()
    assert run.state.global_step < 8
    assert (tmp_path / "out/checkpoint-2").is_dir()


def test_the_store_knows_of_saves_in_the_background(tmp_path, monkeypatch) -> None:
    """They are those of the store: closing it waits for them, and one is done at a time."""
    callback = StoreCallback(tmp_path / "store", background=True, delete=True)
    save, go = callback.store.save, threading.Event()

    def slow(*args, **kwargs):
        assert go.wait(60)
        return save(*args, **kwargs)

    monkeypatch.setattr(callback.store, "save", slow)
    folder = tmp_path / "checkpoint-1"
    folder.mkdir()
    (folder / "a").write_text("a")
    state = SimpleNamespace(is_world_process_zero=True, global_step=1, max_steps=9, epoch=None)
    control = SimpleNamespace(should_training_stop=False)
    callback.on_save(SimpleNamespace(output_dir=str(tmp_path)), state, control)
    assert folder.is_dir()
    threading.Timer(0.2, go.set).start()
    callback.store.close()
    assert not folder.exists()
    assert [snapshot.step for snapshot in callback.store.snapshots()] == [1]
    callback.wait()


def test_needs_directories(tmp_path) -> None:
    callback = StoreCallback(tmp_path / "store", delete=True)
    with pytest.raises(errors.InvalidError, match="load_best_model_at_end"):
        args = SimpleNamespace(load_best_model_at_end=True)
        callback.on_train_begin(args, None, None)


def test_main_process_only(tmp_path) -> None:
    callback = StoreCallback(tmp_path / "store")
    state = SimpleNamespace(is_world_process_zero=False)
    callback.on_save(SimpleNamespace(output_dir=str(tmp_path)), state, None)
    assert not callback.store.snapshots()
