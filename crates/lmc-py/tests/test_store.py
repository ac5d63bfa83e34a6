"""Snapshots from Python: states, directories, saves in the background."""

from __future__ import annotations

import math
import multiprocessing
import pickle
import threading

import lmckpt
import numpy
import pytest
import torch
from lmckpt import Store, errors
from lmckpt.store.native import NativeStore


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.init(tmp_path / "store")


def state(step: int) -> dict:
    """A training state as optimizers make it."""
    model = torch.nn.Linear(200, 300)
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for i in range(step):
        torch.manual_seed(i)
        model(torch.randn(8, 200)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "lr": 1e-4 / 3,
        "odd": {"inf": math.inf, "none": None, "list": [1, (2, "x")], 7: True, (1, 2): b"\x00\xff"},
        "rng": torch.get_rng_state(),
        "array": numpy.arange(6).reshape(2, 3),
    }


def same(one, other) -> bool:
    """Whether two states are the same, types and bits included."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, numpy.ndarray):
        return one.dtype == other.dtype and numpy.array_equal(one, other)
    if type(one) is not type(other) and not isinstance(one, dict):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def test_states(store: Store) -> None:
    states = {step: state(step) for step in (3, 4, 10)}
    for step, value in states.items():
        saved = store.save(value, run="r", step=step, tags=["t"], meta={"loss": 0.5})
        assert (saved.run, saved.step, saved.tags) == ("r", step, ["t"])
    assert [snapshot.step for snapshot in store.snapshots("r")] == [3, 4, 10]
    for step, value in states.items():
        assert same(store.load(f"r@{step}"), value)
    assert store.latest() == store.get("r@10") and store.latest("none") is None
    assert store.meta("latest") == {"loss": "0.5"}
    assert set(store.files()) == {"state.json", "model.safetensors", "optimizer.safetensors"}
    assert store.snapshots()[1].added < store.snapshots()[0].added
    with store.open_file("latest", "model.safetensors") as file:
        assert torch.equal(file.get_slice("weight")[5:7], states[10]["model"]["weight"][5:7])


def test_into_and_only(store: Store) -> None:
    value = state(2)
    store.save(value)
    target = state(5)
    weight = target["model"]["weight"]
    loaded = store.load(into=target)
    assert loaded is target and loaded["model"]["weight"] is weight and same(loaded, value)
    part = store.load(only="model.*")
    assert part.keys() == {"model"} and part["model"].keys() == value["model"].keys()
    with pytest.raises(errors.InvalidError, match="no tensor fits 'modle"):
        store.load(only="modle.*")
    # Only the weights, into a model that has nothing else.
    model = {"model": state(5)["model"], "other": 1}
    assert store.load(into=model, only="model.*") is model and same(model["model"], value["model"])
    target["more"] = 1
    with pytest.raises(errors.InvalidError, match="more is in into, and not in the snapshot"):
        store.load(into=target)
    del target["more"]
    target["model"]["weight"] = torch.zeros(3)
    with pytest.raises(errors.InvalidError, match=r"model\.weight"):
        store.load(into=target)
    del target["model"]["weight"]
    with pytest.raises(errors.InvalidError, match="and not in into"):
        store.load(into=target)
    with pytest.raises(TypeError, match="int"):
        store.load(5)
    for step in ("10", -1, 1.0, True):
        with pytest.raises(errors.InvalidError, match="a step is a number"):
            store.save({"a": 1}, step=step)


def test_failed_saves_are_heard_of(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """What fails in the background is logged, and raised by the next call unless it was seen."""
    bad = {"a": object()}
    with pytest.raises(errors.InvalidError):
        store.save_async(bad)
    store.save_async({"a": 1}, parent="0123456789")
    with pytest.raises(errors.NotFoundError):
        store.save_async({"a": 2})
    assert "a save in the background failed" in caplog.text
    store.save_async({"a": 3})
    assert store.load() == {"a": 3}, "a load waits for it"
    seen = store.save_async({"a": 4}, parent="0123456789")
    assert isinstance(seen.exception(), errors.NotFoundError)
    store.save_async({"a": 5})
    store.close()
    assert store.load() == {"a": 5}


def test_what_cannot_be_saved(store: Store) -> None:
    for bad in (object(), lambda: 1, torch.nn.Linear(1, 1), open):
        with pytest.raises(errors.InvalidError, match="a.b"):
            store.save({"a": {"b": bad}})
    with pytest.raises(errors.InvalidError, match="dict"):
        store.save([1])
    loop: dict = {}
    loop["loop"] = loop
    with pytest.raises(errors.InvalidError, match="levels"):
        store.save(loop)
    assert store.snapshots() == []


def test_async(store: Store) -> None:
    """What is saved is the state as it was, whatever is done to it afterwards."""
    value = state(2)
    wanted = pickle.loads(pickle.dumps(value))
    for step in range(4):
        future = store.save_async(value, step=step)
        for tensor in value["model"].values():
            tensor.add_(1)
        assert future.result().step == step
        for name, tensor in value["model"].items():
            tensor.copy_(wanted["model"][name])
    for step in range(4):
        assert same(store.load(f"main@{step}"), wanted)
    store.save_async({"x": torch.ones(3)}, step=9)
    store.close()
    assert store.load("main@9")["x"].tolist() == [1, 1, 1]
    future = store.save_async({"x": torch.ones(2)}, parent="0123456789")
    with pytest.raises(errors.NotFoundError):
        future.result()
    with pytest.raises(errors.NotFoundError):
        store.wait()


def test_async_copies_views(store: Store) -> None:
    """Tensors and arrays with gaps, in another order or with no values, beside plain ones."""
    whole = torch.arange(6_000_000, dtype=torch.float32).reshape(2000, 3000)
    value = {
        "model": {"whole": whole, "rows": whole[3:9], "turned": whole.T, "gaps": whole[:, ::7]},
        "arrays": {
            "whole": whole.numpy().copy(),
            "turned": whole.numpy().T,
            "none": numpy.empty(0),
        },
        "conj": torch.tensor([1 + 2j, 3j]).conj(),
    }
    wanted = pickle.loads(pickle.dumps(value))
    for _ in range(2):
        future = store.save_async(value)
        whole.zero_()
        saved = store.load(future.result())
        whole.copy_(wanted["model"]["whole"])
        assert same(saved["model"], wanted["model"]) and same(saved["conj"], wanted["conj"])
        assert same(saved["arrays"], wanted["arrays"])


def test_async_does_not_block(store: Store, monkeypatch) -> None:
    """A save that takes long holds up the next save, not the caller."""
    go = threading.Event()
    save = NativeStore.save_flat

    def slow(self, flat, options):
        assert go.wait(60)
        return save(self, flat, options)

    monkeypatch.setattr(NativeStore, "save_flat", slow)
    future = store.save_async({"x": torch.ones(5)})
    assert not future.done()
    go.set()
    assert future.result(60).step == 0


def test_directories(store: Store, tmp_path) -> None:
    folder = tmp_path / "checkpoint-5"
    folder.mkdir()
    lmckpt_bytes = torch.arange(1000).numpy().tobytes()
    (folder / "data.bin").write_bytes(lmckpt_bytes)
    saved = store.save(folder, run="dirs")
    assert saved.step == 5
    store.restore(saved, tmp_path / "out")
    assert (tmp_path / "out" / "data.bin").read_bytes() == lmckpt_bytes
    assert store.read_file(saved, "data.bin") == lmckpt_bytes
    with pytest.raises(errors.ExistsError):
        store.restore(saved, tmp_path / "out")
    with pytest.raises(errors.InvalidError, match="restore"):
        store.load(saved)


def test_housekeeping(store: Store) -> None:
    for step in range(6):
        store.save({"x": torch.full((1000,), float(step))}, step=step)
    store.tag("main@2", "best")
    diff = store.diff("main@0", "main@1")
    assert "model.safetensors" in diff["changed"]
    dry = store.forget(keep_last=2, keep_tags=["best"], dry_run=True)
    assert [snapshot.step for snapshot in dry] == [0, 1, 3]
    assert store.forget(keep_last=2, keep_tags=["best"]) == dry
    assert [snapshot.step for snapshot in store.snapshots()] == [2, 4, 5]
    store.prune(grace_hours=0)
    assert store.check(read_data=True) == []
    assert store.stats()["snapshots"] == 3
    with pytest.raises(errors.InvalidError, match="keep"):
        store.forget()
    with pytest.raises(errors.NotFoundError):
        store.load("main@0")


def test_opening(tmp_path) -> None:
    with pytest.raises(errors.NoStoreError):
        Store.open(tmp_path / "none")
    made = Store(tmp_path / "deep" / "s", create=True)
    made.save({"x": 1})
    assert Store(tmp_path / "deep" / "s", create=True).latest() == made.latest()
    with pytest.raises(errors.ExistsError):
        Store.init(tmp_path / "deep" / "s")


def _save(store: Store, step: int) -> None:
    store.save({"x": torch.full((100,), float(step))}, step=step)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(store: Store, method: str) -> None:
    """A store goes to other processes, and they save at once."""
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=_save, args=(store, step)) for step in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    assert sorted(snapshot.step for snapshot in store.snapshots()) == [0, 1, 2]


def test_deltas() -> None:
    """New weights for a worker that has the old ones."""
    old = {"a": torch.randn(300, 200).bfloat16(), "b": torch.randn(7), "c": torch.ones(3)}
    new = {name: tensor.clone() for name, tensor in old.items() if name != "c"}
    new["a"][::50] += 0.01
    new["d"] = torch.randn(5)
    data = lmckpt.delta(old, new)
    assert len(data) < old["a"].numel()
    held = old["a"]
    found = lmckpt.apply(old, data)
    assert found.keys() == new.keys() and found["a"] is held
    assert all(torch.equal(found[name], new[name]) for name in new)
    # Applied once, the old weights are no more.
    before = {name: tensor.clone() for name, tensor in found.items()}
    with pytest.raises(errors.LmcError, match="base"):
        lmckpt.apply(found, data)
    assert all(torch.equal(found[name], before[name]) for name in found)
    arrays = {"x": numpy.arange(1000, dtype="f4")}
    data = lmckpt.delta(arrays, {"x": arrays["x"] + 1})
    assert lmckpt.apply(arrays, data)["x"] is arrays["x"] and arrays["x"][0] == 1
    for end in range(0, len(data), 37):
        with pytest.raises(errors.LmcError):
            lmckpt.apply({"x": numpy.arange(1000, dtype="f4")}, data[:end])
