"""Every call that does work, in a process in which Rust can start no thread: no_threads.py FOLDER
WHERE.

WHERE is the thread that calls: main or other. Prints a line for each call, and ends with 0 if each
worked or raised an error of lmckpt.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import lmckpt
import lmckpt.torch
import torch
import torch.distributed.checkpoint as dcp
from lmckpt import LmcError
from lmckpt.dcp import StoreReader, StoreWriter


def weights() -> torch.Tensor:
    """What the folder holds in every form."""
    return torch.randn(3_000_000, generator=torch.Generator().manual_seed(1)).bfloat16()


def fill(folder: Path, store: lmckpt.Store) -> None:
    """Makes what the calls read."""
    lmckpt.torch.save_file({"x": weights()}, folder / "packed")
    (folder / "plain").write_bytes(lmckpt.compress(weights()))
    store.save({"model": {"x": weights()}, "step": 1}, step=1)
    dcp.save({"x": weights()}, storage_writer=StoreWriter(store, "dcp"), no_dist=True)


def calls(folder: Path) -> dict[str, Callable[[], object]]:
    """The calls by name."""
    data, store = weights(), lmckpt.Store(folder / "store")
    state = {"model": {"x": data}, "step": 3}
    packed = (folder / "packed").read_bytes()

    def equal(found: torch.Tensor) -> None:
        assert torch.equal(found, data)

    def load_dcp() -> None:
        into = {"x": torch.zeros_like(data)}
        dcp.load(into, storage_reader=StoreReader(store, "dcp@latest"), no_dist=True)
        equal(into["x"])

    def save_dcp() -> None:
        dcp.save(state, storage_writer=StoreWriter(store, "other"), no_dist=True)

    return {
        "save": lambda: equal(lmckpt.torch.load(lmckpt.torch.save({"x": data}))["x"]),
        "load": lambda: equal(lmckpt.torch.load(packed)["x"]),
        "load_file": lambda: equal(lmckpt.torch.load_file(folder / "packed")["x"]),
        "save_file": lambda: lmckpt.torch.save_file({"x": data}, folder / "again.lmc"),
        "compress": lambda: lmckpt.compress(data),
        "decompress": lambda: lmckpt.decompress(packed),
        "compress_file": lambda: lmckpt.compress_file(folder / "plain", folder / "file.lmc"),
        "decompress_file": lambda: lmckpt.decompress_file(folder / "packed", folder / "file"),
        "delta": lambda: lmckpt.delta({"x": data}, {"x": data + 1}),
        "Store.load": lambda: equal(store.load("main@1")["model"]["x"]),
        "Store.save": lambda: store.save(state),
        "Store.save_async": lambda: store.save_async(state).result(),
        "Store.save of a file": lambda: store.save(folder / "plain"),
        "Store.restore": lambda: store.restore("main@1", folder / "out"),
        "Store.check": lambda: store.check(read_data=True),
        "Store.diff": lambda: store.diff("main@1", "main@1"),
        "Store.prune": store.prune,
        "dcp.save": save_dcp,
        "dcp.load": load_dcp,
    }


def run(folder: Path) -> None:
    """Makes all calls."""
    for name, call in calls(folder).items():
        try:
            call()
            print(name, "works")
        except LmcError as error:
            print(name, type(error).__name__, error)
        except dcp.CheckpointException as error:
            ((found, _),) = error.failures.values()
            if not isinstance(found, LmcError):
                raise
            print(name, type(found).__name__, found)
    print("done")


if __name__ == "__main__":
    if sys.argv[2] == "main":
        run(Path(sys.argv[1]))
    else:
        thread = threading.Thread(target=run, args=[Path(sys.argv[1])])
        thread.start()
        thread.join()
