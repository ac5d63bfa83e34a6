"""Tensors that share memory get what was saved, or nothing is written at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmckpt
import numpy
import pytest
import torch
import torch.distributed.checkpoint as dcp
from lmckpt import Store, errors
from lmckpt.dcp import StoreReader, StoreWriter

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.distributed is (disabled|unavailable)")

State = dict[str, Any]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.init(tmp_path / "store")


def by_store(store: Store, saved: State, into: State) -> None:
    store.save(saved)
    store.load(into=into)


def by_dcp(store: Store, saved: State, into: State) -> None:
    dcp.save(saved, storage_writer=StoreWriter(store), no_dist=True)
    try:
        dcp.load(into, storage_reader=StoreReader(store), no_dist=True)
    except dcp.CheckpointException as error:
        ((found, _),) = error.failures.values()
        raise found from None


def by_delta(store: Store, saved: State, into: State) -> None:
    lmckpt.apply(into, lmckpt.delta(into, saved))


WAYS = [by_store, by_dcp, by_delta]
Way = Callable[[Store, State, State], None]


def values(count: int, start: float = 1.0) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32) + start


def shared() -> dict[str, tuple[State, torch.Tensor]]:
    """States whose tensors share memory, and that memory."""
    found = {}
    memory = torch.zeros(8)
    found["the same tensor"] = {"a": memory, "b": memory}, memory
    memory = torch.zeros(8)
    found["the same storage"] = {"a": memory, "b": memory.view(2, 4).view(8)}, memory
    memory = torch.zeros(12)
    found["overlapping views"] = {"a": memory[:8], "b": memory[4:]}, memory
    memory = torch.zeros(16)
    found["strided views"] = {"a": memory[::2], "b": memory[4:12]}, memory
    memory = torch.zeros(8)
    found["another type"] = {"a": memory, "b": memory.view(torch.int32)}, memory
    memory = torch.zeros(4, 8)
    found["rows and columns"] = {"a": memory[:, :2], "b": memory[2]}, memory
    memory = torch.zeros(8)
    found["within another"] = {"a": memory, "b": memory[3:4], "c": torch.zeros(8)}, memory
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", shared())
def test_shared_memory_that_cannot_hold_what_was_saved_is_refused(
    store: Store, way: Way, kind: str
) -> None:
    """No load writes two different tensors to one memory, whatever the views of it are."""
    into, memory = shared()[kind]
    saved = {name: torch.full_like(value, i + 1) for i, (name, value) in enumerate(into.items())}
    with pytest.raises(errors.InvalidError, match="a and b share memory"):
        way(store, saved, into)
    assert not memory.any()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", shared())
def test_tied_weights_that_were_saved_tied_are_loaded(store: Store, way: Way, kind: str) -> None:
    """Memory that can hold all that was saved is written."""
    into, memory = shared()[kind]
    # Words with the same bytes whatever they are read as.
    memory.copy_(torch.randint(1, 1 << 20, memory.shape, dtype=torch.int32).view(torch.float32))
    saved = {name: value.clone() for name, value in into.items()}
    memory.zero_()
    way(store, saved, into)
    assert all(torch.equal(into[name], saved[name]) for name in saved)


@pytest.mark.parametrize("way", WAYS)
def test_views_that_lie_between_each_other_are_loaded(store: Store, way: Way) -> None:
    """Parts of a fused weight share a storage, and no memory."""
    fused = torch.zeros(6, 9)
    into = {"q": fused[:, :3], "k": fused[:, 3:6], "v": fused[:, 6:], "even": torch.zeros(4)[::2]}
    saved = {name: torch.randn(value.shape) for name, value in into.items()}
    way(store, saved, into)
    assert all(torch.equal(into[name], saved[name]) for name in saved)


def test_one_tensor_whose_values_share_memory_is_refused(store: Store) -> None:
    """Windows over one memory overlap each other."""
    memory = torch.zeros(4)
    into = {"a": memory.as_strided((3, 2), (1, 1))}
    store.save({"a": torch.arange(6.0).view(3, 2)})
    with pytest.raises(errors.InvalidError, match="values of a share memory"):
        store.load(into=into)
    assert not memory.any()
    store.save({"a": torch.tensor([[1.0, 2], [2, 3], [3, 4]])})
    store.load(into=into)
    assert memory.tolist() == [1, 2, 3, 4]


def test_shared_arrays_are_refused(store: Store) -> None:
    """The same for arrays, and for a tensor and an array."""
    memory = numpy.zeros(8, "f4")
    for into in (
        {"a": memory, "b": memory},
        {"a": memory[::-1], "b": memory},
        {"a": memory[:6], "b": memory[2:]},
        {"a": memory, "b": torch.from_numpy(memory)},
        {"a": torch.from_numpy(memory), "z": {"b": memory[7:]}},
    ):
        kinds: Any = {"a": into["a"], **into.get("z", into)}
        saved: Any = {
            name: value.clone() if isinstance(value, torch.Tensor) else value.copy()
            for name, value in kinds.items()
        }
        saved["a"] += 1
        if "z" in into:
            saved = {"a": saved["a"], "z": {"b": saved["b"]}}
        store.save(saved)
        with pytest.raises(errors.InvalidError, match="share memory"):
            store.load(into=into)
        assert not memory.any()


@pytest.mark.parametrize("first", [1, 2, float("nan"), [1, 2], {"x": 1}, (1, torch.ones(1))])
def test_one_dict_in_two_places_gets_one_value(store: Store, first: Any) -> None:
    """A dict or a list that is there twice is refused where it should become two."""
    saved = {"a": {"t": torch.ones(2), "k": first}, "b": {"t": torch.ones(2), "k": 2}}
    store.save(saved)
    group = {"t": torch.zeros(2), "k": None}
    if first == 2:
        assert store.load(into={"a": group, "b": group})["a"]["k"] == 2
        return
    with pytest.raises(errors.InvalidError, match=r"a\.k and b\.k are the same place"):
        store.load(into={"a": group, "b": group})
    assert group["k"] is None and not group["t"].any()
    store.save({"a": [first, 1], "b": [2, 1]})
    items = [None, 1]
    with pytest.raises(errors.InvalidError, match=r"a\.0 and b\.0 are the same place"):
        store.load(into={"a": items, "b": items})
    assert items == [None, 1]


def test_a_buffer_is_not_filled_over_what_it_is_made_from() -> None:
    """What is read while a buffer is filled must not lie in it."""
    old, new = values(100_000).numpy(), values(100_000, 2.0).numpy()
    base = bytearray(old.tobytes())
    packed = bytearray(lmckpt.compress(new, bases=[base]))
    kept = bytes(packed), bytes(base)
    room = memoryview(bytearray(new.nbytes))
    room[: len(packed)] = packed
    with pytest.raises(errors.InvalidError, match="share memory"):
        lmckpt.decompress(room[: len(packed)], into=room, bases=[base])
    with pytest.raises(errors.InvalidError, match="share memory"):
        lmckpt.decompress(packed, into=base, bases=[base])
    with pytest.raises(errors.InvalidError, match="share memory"):
        lmckpt.compress(new, into=base, bases=[base])
    assert (bytes(packed), bytes(base)) == kept
