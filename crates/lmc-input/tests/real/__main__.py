"""Writes files of every format with its own library, and what that library says of them.

    python crates/lmc-input/tests/real FOLDER [COUNT [MODULE...]]

For each format whose library can be imported there are COUNT files (100), made up from random
numbers that are always the same. Beside each file X there is a list X.json: its format, and name,
type, shape and bytes of each tensor as the library reads them back; for one that is not together
in the file, the reason. The test `real_files::files_that_libraries_describe` compares.
"""

from __future__ import annotations

import pathlib
import random
import sys
from collections.abc import Callable

from of_arrays import write_h5, write_numpy
from of_models import write_gguf, write_onnx
from of_torch import write_dcp, write_shards, write_torch

FORMATS: dict[str, Callable[[pathlib.Path, random.Random, int], None]] = {
    "torch": write_torch,
    "torch.distributed": write_dcp,
    "numpy": write_numpy,
    "h5py": write_h5,
    "gguf": write_gguf,
    "onnx": write_onnx,
}


def main() -> None:
    folder, count = pathlib.Path(sys.argv[1]), int((sys.argv[2:] or ["100"])[0])
    folder.mkdir(parents=True, exist_ok=True)
    for module, write in FORMATS.items():
        if sys.argv[3:] and module not in sys.argv[3:]:
            continue
        try:
            __import__(module)
        except ImportError:
            print(f"skipped: {module} cannot be imported")
            continue
        rng = random.Random(module)
        for i in range(count):
            write(folder, rng, i)
        print(f"{module}: {count}")
        if module == "torch.distributed":
            __import__("torch.multiprocessing").multiprocessing.spawn(write_shards, (folder,), 2)


if __name__ == "__main__":
    main()
