"""Wrong arguments, text and names: every case is a clear error, or works as the system does."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import lmckpt
import pytest
import safetensors.torch
import torch
from lmckpt import Store, errors, safe_open
from lmckpt import numpy as lmc_numpy
from lmckpt import torch as lmc_torch
from lmckpt.fs import LmcFileSystem

OURS = (errors.LmcError, TypeError)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.init(tmp_path / "store")


def test_arguments(store: Store, tmp_path) -> None:
    """Wrong types and numbers out of range, wherever one can be given."""
    store.save({"x": torch.ones(2)})
    one = {"x": torch.ones(2)}
    path = tmp_path / "x.lmc"
    lmc_torch.save_file(one, path)
    calls: list[Callable[[Any], Any]] = [
        lambda wrong: lmckpt.compress(b"", threads=wrong),
        lambda wrong: lmckpt.compress(b"", level=wrong),
        lambda wrong: lmckpt.decompress(lmckpt.compress(b"x"), max_size=wrong),
        lambda wrong: store.save(one, step=wrong),
        lambda wrong: store.save(one, meta=wrong),
        lambda wrong: store.save(one, tags=wrong),
        lambda wrong: store.load(device=wrong),
        lambda wrong: safe_open(path, "pt", device=wrong),
        lambda wrong: safe_open(path, wrong),
        lambda wrong: lmc_torch.load_file(path, device=wrong),
        lambda wrong: store.save(one, threads=wrong),
        lambda wrong: store.load(threads=wrong),
        lambda wrong: store.forget(keep_last=wrong, dry_run=True),
        lambda wrong: lmc_torch.save(one, wrong),
        lambda wrong: lmckpt.delta(wrong, one),
        lambda wrong: lmckpt.delta(one, wrong),
        lambda wrong: lmckpt.apply(wrong, b""),
        lambda wrong: lmc_torch.load_file(wrong),
        lambda wrong: store.get(wrong),
        lambda wrong: Store(wrong),
    ]
    for call in calls:
        for wrong in (-1, 2**64, "\ud800", "a\0b", object(), [object()], float("nan")):
            with pytest.raises(OURS):
                call(wrong)
    for enough in (2**70, 10**400, 1e300):
        store.forget(keep_within_days=enough, dry_run=True)
        store.prune(grace_hours=enough, dry_run=True)
    for wrong in (-1, -(10**400), float("nan"), float("inf"), "1", object()):
        with pytest.raises(OURS):
            store.forget(keep_within_days=wrong, dry_run=True)
        with pytest.raises(OURS):
            store.prune(grace_hours=wrong, dry_run=True)
    for wrong in (["latest/x"], {}, 3):
        with pytest.raises(TypeError):
            LmcFileSystem(store).info(wrong)
    for path in ("a\0b", "\ud800", b"bytes", 3, None):
        for use in (
            lambda path: lmc_torch.save_file(one, path),
            lambda path: lmckpt.compress_file(path),
            lambda path: lmckpt.decompress_file(path),
            lambda path: safe_open(path, "pt"),
            lambda path: store.restore("latest", path),
            Store.init,
        ):
            with pytest.raises(OURS):
                use(path)
    for path in (tmp_path, tmp_path / "no" / "x", tmp_path / ("x" * 300)):
        for read in (lmc_torch.load_file, lmc_numpy.load_file, lambda path: safe_open(path, "pt")):
            with pytest.raises(errors.LmcError):
                read(path)
    assert [snapshot.step for snapshot in store.snapshots()] == [0]


def test_odd_names(store: Store, tmp_path) -> None:
    """Files and runs may be called anything that a system can call a file."""
    for name in ("\u00e9 \n.lmc", "-", "a'b\"c", "x;y", "%2F", "\udcff.lmc"):
        path = tmp_path / name
        lmc_torch.save_file({"x": torch.ones(2)}, path)
        assert torch.equal(lmc_torch.load_file(path)["x"], torch.ones(2))
    for run in ("a/b", "..", "a@b", "\u00fc *", "latest", "%2F"):
        store.save({"x": 1}, run=run)
        assert store.load(f"{run}@latest") == {"x": 1}
    for run in ("", "a\0b", "\ud800", "x" * 300, "a\nb"):
        with pytest.raises(OURS):
            store.save({"x": 1}, run=run)
    with pytest.raises(errors.InvalidError):
        lmc_torch.save({"\ud800": torch.ones(2)})
    with pytest.raises(errors.InvalidError):
        lmc_torch.save({"__metadata__": torch.ones(2)})


def test_text_that_is_no_utf8(store: Store, tmp_path) -> None:
    """Halves of surrogate pairs are refused wherever text is taken."""
    store.save({"x": torch.ones(2)})
    for wrong in ("\ud800", "a\udcffb", "main@\udc80"):
        calls: list[Callable[[], Any]] = [
            lambda wrong=wrong: store.save({"x": 1}, run=wrong),
            lambda wrong=wrong: store.save({"x": 1}, tags=[wrong]),
            lambda wrong=wrong: store.save({"x": 1}, tags=wrong),
            lambda wrong=wrong: store.save({"x": 1}, meta={wrong: 1}),
            lambda wrong=wrong: store.save({"x": 1}, meta={"k": wrong}),
            lambda wrong=wrong: store.save({"x": 1}, parent=wrong),
            lambda wrong=wrong: store.save({"x": 1}, level=wrong),
            lambda wrong=wrong: store.save_async({"x": 1}, run=wrong).result(),
            lambda wrong=wrong: store.load(wrong),
            lambda wrong=wrong: store.load(only=wrong),
            lambda wrong=wrong: store.files(wrong),
            lambda wrong=wrong: store.meta(wrong),
            lambda wrong=wrong: store.get(wrong),
            lambda wrong=wrong: store.latest(wrong),
            lambda wrong=wrong: store.snapshots(wrong),
            lambda wrong=wrong: store.tag("latest", wrong),
            lambda wrong=wrong: store.tag("latest", wrong, remove=True),
            lambda wrong=wrong: store.tag(wrong, "t"),
            lambda wrong=wrong: store.diff(wrong, "latest"),
            lambda wrong=wrong: store.forget(run=wrong, keep_last=1, dry_run=True),
            lambda wrong=wrong: store.forget(keep_tags=wrong, dry_run=True),
            lambda wrong=wrong: store.forget(keep_tags=[wrong], dry_run=True),
            lambda wrong=wrong: store.restore(wrong, tmp_path / "out"),
            lambda wrong=wrong: store.restore("latest", tmp_path / "out", only=wrong),
            lambda wrong=wrong: store.read_file("latest", wrong),
            lambda wrong=wrong: store.open_file("latest", wrong),
            lambda wrong=wrong: store.open_file("latest", "model.safetensors", wrong),
            lambda wrong=wrong: Store(wrong),
            lambda wrong=wrong: Store(wrong, create=True),
            lambda wrong=wrong: Store.init(wrong),
            lambda wrong=wrong: Store(f"s3://bucket/{wrong}"),
            lambda wrong=wrong: lmckpt.Snapshot(wrong, []),
            lambda wrong=wrong: lmc_torch.save({"x": torch.ones(2)}, {"k": wrong}),
        ]
        for call in calls:
            with pytest.raises(errors.LmcError) as found:
                call()
            # Whoever prints it can.
            str(found.value).encode()
    assert len(store.snapshots()) == 1


def test_names_of_files_that_are_no_utf8(store: Store, tmp_path) -> None:
    """Names are bytes: they come out as os.fsdecode has them, go in again, and are restored."""
    folder = tmp_path / "folder"
    (folder / "d\udcff").mkdir(parents=True)
    names = ["\udce9.bin", "d\udcff/\udcfe.bin", "\u00e9.bin"]
    for name in names:
        (folder / name).write_bytes(os.fsencode(name))
    tensors = folder / "w\udcf0.safetensors"
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "w")
    (tmp_path / "w").rename(tensors)
    store.save(folder)
    found = store.files()
    assert set(found) == {*names, tensors.name}
    for name in names:
        assert store.read_file("latest", name) == os.fsencode(name)
    with store.open_file("latest", tensors.name) as file:
        assert torch.equal(file.get_tensor("x"), torch.ones(2))
    assert torch.equal(store.load()[tensors.name]["x"], torch.ones(2))
    store.restore("latest", tmp_path / "some", only=["\udce9*", "d\udcff"])
    assert os.listdir(tmp_path / "some" / "d\udcff") == ["\udcfe.bin"]
    assert sorted(os.listdir(tmp_path / "some")) == ["d\udcff", "\udce9.bin"]
    store.save({"x": 1})
    assert "\udce9.bin" in store.diff(store.snapshots()[0], "latest")["removed"]

    files = LmcFileSystem(store)
    first = store.snapshots()[0].id
    assert files.cat_file(f"{first}/d\udcff/\udcfe.bin") == os.fsencode(names[1])
