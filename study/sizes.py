"""What the command lmc makes of a state and of a pair of states, in bytes.

Goes in: tensors. They are written as safetensors files into a folder, which should be in memory,
and `lmc compress` and `lmc bench` run on them. Comes out: bytes for each method.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

# Distances at which whole states are measured.
WHOLE = (1, 10, 100, 1000)
LEVELS: dict[str, list[str]] = {
    "fast": ["--fast"],
    "default": [],
    "max": ["--max"],
    "paper": ["--codec", "paper"],
}
DTYPES = {torch.bfloat16: "BF16", torch.float32: "F32"}
Tensors = dict[str, torch.Tensor]


def write(path: Path, tensors: Tensors) -> None:
    """A safetensors file."""
    header: dict[str, Any] = {}
    place = 0
    for name, tensor in tensors.items():
        end = place + tensor.nbytes
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [place, end],
        }
        place = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.contiguous().cpu().flatten().view(torch.uint8).numpy())


class Sizer:
    """Runs lmc in a folder."""

    def __init__(self, lmc: str, folder: Path, threads: int, keep: Path | None) -> None:
        self.lmc, self.folder, self.threads = lmc, folder, threads
        # Where the newest bf16 weights and a base stay, to measure speeds on.
        self.keep = keep

    def compress(self, path: Path, options: list[str], base: Path | None) -> int:
        """The size of an archive. The default level checks what it wrote."""
        target = path.with_suffix(".lmc")
        command = [self.lmc, "compress", "-q", "-f", f"-T{self.threads}", *options]
        command += ["--base", str(base)] if base else []
        command += ["--no-verify"] if options else []
        subprocess.run([*command, "-o", str(target), str(path)], check=True)
        size = target.stat().st_size
        target.unlink()
        return size

    def levels(self, kind: str, path: Path, base: Path | None) -> dict[str, int]:
        """Sizes at the levels that are worth their time: fast is close to default."""
        names = {"whole": ["default"], "gradients": ["default", "paper"]}
        names["weights-bf16"] = list(LEVELS)
        wanted = names.get(kind, ["default", "max", "paper"])
        return {name: self.compress(path, LEVELS[name], base) for name in wanted}

    def keep_pair(self, path: Path, base: Path) -> None:
        """Keeps a file and its base, in the place of those kept before."""
        if self.keep:
            self.keep.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, self.keep / "current.safetensors")
            shutil.copyfile(base, self.keep / "base.safetensors")

    def engines(self, jobs: list[tuple[Path, Path | None]]) -> list[dict[str, Any]]:
        """Sizes by other compressors for several files, one per thread: bits per byte of input.

        With a base these get the byte groups of the XOR.
        """

        def run(job: tuple[Path, Path | None]) -> dict[str, Any]:
            path, base = job
            command = [self.lmc, "bench", "--json", "--repeats", "1", "-T1", str(path)]
            command += ["--base", str(base)] if base else []
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
            found = {}
            for row in json.loads(printed):
                if row["engine"] in ("lmc", "memcpy") or row["base"] != (base is not None):
                    continue
                name = f"{row['engine']} {row['level']}" + (" grouped" if row["grouped"] else "")
                found[name] = round(8 * row["bytes_out"] / row["bytes_in"], 5)
            return found

        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(run, jobs))


def sample(tensors: Tensors) -> Tensors:
    """The tensors of the middle layer, for compressors that are slow."""
    layers = {name.split(".")[1] for name in tensors if name.startswith("layers.")}
    middle = sorted(map(int, layers))[len(layers) // 2]
    return {name: tensor for name, tensor in tensors.items() if f"layers.{middle}." in name}


def whole(states: dict[str, Tensors]) -> Tensors:
    """What a mixed-precision run saves, as one file: 14 bytes per parameter."""
    kinds = ("weights-bf16", "weights-fp32", "adam-m", "adam-v")
    if not all(kind in states for kind in kinds):
        return {}
    return {f"{kind}/{name}": t for kind in kinds for name, t in states[kind].items()}


def values(tensors: Tensors) -> int:
    return sum(math.prod(tensor.shape) for tensor in tensors.values())
