"""Tensors on a GPU, where there is one."""

from __future__ import annotations

from pathlib import Path

import lmckpt
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("gpu: no GPU here", allow_module_level=True)
import torch.distributed.checkpoint as dcp
from lmckpt.dcp import StoreReader, StoreWriter
from lmckpt.torch import load_file, save_file


def state() -> dict[str, torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(1)
    weights = torch.randn(1000, 700, generator=generator, device="cuda")
    return {
        "bf16": weights.bfloat16(),
        "fp8": weights.to(torch.float8_e4m3fn),
        "transposed": weights.t(),
        "scalar": torch.tensor(3.0, device="cuda"),
    }


def check(found: dict[str, torch.Tensor]) -> None:
    for name, value in state().items():
        assert found[name].device.type == "cuda" and found[name].dtype == value.dtype
        raw = [tensor.contiguous().flatten().view(torch.uint8) for tensor in (found[name], value)]
        assert torch.equal(*raw), name


def test_files(tmp_path: Path) -> None:
    save_file(state(), tmp_path / "model.lmc")
    check(load_file(tmp_path / "model.lmc", device="cuda"))
    with lmckpt.safe_open(tmp_path / "model.lmc", framework="pt", device="cuda:0") as file:
        assert torch.equal(file.get_slice("bf16")[10:20], state()["bf16"][10:20])


def test_background(tmp_path: Path) -> None:
    """The copy is made by the time that the call returns, though copies from a GPU go on by
    themselves."""
    with lmckpt.Store(tmp_path / "store", create=True) as store:
        for step in range(3):
            values = state()
            store.save_async(values, step=step)
            for value in values.values():
                value.zero_()
    check(store.load("main@2", device="cuda"))
    into = {name: torch.zeros_like(value) for name, value in state().items()}
    check(store.load("main@1", into=into))


def test_distributed(tmp_path: Path) -> None:
    store = lmckpt.Store.init(tmp_path / "store")
    dcp.save(state(), storage_writer=StoreWriter(store), no_dist=True)
    found = {name: torch.zeros_like(value) for name, value in state().items()}
    dcp.load(found, storage_reader=StoreReader(store), no_dist=True)
    check(found)
