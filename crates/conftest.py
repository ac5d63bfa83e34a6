"""What holds for all tests in Python."""

from __future__ import annotations

import os
import pathlib

import pytest

# No test asks the machine that it runs on for keys to somebody's bucket.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

# Reasons of skips begin with the part that is missing, as in the Rust tests: "gpu: no GPU here".
_lacking: list[str] = []


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    is_import = reason.startswith("could not import")
    part = "import" if is_import else reason.split(":")[0]
    line = f"{part}: {reason if is_import else reason.partition(': ')[2]} ({report.nodeid})"
    if part not in os.environ.get("LMC_MAY_LACK", "").split(","):
        _lacking.append(line)
    if path := os.environ.get("LMC_SKIPS"):
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes tests that were skipped."""
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Notes modules that were skipped."""
    _note(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With LMC_REQUIRE_ALL=1 a skip is a failure, unless LMC_MAY_LACK lists its part."""
    if _lacking and os.environ.get("LMC_REQUIRE_ALL") == "1":
        print("\nmissing, and LMC_REQUIRE_ALL is set:", *_lacking, sep="\n")
        session.exitstatus = 1
