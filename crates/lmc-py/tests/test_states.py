"""States as training makes them come back with every type and every bit, or are refused."""

from __future__ import annotations

import enum
import inspect
import pathlib
import random
from collections import Counter, OrderedDict, defaultdict, namedtuple
from typing import Any

import numpy
import pytest
import torch
from lmckpt import Store, errors
from torch.optim import lr_scheduler, swa_utils

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.init(tmp_path / "store")


def bits(tensor: torch.Tensor) -> bytes:
    return (
        tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    )


def check_same(one: Any, other: Any, way: str = "state") -> None:
    """Fails unless two states are the same, types and bits included."""
    assert type(one) is type(other), way
    if isinstance(one, torch.Tensor):
        look = (one.dtype, one.shape, one.requires_grad)
        assert look == (other.dtype, other.shape, other.requires_grad), way
        assert bits(one) == bits(other), way
    elif isinstance(one, numpy.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), way
        assert one.tobytes() == other.tobytes(), way
    elif isinstance(one, dict):
        assert list(one) == list(other), way
        assert getattr(one, "default_factory", None) is getattr(other, "default_factory", None), way
        check_same(getattr(one, "_metadata", None), getattr(other, "_metadata", None), way)
        for key in one:
            check_same(one[key], other[key], f"{way}.{key}")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), way
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            check_same(a, b, f"{way}.{i}")
    else:
        assert one == other or repr(one) == repr(other) == "nan", way


def check_saved(store: Store, state: Any) -> None:
    store.save({"state": state})
    check_same(store.load()["state"], state)
    store.save_async({"state": state}).result()
    check_same(store.load()["state"], state)


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4, bias=False)
    )


OPTIMIZERS = [
    kind
    for _, kind in inspect.getmembers(torch.optim, inspect.isclass)
    if issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer
]


@pytest.mark.parametrize("kind", OPTIMIZERS, ids=lambda kind: kind.__name__)
def test_optimizers(kind: Any, store: Store) -> None:
    """Every optimizer of torch, after some steps, and its next step is the same one."""

    def train(optimizer: Any, net: torch.nn.Module, steps: int) -> None:
        for _ in range(steps):

            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                loss = net(inputs).square().sum()
                loss.backward()
                return loss

            optimizer.step(closure)

    def make() -> tuple[torch.nn.Module, Any]:
        torch.manual_seed(0)
        net = torch.nn.Embedding(10, 4, sparse=True) if is_sparse else model()
        # Muon is for matrices alone.
        every = [p for p in net.parameters() if kind.__name__ != "Muon" or p.ndim == 2]
        return net, kind(every, lr=0.01)

    is_sparse = kind.__name__ == "SparseAdam"
    inputs = torch.tensor([1, 2, 5]) if is_sparse else torch.randn(5, 8)
    net, optimizer = make()
    train(optimizer, net, 3)
    state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
    check_saved(store, state)
    found = store.load()["state"]
    train(optimizer, net, 1)
    again, other = make()
    again.load_state_dict(found["model"])
    other.load_state_dict(found["optimizer"])
    train(other, again, 1)
    check_same(again.state_dict(), net.state_dict())


SCHEDULERS = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda _: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 4, 4, 5]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o), lr_scheduler.ExponentialLR(o, 0.9)], [3]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o), lr_scheduler.MultiStepLR(o, [1])]
    ),
    "SWALR": lambda o: swa_utils.SWALR(o, 0.05),
}


def test_schedulers(store: Store) -> None:
    """Every scheduler of torch, and the rates that come after are the same."""
    known = inspect.getmembers(lr_scheduler, inspect.isclass)
    of_torch = {name for name, kind in known if issubclass(kind, lr_scheduler.LRScheduler)}
    assert of_torch <= {*SCHEDULERS, "LRScheduler", "_LRScheduler"}
    for name, make in SCHEDULERS.items():

        def rates(scheduler: Any, optimizer: Any, count: int, name: str = name) -> list[float]:
            found = []
            for _ in range(count):
                optimizer.step()
                scheduler.step(*[1.0] * (name == "ReduceLROnPlateau"))
                found.append(optimizer.param_groups[0]["lr"])
            return found

        pairs = []
        for _ in range(2):
            optimizer = torch.optim.SGD(model().parameters(), lr=0.1, momentum=0.9)
            pairs.append((make(optimizer), optimizer))
        rates(*pairs[0], 3)
        check_saved(store, {"o": pairs[0][1].state_dict(), "s": pairs[0][0].state_dict()})
        found = store.load()["state"]
        pairs[1][1].load_state_dict(found["o"])
        pairs[1][0].load_state_dict(found["s"])
        assert rates(*pairs[0], 6) == rates(*pairs[1], 6), name
        if name == "MultiStepLR":
            assert isinstance(pairs[1][0].milestones, Counter)


def test_random_states(store: Store) -> None:
    kinds = (numpy.random.PCG64, numpy.random.Philox, numpy.random.SFC64, numpy.random.MT19937)
    state = {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": numpy.random.get_state(),
        "numpy, as a dict": numpy.random.get_state(legacy=False),
        "generators": [numpy.random.Generator(kind(3)).bit_generator.state for kind in kinds],
        "devices": [torch.Generator().manual_seed(5).get_state()],
    }
    check_saved(store, state)
    found = store.load()["state"]
    torch.set_rng_state(found["torch"])
    random.setstate(found["python"])
    numpy.random.set_state(found["numpy"])
    wanted = (torch.rand(1).item(), random.random(), numpy.random.random())
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    numpy.random.set_state(state["numpy"])
    assert (torch.rand(1).item(), random.random(), numpy.random.random()) == wanted


def test_other_parts_of_training(store: Store) -> None:
    averaged = swa_utils.AveragedModel(model())
    averaged.update_parameters(model())
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    state = {"model": model().state_dict(), "ema": averaged.state_dict()}
    state["scaler"] = scaler.state_dict()
    assert state["model"]._metadata  # The versions of modules, as torch.load keeps them.
    check_saved(store, state)


def test_values(store: Store) -> None:
    check_saved(
        store,
        {
            "numpy": [
                kind(1.5) for kind in (numpy.float64, numpy.float32, numpy.int64, numpy.complex64)
            ],
            "numpy bool": numpy.bool_(True),
            "torch": [torch.bfloat16, torch.device("cuda:1"), torch.Size([2, 3])],
            "counter": Counter("abca"),
            "ordered": OrderedDict(b=1, a=2),
            "default": [defaultdict(list, {1: [2]}), defaultdict(None, {})],
            "sets": [{1, 2}, frozenset(["a"])],
            "bytes": [b"\x00\xff", bytearray(b"x")],
            "parameters": [
                torch.nn.Parameter(torch.ones(2)),
                torch.nn.Parameter(torch.ones(2), requires_grad=False),
                torch.ones(2, requires_grad=True),
            ],
            "no dimension": [torch.tensor(3.5), numpy.array(3.5)],
            "no values": [torch.empty(0, 3), numpy.empty((0, 2))],
            "odd strides": {"t": torch.ones(2), "n": numpy.arange(6.0)[::-2]},
            "large": [2**64, -(2**20_000), 10**4000],
            "floats": [float("inf"), float("nan"), -0.0, 5e-324, complex(float("-inf"), -0.0)],
            "keys": {1.5: 1, None: 2, True: 3, (1, (2.5, "x")): 4, "": 5, "\ud800": torch.ones(1)},
            "text": ["\ud800", "a\x00b", "__metadata__"],
            "__metadata__": {"__metadata__": torch.ones(2)},
        },
    )


def test_values_that_change(store: Store) -> None:
    """Subclasses come back as what they are made of; the documentation lists them."""

    class Level(enum.IntEnum):
        HIGH = 3

    pair = namedtuple("pair", "a b")
    tied = torch.ones(3)
    state = {"enum": Level.HIGH, "named": pair(1, 2), "tied": [tied, tied]}
    store.save(state)
    found = store.load()
    assert found["enum"] == 3 and type(found["enum"]) is int
    assert found["named"] == (1, 2) and type(found["named"]) is tuple
    assert found["tied"][0].data_ptr() != found["tied"][1].data_ptr()


REFUSED = {
    "enum": enum.Enum("Color", "RED").RED,
    "path": pathlib.Path("x"),
    "defaultdict": defaultdict(lambda: 1),
    "masked": numpy.ma.array([1], mask=[1]),
    "records": numpy.zeros(2, dtype="i4,f4"),
    "complex128": {"a": numpy.zeros(2, "c16"), "b": torch.ones(2)},
    "date": numpy.datetime64("2020-01-01"),
    "generator": torch.Generator(),
    "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "sparse": torch.ones(2).to_sparse(),
    "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
    "meta": torch.empty(2, device="meta"),
    "objects": numpy.array([None]),
    "text array": numpy.array(["a"]),
    "dates": numpy.array(["2020-01-01"], "M8[D]"),
    "lazy": torch.nn.LazyLinear(2).state_dict(),
    "key": {frozenset([1]): 1},
    "function": print,
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, store: Store) -> None:
    """What cannot be saved is refused at once, and the error names the whole way to it."""
    with pytest.raises(errors.InvalidError, match=r"^state\.of"):
        store.save({"state": {"of": REFUSED[name]}})
    with pytest.raises(errors.InvalidError, match=r"^state\.of"):
        store.save_async({"state": {"of": REFUSED[name]}})
    assert store.snapshots() == []
