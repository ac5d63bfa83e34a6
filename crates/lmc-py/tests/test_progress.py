"""What ``progress=`` becomes."""

from __future__ import annotations

import logging
import sys
import threading
import types
from typing import ClassVar

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
