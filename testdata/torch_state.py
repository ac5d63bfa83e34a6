#!/usr/bin/env python3
"""Writes a training state with everything that the reader of torch's files knows.

    testdata/torch_state.py FILE

Each value is its place in its storage, so that a test can tell tensors from each other.
"""

import collections
import sys

import torch


def numbers(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of this shape that counts up from 0."""
    count = torch.Size(shape).numel()
    return torch.arange(count, dtype=torch.float32).reshape(shape).to(dtype)


def main() -> None:
    weight = numbers(6, 8, dtype=torch.bfloat16)
    master = numbers(6, 8, dtype=torch.float32)
    state = {
        "model": collections.OrderedDict(
            [
                ("layers.0.weight", weight),
                ("layers.0.tied", weight),
                ("layers.0.bias", torch.nn.Parameter(numbers(8, dtype=torch.float32))),
                ("part", master[2:4]),
                ("columns", master.t()),
                ("scalar", torch.tensor(2.5)),
                ("empty", torch.empty(0, 3)),
                ("ids", numbers(5, dtype=torch.int64)),
                ("mask", torch.tensor([True, False, True])),
                ("signal", numbers(3, dtype=torch.complex64)),
                ("scaled", numbers(2, 4, dtype=torch.float8_e4m3fn)),
            ]
        ),
        "optimizer": {
            "state": {
                17: {"step": torch.tensor(3.0), "exp_avg": numbers(6, 8, dtype=torch.float32)}
            },
            "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [17]}],
        },
        "master": [master, (numbers(2, 2, dtype=torch.float64),)],
        "epoch": 12345678901234567890,
        "note": "a state",
    }
    torch.save(state, sys.argv[1])


if __name__ == "__main__":
    main()
