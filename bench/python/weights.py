"""Weights like those of a trained model, made without one: normal values, a scale for each row.

Their bf16 exponents have an entropy of 2.6 bits, like those of real models, so that ratios and
speeds are near what real weights give.
"""

from __future__ import annotations

import torch

WIDTH = 2048
ROWS = 4096
SEED = 20


def matrix(rows: int, width: int, dtype: torch.dtype, std: float) -> torch.Tensor:
    """Values of this standard deviation; rows differ by a tenth, as they do after training."""
    values = torch.empty(rows, width).normal_(std=std)
    values *= torch.empty(rows, 1).normal_(1, 0.1)
    return values.to(dtype)


def model(size: int, dtype: torch.dtype = torch.bfloat16, std: float = 0.02) -> dict:
    """Matrices of about `size` bytes together, and a vector of ones beside each, as norms are."""
    torch.manual_seed(SEED)
    count = max(1, round(size / (ROWS * WIDTH * dtype.itemsize)))
    tensors = {}
    for i in range(count):
        # Deeper layers are drawn with smaller values.
        tensors[f"layers.{i}.weight"] = matrix(ROWS, WIDTH, dtype, std / (1 + i / count))
        tensors[f"layers.{i}.norm"] = torch.empty(WIDTH).normal_(1, 0.05).to(dtype)
    return tensors


def tensor(size: int) -> torch.Tensor:
    """One bf16 tensor of `size` bytes, the matrices of a model one after the other."""
    parts = [part.reshape(-1) for name, part in model(size).items() if name.endswith("weight")]
    return torch.cat(parts)[: size // 2]


def training_state(size: int) -> dict:
    """bf16 weights with the two f32 moments of Adam, `size` bytes together."""
    weights = size // 10 * 2
    moments = {"dtype": torch.float32, "size": weights * 2}
    return {
        "model": model(weights),
        "exp_avg": model(**moments, std=1e-4),
        "exp_avg_sq": {name: value.square() for name, value in model(**moments, std=1e-4).items()},
        "step": 1000,
    }


def size_of(state: object) -> int:
    """Bytes of all tensors in a state."""
    if isinstance(state, torch.Tensor):
        return state.nbytes
    return sum(map(size_of, state.values())) if isinstance(state, dict) else 0
