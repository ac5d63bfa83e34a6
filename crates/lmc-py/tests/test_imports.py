"""The documented imports, wherever the code is, and the options that functions show."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import lmckpt
import pytest
from lmckpt import Store
from lmckpt.store.options import SaveOptions, native_options

# Module, its names, and the package that it needs.
DOCUMENTED = {
    "lmckpt.torch": (["load", "load_file", "save", "save_file"], "torch"),
    "lmckpt.numpy": (["load", "load_file", "save", "save_file"], "numpy"),
    "lmckpt.dcp": (["StoreReader", "StoreWriter"], "torch"),
    "lmckpt.hf": (["StoreCallback", "restore_checkpoint"], "transformers"),
    "lmckpt.lightning": (["StoreCheckpointIO", "load_checkpoint"], "lightning"),
    "lmckpt.fs": (["LmcFileSystem", "SnapshotFile"], "fsspec"),
    "lmckpt.store": (["Store"], ""),
    "lmckpt.errors": (["LmcError", "InvalidError", "PartlyWrittenError"], ""),
    "lmckpt.files": (["compress", "compress_file", "decompress", "decompress_file"], ""),
}
OPTIONS = ["run", "step", "tags", "meta", "parent", "level", "threads", "verify"]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_module(name: str) -> None:
    names, needed = DOCUMENTED[name]
    if needed:
        pytest.importorskip(needed)
    module = importlib.import_module(name)
    for each in names:
        item = getattr(module, each)
        # What pickles and help() name is what users import.
        assert item.__module__ == name
        assert pickle.loads(pickle.dumps(item)) is item
    if hasattr(module, "__all__"):
        assert sorted(names) == sorted(module.__all__)
    text = pydoc.render_doc(module, renderer=pydoc.plaintext)
    assert all(each in text for each in names) and module.__doc__


def test_names_of_the_package() -> None:
    for name in lmckpt.__all__:
        item = getattr(lmckpt, name)
        if inspect.isroutine(item) or inspect.isclass(item):
            assert pickle.loads(pickle.dumps(item)) is item
    # A function, though a module of the package has the same name.
    assert inspect.isfunction(lmckpt.delta)
    importlib.import_module("lmckpt.delta")
    assert inspect.isfunction(lmckpt.delta)
    assert lmckpt.safe_open.__module__ == "lmckpt"


def test_command() -> None:
    assert importlib.import_module("lmckpt._cli").main


@pytest.mark.parametrize("name", sorted({needed for _, needed in DOCUMENTED.values()} - {""}))
def test_the_package_imports_no_other(name: str) -> None:
    code = f"import sys, lmckpt; sys.exit({name!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["save", "save_async"])
def test_options_are_shown(name: str) -> None:
    parameters = inspect.signature(getattr(Store, name)).parameters
    # What happens in the background has nobody who watches it.
    own = ["progress"] if name == "save" else []
    assert list(parameters) == ["self", "state", *own, *OPTIONS]
    assert parameters["run"].default == "main" and parameters["verify"].default is True
    assert "level" in pydoc.render_doc(getattr(Store, name))


def test_options_of_integrations_are_shown() -> None:
    pytest.importorskip("torch")
    from lmckpt.dcp import StoreWriter

    parameters = inspect.signature(StoreWriter).parameters
    assert set(parameters) == {"store", *OPTIONS}
    hf = pytest.importorskip("lmckpt.hf")
    parameters = inspect.signature(hf.StoreCallback).parameters
    assert {"level", "threads", "verify"} < set(parameters) and "step" not in parameters


def test_every_option_has_a_default() -> None:
    assert sorted(native_options({})) == sorted(get_type_hints(SaveOptions))
    assert sorted(native_options({})) == sorted(OPTIONS)


def test_other_options_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    for call in (store.save, store.save_async):
        with pytest.raises(TypeError, match="unexpected keyword argument 'lvl'"):
            call({"a": 1}, lvl="fast")
    pytest.importorskip("torch")
    from lmckpt.dcp import StoreWriter

    with pytest.raises(TypeError, match="unexpected keyword argument 'background'"):
        StoreWriter(store, background=True)
    hf = pytest.importorskip("lmckpt.hf")
    with pytest.raises(TypeError, match="unexpected keyword argument 'step'"):
        hf.StoreCallback(store, step=5)
    assert not store.snapshots()
