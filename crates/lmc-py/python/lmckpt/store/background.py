"""Saves in the background, of a copy."""

from __future__ import annotations

import concurrent.futures
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from .. import _lmckpt
from .._lmckpt import Snapshot, printable
from ..safetensors.buffers import is_torch, view
from .state import Flat

# Key of memory that can be used again: kind, type and number of values.
_Key = tuple[str, Any, int]
# Bytes, and where they are to be copied to.
_Pair = tuple[memoryview, memoryview]


_LOGGER = logging.getLogger(__name__)


def start_thread(
    work: Callable[[], None], give_up: Callable[[BaseException], None]
) -> threading.Thread | None:
    """Does work in another thread, or in this one if there can be no other.

    ``give_up`` is told if something else, such as Ctrl-C, keeps the work from being begun.
    """
    # Not a daemon: the interpreter waits for it before it ends.
    thread = threading.Thread(target=work, name="lmckpt-save")
    try:
        _start(thread)
    except RuntimeError as error:
        # What is to be saved matters more than the time that it takes.
        _LOGGER.warning("a save in the background is done in the foreground: %s", error)
        work()
        return None
    except BaseException as error:
        if thread.ident is None:
            give_up(error)
        raise
    return thread


def _start(thread: threading.Thread) -> None:
    """Starts a thread that the interpreter waits for, or fails.

    Once the main thread has ended, as in functions of ``atexit``, no thread is waited for that is
    started then. Some versions of Python start it nevertheless.
    """
    if not threading.main_thread().is_alive():
        raise RuntimeError("the interpreter is about to end")
    thread.start()


class Saving(Future[Snapshot]):
    """A save in the background, which knows whether somebody has asked how it ended."""

    is_heard = False

    def result(self, timeout: float | None = None) -> Snapshot:
        """The snapshot, once it is there."""
        self.is_heard = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error, if there was one."""
        self.is_heard = True
        return super().exception(timeout)


class Saver:
    """One save at a time, of a copy whose memory is used again."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._free: dict[_Key, list[Any]] = {}
        self._under_way: Saving | None = None
        self._thread: threading.Thread | None = None

    def save(self, flat: Flat, save: Callable[[Flat], Snapshot]) -> Future[Snapshot]:
        """Copies all tensors and saves the copy in a thread."""
        self._wait_for_last()
        used: dict[_Key, list[Any]] = {}
        pairs: list[_Pair] = []
        copies = {
            path: {name: self._copy(value, used, pairs) for name, value in tensors.items()}
            for path, tensors in flat.files.items()
        }
        _lmckpt.copy(pairs)
        # What this state has no use for is not kept.
        self._free = {}
        return self._start(lambda: save(Flat(flat.tree, files=copies)), used)

    def save_path(self, save: Callable[[], Snapshot]) -> Future[Snapshot]:
        """Saves what is on the disk in a thread."""
        self._wait_for_last()
        return self._start(save, self._free)

    def settle(self) -> None:
        """Waits for the save under way, however it ends."""
        if self._under_way is not None:
            concurrent.futures.wait([self._under_way])

    def _wait_for_last(self) -> None:
        self.settle()
        if self._under_way is not None and not self._under_way.is_heard:
            # Nobody holds the future, or nobody has looked at it.
            self._under_way.result()

    def _start(self, save: Callable[[], Snapshot], used: dict[_Key, list[Any]]) -> Future[Snapshot]:
        future = Saving()
        future.set_running_or_notify_cancel()
        self._under_way = future

        def work() -> None:
            try:
                saved = save()
            except BaseException as error:  # noqa: BLE001, whoever holds the future gets it
                self._free = used
                _LOGGER.error("a save in the background failed: %s", printable(str(error)))
                future.set_exception(error)
            else:
                self._free = used
                future.set_result(saved)

        self._thread = None
        self._thread = start_thread(work, future.set_exception)
        return future

    def _copy(self, value: Any, used: dict[_Key, list[Any]], pairs: list[_Pair]) -> Any:
        """A copy; what is plain memory on both sides is left to be copied to ``pairs``."""
        if is_torch(value):
            return self._copy_tensor(value, used, pairs)
        import numpy

        key = ("numpy", value.dtype, value.size)
        memory = self._take(key)
        if memory is None:
            memory = numpy.empty(value.size, value.dtype)
        used.setdefault(key, []).append(memory)
        copy = memory.reshape(value.shape)
        if value.flags.c_contiguous:
            pairs.append((view(value), view(copy)))
        else:
            copy[...] = value
        return copy

    def _copy_tensor(self, value: Any, used: dict[_Key, list[Any]], pairs: list[_Pair]) -> Any:
        import torch

        value = value.detach()
        key = ("torch", (value.dtype, value.device.type), value.numel())
        memory = self._take(key)
        if memory is None:
            pin = value.device.type == "cuda"
            memory = torch.empty(value.numel(), dtype=value.dtype, pin_memory=pin)
        used.setdefault(key, []).append(memory)
        copy = memory.view(value.shape)
        is_plain = value.is_contiguous() and not value.is_conj() and not value.is_neg()
        if value.device.type == "cpu" and is_plain:
            # Faster than copy_ of torch by half, and on all cores.
            pairs.append((view(value), view(copy)))
        else:
            copy.copy_(value)
        return copy

    def _take(self, key: _Key) -> Any:
        free = self._free.get(key)
        return free.pop() if free else None

    def wait(self) -> None:
        """Waits for the running save and for the callback after it, and raises its error."""
        # What is called after it may wait too, in its thread.
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._under_way is not None:
            self._under_way.result()

    def close(self) -> None:
        """Waits for the save under way and gives the memory back."""
        try:
            self.wait()
        finally:
            self._free = {}
