"""Fails a process that shuts the interpreter down while threads of gloo live.

Such a thread may ask for the interpreter's lock in a C++ destructor; Python before 3.14 answers by
unwinding it, which aborts the process. That is a race and seldom seen; that the threads are there
is seen every time. Python runs this file at the start of a process whose PYTHONPATH names its
folder.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path

STATUS = 70


def check() -> None:
    """Ends the process with a status of its own if threads of gloo are left."""
    names = []
    for task in Path("/proc/self/task").glob("*/comm"):
        try:
            names.append(task.read_text().strip())
        except OSError:  # The thread ended meanwhile.
            continue
    left = sorted(name for name in names if "gloo" in name)
    if left:
        os.write(2, f"the interpreter shuts down while threads live: {left}\n".encode())
        os._exit(STATUS)


# What is registered first runs last.
atexit.register(check)
