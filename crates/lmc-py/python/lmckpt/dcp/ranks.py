"""What the ranks on one machine share."""

from __future__ import annotations

import os


def threads_of(threads: int) -> int:
    """How many threads a rank uses: 0 means its share of the cores of its machine."""
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "1")
    cores = len(os.sched_getaffinity(0))
    return threads or max(1, cores // max(1, int(ranks) if ranks.isdecimal() else 1))
