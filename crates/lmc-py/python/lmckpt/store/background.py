"""Saves in the background: the one place where lmckpt starts a thread.

``Store.save_async`` and the integrations share it through ``NativeStore.background``, so that a
store does one save at a time, and a load waits for it.
"""

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
from .state import FlatState

# Key of memory that can be used again: kind, type and number of values.
_Key = tuple[str, Any, int]
# Bytes, and where they are to be copied to.
_Pair = tuple[memoryview, memoryview]


_LOGGER = logging.getLogger(__name__)


def _start_waited_for(thread: threading.Thread) -> None:
    """Starts a thread that the interpreter waits for before it ends, or fails.

    It does not wait for threads that are started after the main thread has ended, as in functions
    of ``atexit``; some versions of Python start them nevertheless.
    """
    if not threading.main_thread().is_alive():
        raise RuntimeError("the interpreter is about to end")
    thread.start()


def _run_in_thread(
    work: Callable[[], None], give_up: Callable[[BaseException], None]
) -> threading.Thread | None:
    """Does work in another thread, or in this one if no other can be started.

    ``give_up`` is called if something else, such as Ctrl-C, keeps the work from starting.
    """
    # Not a daemon: the interpreter waits for it before it ends.
    thread = threading.Thread(target=work, name="lmckpt-save")
    try:
        _start_waited_for(thread)
    except RuntimeError as error:
        # The checkpoint matters more than the time that it takes.
        _LOGGER.warning("a save in the background is done in the foreground: %s", error)
        work()
        return None
    except BaseException as error:
        if thread.ident is None:
            give_up(error)
        raise
    return thread


class Saving(Future[Snapshot]):
    """A save in the background, which knows whether somebody has asked how it ended."""

    is_heard = False

    def result(self, timeout: float | None = None) -> Snapshot:
        """The snapshot, once it is saved."""
        self.is_heard = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error, if there was one."""
        self.is_heard = True
        return super().exception(timeout)


class BackgroundSaver:
    """One save at a time. The memory of the copy is kept for the next one."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._owner = os.getpid()
        self._free: dict[_Key, list[Any]] = {}
        self._last: Saving | None = None
        self._thread: threading.Thread | None = None
        # The thread that calls ``save``, while it does.
        self._working: int | None = None

    def _forget_others(self) -> None:
        # A save that was running at a fork is the parent's.
        if self._owner != os.getpid():
            self._reset()

    def save(self, flat: FlatState, save: Callable[[FlatState], Snapshot]) -> Future[Snapshot]:
        """Copies all tensors of a state and calls ``save`` with the copy in a thread.

        Waits for the previous save, and raises its error if nobody has seen it yet.
        """
        self._wait_for_last()
        used: dict[_Key, list[Any]] = {}
        pairs: list[_Pair] = []
        copies = {
            path: {name: self._copy(value, used, pairs) for name, value in tensors.items()}
            for path, tensors in flat.files.items()
        }
        _lmckpt.copy(pairs)
        # Memory that this state does not need is not kept.
        self._free = {}
        return self._start(lambda: save(FlatState(flat.tree, files=copies)), used)

    def start(self, save: Callable[[], Snapshot]) -> Future[Snapshot]:
        """Calls ``save`` in a thread, for what needs no copy: files and directories.

        Waits for the previous save, and raises its error if nobody has seen it yet.
        """
        self._wait_for_last()
        return self._start(save, self._free)

    def settle(self) -> None:
        """Waits for the running save, however it ends."""
        self._forget_others()
        # What a save itself calls must not wait for it.
        if self._last is not None and self._working != threading.get_ident():
            concurrent.futures.wait([self._last])

    def wait(self) -> None:
        """Waits for the running save and for the callbacks after it, and raises its error."""
        self._forget_others()
        self._join()
        if self._last is not None:
            self._last.result()

    def close(self, *, again: bool = True) -> None:
        """Waits as ``wait`` does and gives the memory back.

        Without ``again``, an error that somebody has already seen is not raised again.
        """
        self._forget_others()
        try:
            self._join()
            if self._last is not None and (again or not self._last.is_heard):
                self._last.result()
        finally:
            # After Ctrl-C it may still be running; then the next save waits for it.
            if self._last is None or self._last.done():
                self._reset()

    def _join(self) -> None:
        # Callbacks may wait too, in the thread of the save.
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _wait_for_last(self) -> None:
        self.settle()
        if self._last is not None and not self._last.is_heard:
            # Nobody holds the future, or nobody has looked at it.
            self._last.result()

    def _start(self, save: Callable[[], Snapshot], used: dict[_Key, list[Any]]) -> Future[Snapshot]:
        future = Saving()
        future.set_running_or_notify_cancel()
        self._last = future

        def work() -> None:
            self._working = threading.get_ident()
            try:
                saved = save()
            except BaseException as error:  # noqa: BLE001, whoever holds the future gets it
                self._free, self._working = used, None
                _LOGGER.error("a save in the background failed: %s", printable(str(error)))
                future.set_exception(error)
            else:
                self._free, self._working = used, None
                future.set_result(saved)

        self._thread = self._working = None
        self._thread = _run_in_thread(work, future.set_exception)
        return future

    def _copy(self, value: Any, used: dict[_Key, list[Any]], pairs: list[_Pair]) -> Any:
        """A copy; ``pairs`` gets the bytes that are still to be copied to it."""
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
            # Takes half as long as copy_ of torch, and uses all cores.
            pairs.append((view(value), view(copy)))
        else:
            copy.copy_(value)
        return copy

    def _take(self, key: _Key) -> Any:
        free = self._free.get(key)
        return free.pop() if free else None
