"""Who may read what the package makes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import lmckpt
import no_umask
import numpy
import pytest
from lmckpt.numpy import load_file, save_file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_no_call_asks_for_the_umask(tmp_path: Path) -> None:
    """Not even to read it: it can only be read by setting it, for all threads."""
    done = subprocess.run(
        [sys.executable, no_umask.__file__, str(tmp_path), str(tmp_path / "store")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == no_umask.NO_FILTERS:
        pytest.skip("system: it has no filters of system calls")
    assert done.returncode == 0, done.stderr


def test_saving_threads_do_not_change_the_files_of_others(tmp_path: Path) -> None:
    """Files that another thread makes meanwhile have the mode that the umask gives them."""
    before = os.umask(0o027)
    try:
        ended = threading.Event()
        wrong: list[int] = []

        def create() -> None:
            number = 0
            while not ended.is_set():
                path = tmp_path / f"other-{number}"
                path.touch()
                if mode(path) != 0o640:
                    wrong.append(mode(path))
                path.unlink()
                number += 1

        def save(name: str) -> None:
            for _ in range(25):
                save_file({"x": numpy.arange(9.0)}, tmp_path / name)

        watcher = threading.Thread(target=create)
        savers = [threading.Thread(target=save, args=[f"own-{i}.lmc"]) for i in range(4)]
        watcher.start()
        for thread in savers:
            thread.start()
        for thread in savers:
            thread.join()
        ended.set()
        watcher.join()
        assert not wrong
        assert [mode(tmp_path / f"own-{i}.lmc") for i in range(4)] == [0o640] * 4
    finally:
        assert os.umask(before) == 0o027


def test_a_private_file_stays_private_when_it_is_replaced(tmp_path: Path) -> None:
    """A file that takes the place of another is not more open than that was."""
    path = tmp_path / "a.lmc"
    for wanted in (0o600, 0o640, 0o400):
        save_file({"x": numpy.zeros(3)}, path)
        path.chmod(wanted)
        save_file({"x": numpy.ones(3)}, path)
        assert mode(path) == wanted and load_file(path)["x"].all()
        path.unlink()


def test_a_private_file_stays_private_whatever_it_is_made_from(tmp_path: Path) -> None:
    """Files that are compressed or restored over a private one do not open it."""
    source, packed, back = (tmp_path / name for name in ("a", "a.lmc", "b"))
    source.write_bytes(b"new" * 100)
    for path in (packed, back):
        path.write_bytes(b"old")
        path.chmod(0o600)
    source.chmod(0o644)
    lmckpt.compress_file(source, packed, overwrite=True)
    assert mode(packed) == 0o600
    packed.chmod(0o644)
    lmckpt.decompress_file(packed, back, overwrite=True)
    assert mode(back) == 0o600 and back.read_bytes() == source.read_bytes()


def test_what_was_only_in_memory_is_restored_for_its_owner_alone(tmp_path: Path) -> None:
    """A state has no mode, so that its files are open to nobody else, whatever the umask is."""
    torch = pytest.importorskip("torch")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    from lmckpt.dcp import StoreWriter

    before = os.umask(0o000)
    try:
        store = lmckpt.Store(tmp_path / "store", create=True)
        store.save({"model": {"x": torch.ones(3)}})
        state = {"model": {"x": torch.ones(3)}, "step": 1}
        with pytest.warns(UserWarning, match="torch.distributed is"):
            dcp.save(state, storage_writer=StoreWriter(store, "dcp"), no_dist=True)
        store.restore("main@latest", tmp_path / "state")
        store.restore("dcp@latest", tmp_path / "dcp")
    finally:
        os.umask(before)
    assert mode(tmp_path / "state" / "model.safetensors") == 0o600
    assert mode(tmp_path / "state" / "state.json") == 0o600
    assert mode(tmp_path / "dcp" / "model") == 0o700
    assert mode(tmp_path / "dcp" / "model" / "00000.safetensors") == 0o600
