"""What distributed checkpoints hold, in one process: every type, plain values, wrong layouts."""

from __future__ import annotations

import io
import json
import pickle
import threading
from pathlib import Path
from typing import Any

import lmckpt
import pytest
from lmckpt.errors import (
    ConflictError,
    CorruptError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
)

torch = pytest.importorskip("torch")
dcp = pytest.importorskip("torch.distributed.checkpoint")
from lmckpt.dcp import StoreReader, StoreWriter
from lmckpt.dcp.layout import Chunk, Earlier, Layout, Whole
from lmckpt.dcp.reader import type_of
from lmckpt.safetensors.dtypes import torch_dtypes

# Types whose size the planner of torch does not know, so that no writer gets to see them.
UNPLANNED = {"torch.bits8", "torch.bits16"}
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.distributed is (disabled|unavailable)")


def save(store: lmckpt.Store, state: dict[str, Any], **options: Any) -> lmckpt.Snapshot:
    writer = StoreWriter(store, **options)
    dcp.save(state, storage_writer=writer, no_dist=True)
    assert writer.snapshot is not None
    return writer.snapshot


def load(store: lmckpt.Store, state: dict[str, Any], name: Any = "latest") -> dict[str, Any]:
    dcp.load(state, storage_reader=StoreReader(store, name), no_dist=True)
    return state


def cause(error: pytest.ExceptionInfo[BaseException]) -> BaseException:
    """What torch has wrapped."""
    ((found, _),) = error.value.failures.values()
    return found


@pytest.fixture
def store(tmp_path: Path) -> lmckpt.Store:
    return lmckpt.Store.init(tmp_path / "store")


def test_every_type(store: lmckpt.Store) -> None:
    """Tensors of all types and forms come back, wherever they go to."""
    generator = torch.Generator().manual_seed(1)
    state = {}
    for dtype in [*torch_dtypes().name_of, *torch_dtypes().words_of]:
        if str(dtype) in UNPLANNED:
            continue
        raw = torch.randint(0, 2 if dtype == torch.bool else 256, (6 * dtype.itemsize,))
        state[str(dtype)] = raw.to(torch.uint8).view(dtype).view(2, 3)
    whole = torch.randn(64, 48, generator=generator)
    state |= {
        "transposed": whole.t(),
        "columns": whole[:, 3:40:2],
        "expanded": whole[0].expand(5, 48),
        "scalar": torch.tensor(2.5, dtype=torch.bfloat16),
        "empty": torch.empty(0, 7),
        "none": torch.empty(3, 0),
        "conjugated": torch.randn(8, dtype=torch.complex64).conj(),
        "parameter": torch.nn.Parameter(whole.clone()),
        "large": torch.randn(1000, 300, generator=generator),
    }
    save(store, state)
    # To fresh memory, and to memory that is not a plain copy of the file.
    fresh = {name: torch.zeros_like(value).contiguous() for name, value in state.items()}
    strided = dict(fresh, transposed=torch.zeros(64, 48).t(), large=torch.zeros(1000, 600)[:, ::2])
    for found in (fresh, strided):
        load(store, found)
        for name, value in state.items():
            same = found[name].resolve_conj().contiguous(), value.resolve_conj().contiguous()
            assert same[0].dtype == same[1].dtype
            if value.numel():
                flat = [tensor.detach().reshape(-1).view(torch.uint8) for tensor in same]
                assert torch.equal(*flat), name


def test_values(store: lmckpt.Store) -> None:
    """What is not a tensor comes back without a pickle of the store being read."""
    state = {
        "rng": torch.get_rng_state(),
        "step": 7,
        "nested": {"list": [1, 2.5, None, "x"], "tuple": (1, (2,)), "bytes": b"\x00\xff"},
        "mixed": [torch.ones(2), 3],
        "stream": io.BytesIO(b"abc").getvalue(),
    }
    save(store, {"all": state})
    found = load(store, {"all": pickle.loads(pickle.dumps(state)) | {"step": 0}})["all"]
    assert found["step"] == 7 and found["nested"] == state["nested"]
    assert torch.equal(found["mixed"][0], torch.ones(2)) and found["mixed"][1] == 3
    snapshot = store.latest()
    assert snapshot is not None
    for path in store.files(snapshot):
        assert b"torch" not in store.read_file(snapshot, path) or path == "dcp.json"
    with pytest.raises(dcp.api.CheckpointException) as error:
        save(store, {"odd": object()})
    assert isinstance(cause(error), InvalidError) and "odd" in str(cause(error))
    assert len(store.snapshots()) == 1


def test_arrays_and_tensors(store: lmckpt.Store) -> None:
    """Arrays of numpy and tensors in one value stay what they are; single values have any
    stride."""
    numpy = pytest.importorskip("numpy")
    values = [torch.ones(2, dtype=torch.bfloat16), numpy.arange(3.0), torch.zeros(3)]
    for order in (values, values[::-1]):
        save(store, {"o": tuple(order), "w": torch.arange(4)[::2][:1]})
        zero = {"o": (None, None, None), "w": torch.zeros(8, dtype=torch.int64)[::3][:1]}
        found = load(store, zero)
        assert [type(value) for value in found["o"]] == [type(value) for value in order]
        assert found["w"].item() == 0 and found["o"][1].tolist() == order[1].tolist()


def test_damaged_layout_of_the_parent(store: lmckpt.Store, tmp_path: Path) -> None:
    """What an old snapshot says of its files stops no save."""
    first = save(store, {"w": torch.arange(12.0)})
    for name in ("../../x", "a\0b", "\ud800", "elsewhere"):
        target = tmp_path / name.encode(errors="backslashreplace").hex()
        store.restore(first, target)
        layout = json.loads((target / "dcp.json").read_text())
        layout["files"] = [name]
        (target / "dcp.json").write_text(json.dumps(layout))
        store.save(target, run="main")
        save(store, {"w": torch.arange(12.0) + 1})


def test_part_of_a_state(store: lmckpt.Store) -> None:
    """Only what is asked for is read: the model of a snapshot without optimizer state, say."""
    values = torch.randn(300, 40)
    small = {f"norm{i}": torch.randn(40) for i in range(50)}
    save(store, {"model": {"w": values, **small}, "optimizer": {"m": values * 2}})
    found = load(store, {"model": {"w": torch.zeros(300, 40), "norm7": torch.zeros(40)}})
    assert torch.equal(found["model"]["w"], values)
    assert torch.equal(found["model"]["norm7"], small["norm7"])
    some = {f"norm{i}": torch.zeros(40) for i in range(0, 50, 3)}
    found = load(store, {"model": dict(some)})
    assert all(torch.equal(found["model"][name], small[name]) for name in some)
    with pytest.raises(dcp.api.CheckpointException):
        load(store, {"model": {"w": torch.zeros(300, 41)}})
    with pytest.raises(dcp.api.CheckpointException):
        load(store, {"model": {"other": torch.zeros(3)}})


def test_names_and_steps(store: lmckpt.Store, caplog: pytest.LogCaptureFixture) -> None:
    """Snapshots are named as elsewhere; one writer serves many saves."""
    state = {"w": torch.arange(1000.0)}
    writer = StoreWriter(store, "r", tags=["good"], meta={"loss": 1.5})
    for name in ("out/step-100", "200", None):
        dcp.save(state, checkpoint_id=name, storage_writer=writer, no_dist=True)
    assert [snapshot.step for snapshot in store.snapshots("r")] == [100, 200, 201]
    assert store.get("r@200").tags == ["good"] and store.meta("r@200") == {"loss": "1.5"}
    fork = save(store, state, run="fork", step=5, parent="r@200")
    assert fork.added < 1000
    reader = StoreReader(store)
    dcp.load({"w": torch.zeros(1000)}, checkpoint_id="r@100", storage_reader=reader, no_dist=True)
    assert reader.snapshot is not None and reader.snapshot.step == 100
    # What was saved in another way is not a distributed checkpoint, but may be coded against.
    store.save({"w": torch.arange(1000.0)}, run="plain")
    with pytest.raises(dcp.api.CheckpointException):
        load(store, dict(state), "plain@latest")
    assert "is not a distributed checkpoint" in caplog.text
    save(store, state, run="plain")
    with pytest.raises(dcp.api.CheckpointException):
        load(store, dict(state), "r@7")
    assert "no snapshot r@7" in caplog.text
    # A save that fails before it begins leaves no name for the next one.
    writer.reset("step-300")
    dcp.save(state, checkpoint_id="step-500", storage_writer=writer, no_dist=True)
    assert store.latest("r").step == 500
    with pytest.raises(UnsupportedError):
        writer.set_up_storage_writer(True, rank=0, use_collectives=False)
    copied = pickle.loads(pickle.dumps(writer))
    dcp.save(state, storage_writer=copied, no_dist=True, checkpoint_id="at-8")
    copied = pickle.loads(pickle.dumps(StoreWriter(store, "r", 9)))
    dcp.save(state, storage_writer=copied, no_dist=True)
    assert store.get("r@9").step == 9


def test_one_save_at_a_time(store: lmckpt.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer with which another thread saves is refused, and free again when that ends."""
    monkeypatch.setattr(lmckpt.dcp.writer, "_END_SECONDS", 0.1)
    writer, begun, end = StoreWriter(store), threading.Event(), threading.Event()

    def work() -> None:
        writer.set_up_storage_writer(True, rank=0)
        begun.set()
        end.wait(60)

    other = threading.Thread(target=work)
    other.start()
    begun.wait(60)
    state = {"w": torch.ones(3)}
    with pytest.raises(dcp.api.CheckpointException) as error:
        dcp.save(state, storage_writer=writer, no_dist=True)
    assert isinstance(cause(error), ConflictError)
    end.set()
    other.join()
    dcp.save(state, storage_writer=writer, no_dist=True)
    assert len(store.snapshots()) == 1


def test_ranks_read_one_snapshot(store: lmckpt.Store) -> None:
    """A save while ranks look for the latest is told, not mixed in."""
    save(store, {"w": torch.zeros(3)})
    plans = []
    for _ in range(2):
        reader = StoreReader(store)
        reader.read_metadata()
        plans.append(reader.prepare_local_plan(dcp.planner.LoadPlan([])))
        save(store, {"w": torch.ones(3)})
    with pytest.raises(ConflictError):
        reader.prepare_global_plan(plans)


def test_wrong_layouts() -> None:
    """A layout that lies is refused before anything relies on it."""
    chunk = Chunk((0, 0), (4, 3), "model/00000.safetensors", [4])
    text = Layout(
        {"w": Whole("float32", (4, 3), [chunk])}, {"step": "objects/00000.json"}
    ).to_json()
    assert Layout.from_json(text).tensors["w"].chunks == [chunk]
    good = json.loads(text)
    number = good["tensors"]["w"]["chunks"][0]
    for wrong in (
        [0, [1, 0], [4, 3], [4]],
        [0, [0, 0], [4, 3], [2, 1]],
        [0, [0, 0], [4, 3], [5, -1]],
        [0, [0, 0], [4, 3], [0, 4]],
        [0, [0], [4, 3], [4]],
        [0, [0, 0], [4, 1 << 70], [4]],
        [7, [0, 0], [4, 3], [4]],
        [-1, [0, 0], [4, 3], [4]],
        [0, [0, 0], [4.0, 3], [4]],
        [0, [True, 0], [3, 3], [3]],
        number[:3],
        "text",
    ):
        bad = json.loads(text)
        bad["tensors"]["w"]["chunks"] = [wrong]
        with pytest.raises(CorruptError):
            Layout.from_json(json.dumps(bad).encode())
    twice = {"dtype": "float32", "shape": [4, 3], "chunks": [number, number]}
    deep = {"dtype": "float32", "shape": [1] * 100, "chunks": []}
    for change in (
        {"tensors": {"w": twice}},
        {"tensors": {"w": deep}},
        {"format": 9},
        {"files": [7]},
        {"objects": []},
        {"tensors": {"w": 1}},
    ):
        with pytest.raises(CorruptError):
            Layout.from_json(json.dumps({**good, **change}).encode())
    for bad_text in (b"", b"[]", b"null", b"\xff", b"[" * 100_000):
        with pytest.raises(CorruptError):
            Layout.from_json(bad_text)


def test_layouts_with_odd_text(store: lmckpt.Store, tmp_path: Path) -> None:
    """Halves of surrogate pairs, and names of torch that are no types, are errors of ours."""
    snapshot = save(store, {"w": torch.ones(3), "step": 1})
    for i, change in enumerate(
        ({"planner": "\ud800"}, {"planner": '{"format":1,"tree":{"v":"\ud800"}}\ud800'})
    ):
        folder = tmp_path / str(i)
        store.restore(snapshot, folder)
        layout = json.loads((folder / "dcp.json").read_text()) | change
        (folder / "dcp.json").write_text(json.dumps(layout))
        with pytest.raises(CorruptError):
            StoreReader(store, store.save(folder)).read_metadata()
    for name in ("\ud800", "_dynamo", "load", ""):
        with pytest.raises(UnsupportedError):
            type_of("w", name)


def test_lying_snapshots(
    store: lmckpt.Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Files that do not fit the layout raise, and no memory is read or written beyond a tensor."""
    snapshot = save(store, {"w": torch.arange(12.0).view(4, 3), "step": 1})
    for change in ("shape", "dtype", "name", "file", "planner", "object"):
        store.restore(snapshot, tmp_path / change)
        layout = json.loads((tmp_path / change / "dcp.json").read_text())
        tensor = layout["tensors"]["w"]
        if change == "shape":
            tensor.update(shape=[5, 3], chunks=[[0, [0, 0], [5, 3], [5]]])
        elif change == "dtype":
            tensor["dtype"] = "float64"
        elif change == "name":
            layout["tensors"]["v"] = layout["tensors"].pop("w")
        elif change == "file":
            layout["files"] = ["model/00001.safetensors"]
        elif change == "planner":
            layout["planner"] = '{"format":1,"tree":{"t":"torch","file":"x","name":"y"}}'
        else:
            layout["objects"]["other"] = layout["objects"].pop("step")
        (tmp_path / change / "dcp.json").write_text(json.dumps(layout))
        store.save(tmp_path / change, run=change)
        name = "v" if change == "name" else "w"
        shape = (5, 3) if change == "shape" else (4, 3)
        state = {name: torch.zeros(shape), "other" if change == "object" else "step": 0}
        with pytest.raises(dcp.api.CheckpointException) as error:
            load(store, state, f"{change}@latest")
        # What fails before the plan is only told in the log.
        found = cause(error)
        assert isinstance(found, (CorruptError, NotFoundError)) or "dcp.json" in caplog.text, found


def test_cuts() -> None:
    """Chunks are cut where earlier ones end, but not into crumbs."""
    halves = [Chunk((0, 0), (500, 64), "a", [500]), Chunk((500, 0), (500, 64), "b", [500])]
    earlier = Earlier(Layout({"w": Whole("float32", (1000, 64), halves)}, {}), {"a", "b"})
    assert earlier.rows("w", (334, 0), (333, 64), 4) == [166, 167]
    assert earlier.rows("w", (0, 0), (1000, 64), 4) == [500, 500]
    assert earlier.rows("w", (0, 0), (500, 64), 4) == [500]
    assert earlier.rows("w", (490, 0), (400, 64), 4) == [400]
    assert earlier.rows("w", (334, 0), (333, 32), 4) == [333]
    assert earlier.rows("other", (334, 0), (333, 64), 4) == [333]
    assert earlier.rows("w", (), (), 4) == [1]
    chunk = Chunk((400, 0), (300, 64), "c", [300])
    assert earlier.like([("w", chunk), ("other", chunk)]) == ["b", "a"]
    assert Earlier(None).like([("w", chunk)]) == []
