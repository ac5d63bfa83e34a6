"""``progress=`` of long calls: a function that gets the bytes done so far, or a tqdm bar."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

_LOGGER = logging.getLogger(__name__)

# What a caller may give: a function that takes the bytes done so far, or whether to show a bar.
Progress: TypeAlias = Callable[[int], object] | bool | None


@contextlib.contextmanager
def reporting(
    progress: Progress, *, total: int | None = None, title: str | None = None
) -> Iterator[Callable[[int], None] | None]:
    """Gives what a native call should call with the bytes done so far, or None.

    It may be called from any thread. What it passes on only grows: threads may overtake each other
    on the way. ``total`` and ``title`` are for the bar, which is closed at the end, even after an
    error. Without tqdm, ``progress=True`` shows nothing and logs why: no save fails for lack of a
    bar.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        bar = _bar(total, title)
        if bar is None:
            yield None
            return
        with contextlib.closing(bar):
            yield _growing(lambda done: bar.update(done - bar.n))
    elif callable(progress):
        yield _growing(progress)
    else:
        raise TypeError(f"progress is a function or a bool, not a {type(progress).__name__}")


def _bar(total: int | None, title: str | None) -> Any:
    try:
        # The one that fits where this runs: a terminal or a notebook.
        from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        _LOGGER.warning("progress=True shows nothing: tqdm is not installed")
        return None
    return tqdm(total=total, desc=title, unit="B", unit_scale=True, unit_divisor=1024)


def _growing(report: Callable[[int], object]) -> Callable[[int], None]:
    """Calls ``report`` for each number that is larger than all before, one call at a time."""
    lock, most = threading.Lock(), 0

    def tell(done: int) -> None:
        nonlocal most
        with lock:
            if done > most:
                most = done
                report(done)

    return tell
