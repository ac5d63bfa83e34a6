"""What ``progress=`` becomes."""

from __future__ import annotations

import concurrent.futures
import logging
import random
import sys
import threading
import types
from pathlib import Path
from typing import ClassVar

import lmckpt
import pytest
from lmckpt._progress import reporting


class Bar:
    """Stands for tqdm."""

    made: ClassVar[list[Bar]] = []

    def __init__(self, **options) -> None:
        self.options, self.n, self.is_closed = options, 0, False
        self.made.append(self)

    def update(self, more: int) -> None:
        assert more > 0
        self.n += more

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    monkeypatch.setattr(Bar, "made", [])
    module = types.ModuleType("tqdm.auto")
    module.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    return Bar.made


@pytest.mark.parametrize("progress", [None, False])
def test_none_is_asked_for(progress: bool | None, bars: list[Bar]) -> None:
    with reporting(progress) as report:
        assert report is None
    assert not bars


def test_a_function_hears_growing_numbers() -> None:
    heard: list[int] = []
    with reporting(heard.append) as report:
        for done in (0, 5, 3, 5, 9):
            report(done)
    assert heard == [5, 9]


def test_threads_may_report() -> None:
    heard: list[int] = []
    with reporting(heard.append) as report:
        threads = [
            threading.Thread(target=lambda i=i: [report(n) for n in range(i, 4000, 4)])
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert heard == sorted(set(heard)) and heard[-1] == 3999


def test_a_bar(bars: list[Bar]) -> None:
    with reporting(True, total=100, title="save") as report:
        report(30)
        report(20)
        report(70)
    (bar,) = bars
    assert bar.n == 70 and bar.is_closed
    assert bar.options["total"] == 100 and bar.options["desc"] == "save"


def test_a_bar_is_closed_after_an_error(bars: list[Bar]) -> None:
    with pytest.raises(ValueError, match="broken"), reporting(True) as report:
        report(1)
        raise ValueError("broken")
    assert bars[0].is_closed


def test_the_real_tqdm(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    with reporting(True, total=2048, title="save") as report:
        report(2048)
    assert "save" in capsys.readouterr().err


def test_without_tqdm(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with caplog.at_level(logging.WARNING), reporting(True) as report:
        assert report is None
    assert "tqdm is not installed" in caplog.text


@pytest.mark.parametrize("wrong", [1, "yes", object()])
def test_anything_else_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="progress is a function or a bool"), reporting(wrong):
        pass


def weights(path: Path, count: int = 3 << 20) -> Path:
    """A file that takes more than a moment to compress."""
    path.write_bytes(random.Random(7).randbytes(1 << 16) * (count >> 16))
    return path


def check_told(heard: list[int], total: int) -> None:
    """The numbers grow up to the end."""
    assert heard == sorted(set(heard))
    assert heard[-1] == total


def test_files_are_told_of(tmp_path: Path) -> None:
    source = weights(tmp_path / "weights.bin")
    total = source.stat().st_size
    heard: list[int] = []
    packed = lmckpt.compress_file(source, progress=heard.append)
    check_told(heard, total)
    heard.clear()
    lmckpt.decompress_file(packed, tmp_path / "again.bin", progress=heard.append)
    check_told(heard, total)
    assert (tmp_path / "again.bin").read_bytes() == source.read_bytes()


def test_stores_are_told_of(tmp_path: Path) -> None:
    source = weights(tmp_path / "weights.bin")
    total = source.stat().st_size
    store = lmckpt.Store(tmp_path / "store", create=True)
    heard: list[int] = []
    snapshot = store.save(source, progress=heard.append)
    check_told(heard, total)
    heard.clear()
    store.restore(snapshot, tmp_path / "again.bin", progress=heard.append)
    check_told(heard, total)


def test_states_are_told_of(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    store = lmckpt.Store(tmp_path / "store", create=True)
    state = {"model": {"a": numpy.ones(1000), "b": numpy.zeros(500)}}
    heard: list[int] = []
    store.save(state, progress=heard.append)
    assert heard[-1] >= 12000
    heard.clear()
    loaded = store.load(progress=heard.append)
    assert (loaded["model"]["a"] == 1).all()
    check_told(heard, 12000)


def test_it_is_called_on_the_thread_of_the_call(tmp_path: Path) -> None:
    source = weights(tmp_path / "weights.bin")
    threads: set[int] = set()

    def work() -> None:
        own = threading.get_ident()
        name = str(tmp_path / f"{own}.lmc")
        lmckpt.compress_file(source, name, progress=lambda _: threads.add(threading.get_ident()))
        assert threads == {own}

    work()
    threads.clear()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def test_what_it_raises_ends_the_work(tmp_path: Path) -> None:
    source = weights(tmp_path / "weights.bin")
    store = lmckpt.Store(tmp_path / "store", create=True)

    def fail(done: int) -> None:
        raise ValueError(f"no more than {done}")

    with pytest.raises(ValueError, match="no more than"):
        store.restore(store.save(source), tmp_path / "out", progress=fail)
    state = {"a": bytearray(8)}
    with pytest.raises(TypeError, match="progress is a function or a bool"):
        store.save(state, progress=7)  # type: ignore[arg-type]


def test_a_bar_is_shown(tmp_path: Path, bars: list[Bar]) -> None:
    source = weights(tmp_path / "weights.bin")
    lmckpt.compress_file(source, progress=True)
    assert [bar.options["total"] for bar in bars] == [source.stat().st_size]
    assert bars[0].n == source.stat().st_size
    assert bars[0].is_closed
