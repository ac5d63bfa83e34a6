"""Seconds of calls, what they come to, and tables of them."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

GIB = 1 << 30
MIB = 1 << 20


def seconds(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """How long a call takes, and what it returns."""
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    result = call(*arguments)
    taken = time.perf_counter() - start
    gc.enable()
    return taken, result


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def machine() -> str:
    """The processor and the number of cores."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {cores()} cores"


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    """A table in Markdown."""
    print(f"| {' | '.join(columns)} |")
    print("|---" * len(columns) + "|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print(flush=True)
