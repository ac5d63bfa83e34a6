"""What the writers of all formats share."""

from __future__ import annotations

import json
import pathlib
import random

# Name, type, shape, and bytes or the reason why there are none.
Tensor = tuple[str, str | None, list[int], bytes | str]


def write_list(path: pathlib.Path, label: str, tensors: list[Tensor]) -> None:
    """Writes the list beside a file."""
    rows = []
    for name, dtype, shape, data in tensors:
        row = {"name": name, "dtype": dtype, "shape": shape, "bytes": None}
        row |= {"reason": data} if isinstance(data, str) else {"bytes": data.hex()}
        rows.append(row)
    path.with_name(path.name + ".json").write_text(json.dumps({"format": label, "tensors": rows}))


def any_shape(rng: random.Random, least: int = 0) -> list[int]:
    """A shape of a few dimensions, now and then with an empty one."""
    return [
        rng.choice([0, 1, 2, 3, 5, 8, 17]) or rng.choice([0, 4])
        for _ in range(rng.randrange(least, 5))
    ]


def any_name(rng: random.Random) -> str:
    return rng.choice(["weight", "bias", "läyer", "0", "a.b", "x" * 40, "exp_avg", "q k"]) + str(
        rng.randrange(10**6)
    )
