"""States in files that describe what cannot be, or what needs packages that are not installed."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy
import pytest
import safetensors.torch
import torch
from lmckpt import Store, errors
from lmckpt import torch as lmc_torch
from lmckpt.store.state import FORMAT


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.init(tmp_path / "store")


NODES = {
    "no JSON": "{",
    "a list": "[]",
    "no tree": {"format": FORMAT},
    "deep JSON": "[" * 200_000,
    "deep tree": '{"format":1,"tree":' + '{"l":[' * 5000 + "]}" * 5000 + "}",
    "number": 3,
    "two kinds": {"v": 1, "f": "0x0p0"},
    "no kind": {},
    "unknown kind": {"zz": 1},
    "value that is none": {"v": [1]},
    "float": {"f": "x"},
    "large float": {"f": "0x1p99999"},
    "float of a number": {"f": 3},
    "complex": {"c": ["0x0p0"]},
    "bytes": {"b": "0g"},
    "pairs": {"d": [1]},
    "key": {"d": [[["x"], {"v": 1}]]},
    "deep key": {"d": [[eval("[" * 90 + "]" * 90), {"v": 1}]]},
    "set of lists": {"s": [{"l": []}]},
    "set of arrays": {"s": [{"t": "numpy", "file": "model.safetensors", "name": "x"}]},
    "set of tuples of arrays": {
        "fs": [{"u": [{"t": "numpy", "file": "model.safetensors", "name": "x"}]}]
    },
    "dict as list": {"l": {"a": 1}},
    "text as list": {"l": "abc"},
    "factory": {"dd": ["exec", []]},
    "type": {"dtype": "load"},
    "no type": {"dtype": "nothing"},
    "device": {"device": "nowhere"},
    "numpy objects": {"n": ["O", "00" * 8]},
    "numpy size": {"n": ["<f4", "00"]},
    "numpy fields": {"n": ["f4,(", "00" * 4]},
    "numpy record": {"n": ["f4,f4", "00" * 8]},
    "numpy shape": {"n": ["(2,)f4", "00" * 8]},
    "numpy name": {"n": ["float32", "00" * 4]},
    "numpy line": {"n": ["<f4\n", "00" * 4]},
    "numpy digits": {"n": ["<f\u0664", "00" * 4]},
    "numpy long": {"n": ["<f" + "9" * 5000, "00" * 4]},
    "numpy odd": {"n": ["<f3", "00" * 3]},
    "numpy number": {"n": [4, "00" * 4]},
    "size": {"size": [{"v": "x"}]},
    "large device": {"device": "cuda:" + "9" * 30},
    "lazy type": {"dtype": "_dynamo"},
    "list as type": {"dtype": ["float32"]},
    "tensor": {"t": "torch"},
    "kind of tensor": {"t": "jax", "file": "model.safetensors", "name": "x"},
    "file of tensor": {"t": "torch", "file": "nowhere.safetensors", "name": "x"},
    "path of tensor": {"t": "torch", "file": "../../x", "name": "x"},
    "surrogate as path": {"t": "torch", "file": "\ud800", "name": "x"},
    "surrogate as name": {"t": "torch", "file": "model.safetensors", "name": "\ud800"},
    "name of tensor": {"t": "torch", "file": "model.safetensors", "name": "y"},
    "list as name": {"t": "torch", "file": ["x"], "name": {}},
    "role of tensor": {"t": "torch", "file": "model.safetensors", "name": "x", "is": "evil"},
    "state as tensor": {"t": "torch", "file": "state.json", "name": "x"},
    "newer": '{"format":2,"tree":{}}',
}


@pytest.mark.parametrize("name", NODES)
def test_hostile_states(name: str, store: Store, tmp_path) -> None:
    node = NODES[name]
    if isinstance(node, str):
        text = node
    else:
        text = json.dumps({"format": FORMAT, "tree": {"d": [["k", node]]}})
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "state.json").write_text(text)
    safetensors.torch.save_file({"x": torch.ones(2)}, folder / "model.safetensors")
    store.save(folder)
    with pytest.raises(errors.LmcError) as found:
        store.load()
    # It is not the call that is wrong.
    assert not isinstance(found.value, errors.InvalidError) or name == "state as tensor"


WITHOUT = """
import sys
missing, folder = sys.argv[1:]
# As if it were not installed; what imports it first would fail too.
sys.modules[missing] = None
import lmckpt
from lmckpt import Store, errors, safe_open

def refused(call):
    try:
        call()
    except errors.UnsupportedError as error:
        assert f"needs {missing}" in str(error), error
        return
    raise AssertionError("not refused")

store = Store(folder + "/store")
for run in ("tensor", "scalar", "folder"):
    refused(lambda: store.load(f"{run}@latest"))
kind = {"torch": "pt", "numpy": "np"}[missing]
refused(lambda: store.open_file("folder@latest", "x.safetensors", kind))
refused(lambda: safe_open(folder + "/x.lmc", kind))
"""


@pytest.mark.parametrize("missing", ["torch", "numpy"])
def test_a_package_that_is_not_installed(missing: str, store: Store, tmp_path) -> None:
    """What a file needs and is not there is named, by an error of ours."""
    is_torch = missing == "torch"
    store.save({"x": torch.ones(2) if is_torch else numpy.ones(2)}, run="tensor")
    store.save({"x": torch.float32 if is_torch else numpy.float32(1)}, run="scalar")
    folder = tmp_path / "folder"
    folder.mkdir()
    safetensors.torch.save_file({"x": torch.ones(2)}, folder / "x.safetensors")
    store.save(folder, run="folder")
    lmc_torch.save_file({"x": torch.ones(2)}, tmp_path / "x.lmc")
    script = WITHOUT if is_torch else WITHOUT.replace(', "folder")', ")")
    command = [sys.executable, "-c", script, missing, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
