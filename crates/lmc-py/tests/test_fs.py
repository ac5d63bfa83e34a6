"""Files of snapshots through fsspec."""

from __future__ import annotations

import importlib
import io
import pickle
import tomllib
from pathlib import Path

import pytest

fsspec = pytest.importorskip("fsspec")

import numpy
import torch
from lmckpt import Store
from lmckpt.fs import LmcFileSystem

pytestmark = pytest.mark.filterwarnings("ignore")

ARRAY = numpy.arange(300_000, dtype=numpy.float32).reshape(300, 1000)


@pytest.fixture
def store(tmp_path) -> Store:
    """Two snapshots of a directory with a file, a folder and an empty one."""
    source = tmp_path / "source"
    (source / "deep/er").mkdir(parents=True)
    (source / "empty").mkdir()
    (source / "link").symlink_to("a.txt")
    store = Store.init(tmp_path / "store")
    for step in (1, 2):
        (source / "a.txt").write_text(f"step {step}\nsecond line\n")
        numpy.save(source / "deep/er/x.npy", ARRAY * step)
        store.save(source, run="r", step=step)
    return store


@pytest.fixture
def fs(store: Store) -> LmcFileSystem:
    return fsspec.filesystem("lmc", store=store.url)


def test_urls(store: Store) -> None:
    for name in ("latest", "r@2", "r@latest", store.latest().id, store.latest().id[:10]):
        url = f"lmc://{store.url}!/{name}/a.txt"
        with fsspec.open(url, "rt") as file:
            assert file.readlines() == ["step 2\n", "second line\n"]
        with fsspec.open(f"lmc://{name}/a.txt", store=store.url) as file:
            assert file.read() == b"step 2\nsecond line\n"
        fs, path = fsspec.url_to_fs(url)
        assert path == f"{name}/a.txt" and fs.unstrip_protocol(path) == url
    with fsspec.open(f"simplecache::lmc://{store.url}!/r@1/a.txt") as file:
        assert file.read().startswith(b"step 1")
    with pytest.raises(ValueError, match="which store"):
        fsspec.filesystem("lmc")


def test_listing(store: Store, fs: LmcFileSystem) -> None:
    ids = [snapshot.id for snapshot in store.snapshots()]
    assert fs.ls("", detail=False) == ids
    assert [(each["run"], each["step"]) for each in fs.ls("")] == [("r", 1), ("r", 2)]
    assert fs.ls(f"lmc://{store.url}!/", detail=False) == ids
    assert fs.ls("r@1", detail=False) == ["r@1/a.txt", "r@1/deep", "r@1/empty"]
    assert fs.ls("r@1/a.txt", detail=False) == ["r@1/a.txt"]
    assert fs.ls("r@1/empty") == []
    assert fs.find("r@1") == ["r@1/a.txt", "r@1/deep/er/x.npy"]
    assert fs.glob("r@1/**/*.npy") == ["r@1/deep/er/x.npy"]
    assert fs.glob("*/a.txt") == sorted(f"{id}/a.txt" for id in ids)
    assert list(fs.walk("latest")) == [
        ("latest", ["deep", "empty"], ["a.txt"]),
        ("latest/deep", ["er"], []),
        ("latest/deep/er", [], ["x.npy"]),
        ("latest/empty", [], []),
    ]
    assert fs.info("latest/a.txt")["size"] == fs.size("latest/a.txt") == 19
    assert fs.isdir("latest/deep") and fs.isfile("latest/a.txt") and fs.isdir("latest")
    assert fs.exists("r@2/deep/er") and not fs.exists("r@2/deep/e") and not fs.exists("r@3")
    assert fs.du("latest") == 19 + fs.size("latest/deep/er/x.npy")
    assert fs.modified("latest").timestamp() == store.latest().time_ms / 1000


def test_reading(fs: LmcFileSystem) -> None:
    for step in (1, 2):
        with fs.open(f"r@{step}/deep/er/x.npy") as file:
            assert numpy.array_equal(numpy.load(file), ARRAY * step)
    whole = fs.cat("r@1/deep/er/x.npy")
    assert fs.cat_file("r@1/deep/er/x.npy", 700_001, 700_013) == whole[700_001:700_013]
    assert fs.cat_file("r@1/deep/er/x.npy", -5) == whole[-5:]
    assert fs.cat_file("r@1/deep/er/x.npy", 10, 5) == b""
    assert fs.cat_ranges(["r@1/a.txt"] * 2, [0, 5], [4, 6]) == [b"step", b"1"]
    assert fs.cat(["r@1/a.txt", "r@2/a.txt"]) == {
        "r@1/a.txt": b"step 1\nsecond line\n",
        "r@2/a.txt": b"step 2\nsecond line\n",
    }
    with fs.open("r@1/deep/er/x.npy", block_size=1000) as file:
        assert file.seekable() and not file.writable() and file.size == len(whole)
        for place, count in ((500_000, 10), (3, 5000), (len(whole) - 4, 100), (0, 0)):
            file.seek(place)
            assert file.read(count) == whole[place : place + count]
        file.seek(-10, io.SEEK_END)
        buffer = bytearray(10)
        assert file.readinto(buffer) == 10 and buffer == whole[-10:]


def test_reads_only_what_is_needed(fs: LmcFileSystem, monkeypatch) -> None:
    with fs.open("r@2/deep/er/x.npy", block_size=4096) as file:
        spans = []
        fetch = file._fetch_range
        monkeypatch.setattr(file.cache, "fetcher", lambda a, b: spans.append(b - a) or fetch(a, b))
        file.seek(1_000_000)
        assert file.read(100) and 100 <= sum(spans) <= 5000


def test_get(fs: LmcFileSystem, tmp_path) -> None:
    target = tmp_path / "target"
    fs.get("r@1", str(target), recursive=True)
    assert (target / "a.txt").read_text().startswith("step 1")
    assert numpy.array_equal(numpy.load(target / "deep/er/x.npy"), ARRAY)


def test_states(store: Store, fs: LmcFileSystem) -> None:
    values = {"model": {"w": torch.randn(100)}}
    store.save(values, run="a/b", step=3)
    load = pytest.importorskip("safetensors.torch").load
    found = load(fs.cat("a%2Fb@3/model.safetensors"))
    assert torch.equal(found["w"], values["model"]["w"])


def test_torch_distributed_checkpoint(store: Store, tmp_path) -> None:
    import torch.distributed.checkpoint as dcp

    values = {"w": torch.randn(100, 30), "deep": {"m": torch.randn(50)}, "step": 3}
    dcp.save(values, checkpoint_id=tmp_path / "dcp")
    store.save(tmp_path / "dcp", run="dcp", step=3)
    found = {"w": torch.zeros(100, 30), "deep": {"m": torch.zeros(50)}, "step": 0}
    dcp.load(found, checkpoint_id=f"lmc://{store.url}!/dcp@3")
    assert torch.equal(found["w"], values["w"]) and found["step"] == 3
    assert torch.equal(found["deep"]["m"], values["deep"]["m"])


def test_missing(store: Store, fs: LmcFileSystem) -> None:
    for path in ("latest/no", "r@9/a.txt", "none/a.txt", "latest/a.txt/b", "latest/deep/e"):
        for call in (fs.open, fs.info, fs.ls, fs.cat_file, fs.ukey if "@9" in path else fs.size):
            with pytest.raises(FileNotFoundError):
                call(path)
    with pytest.raises(FileNotFoundError):
        fsspec.open(f"lmc://{store.url}!/latest/no").open()
    with pytest.raises(FileNotFoundError):
        fsspec.open(f"lmc://{store.url}-not!/latest/a.txt").open()
    with pytest.raises(IsADirectoryError):
        fs.open("latest/deep")


def test_writing_is_refused(store: Store, fs: LmcFileSystem, tmp_path) -> None:
    local = tmp_path / "local"
    local.write_text("x")
    calls = [
        lambda: fs.open("latest/a.txt", "wb"),
        lambda: fs.open("latest/a.txt", "ab"),
        lambda: fs.open("latest/a.txt", "r+b"),
        lambda: fs.pipe("latest/new", b"x"),
        lambda: fs.put(str(local), "latest/new"),
        lambda: fs.rm("latest/a.txt"),
        lambda: fs.rm("latest", recursive=True),
        lambda: fs.mkdir("latest/x"),
        lambda: fs.makedirs("latest/x/y"),
        lambda: fs.mv("latest/a.txt", "latest/b.txt"),
        lambda: fs.cp("latest/a.txt", "latest/b.txt"),
        lambda: fs.touch("latest/a.txt"),
    ]
    for call in calls:
        with pytest.raises(io.UnsupportedOperation, match="cannot be changed"):
            call()
    assert len(store.snapshots()) == 2 and not store.check(read_data=True)


def test_open_files_stay(store: Store, fs: LmcFileSystem, tmp_path) -> None:
    file = fs.open("latest/a.txt")
    assert file.read(5) == b"step "
    (tmp_path / "source/a.txt").write_text("step 3\n")
    store.save(tmp_path / "source", run="r", step=3)
    again = pickle.loads(pickle.dumps(file))
    assert file.read(1) == again.read(1) == b"2"
    assert fs.cat("latest/a.txt") == b"step 3\n"
    assert pickle.loads(pickle.dumps(fs)).cat("r@1/a.txt").startswith(b"step 1")


def test_entry_point() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    module, name = tomllib.loads(text)["project"]["entry-points"]["fsspec.specs"]["lmc"].split(":")
    assert getattr(importlib.import_module(module), name) is LmcFileSystem
