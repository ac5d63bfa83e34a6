"""Archives of files that are not safetensors: their tensors are read by name."""

from __future__ import annotations

from pathlib import Path

import lmckpt
import numpy as np
import pytest
import torch
from lmckpt import errors
from lmckpt.torch import load_file


def test_torch_files(tmp_path: Path) -> None:
    """The tensors of a torch.save file, by their paths in the state, without a pickle being run."""
    weight = torch.randn(300, 70)
    state = {
        "model": {"w": weight, "b": torch.arange(9, dtype=torch.bfloat16)},
        "optimizer": {"state": {0: {"exp_avg": torch.randn(300, 70)}}},
        "shared": weight[10:20],
    }
    path = tmp_path / "state.pt"
    torch.save(state, path)
    archive = tmp_path / "state.pt.lmc"
    archive.write_bytes(lmckpt.compress(path.read_bytes()))
    with lmckpt.safe_open(archive, framework="pt") as file:
        names = {"model.w", "model.b", "optimizer.state.0.exp_avg", "shared"}
        assert set(file.keys()) == names
        assert torch.equal(file.get_tensor("model.w"), weight)
        assert torch.equal(file.get_tensor("model.b"), state["model"]["b"])
        assert torch.equal(file.get_tensor("shared"), weight[10:20])
        assert torch.equal(file.get_slice("model.w")[5:9], weight[5:9])
        assert file.metadata() is None
    with pytest.raises(errors.InvalidError, match="safe_open reads its tensors"):
        load_file(archive)


def test_numpy_files(tmp_path: Path) -> None:
    """The arrays of an npz file; a file without tensors is refused."""
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.ones(7, dtype=np.float32)}
    np.savez(tmp_path / "x.npz", **arrays)
    archive = tmp_path / "x.npz.lmc"
    archive.write_bytes(lmckpt.compress((tmp_path / "x.npz").read_bytes()))
    with lmckpt.safe_open(archive, framework="np") as file:
        for name, array in arrays.items():
            assert np.array_equal(file.get_tensor(name), array)
    archive.write_bytes(lmckpt.compress(b"some text"))
    with pytest.raises(errors.InvalidError, match="no tensors"):
        lmckpt.safe_open(archive, framework="np")
