"""Whether tensors that share memory can all hold what they should get.

Tied weights share all of their memory, views a part of it. Writing one changes the other, which is
right only if both hold in the end what was meant for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidError
from .buffers import is_torch, view


@dataclass
class _Region:
    """Where the values of a tensor or an array are in memory."""

    name: str
    # What its addresses refer to: the memory of a device.
    space: str
    address: int
    shape: tuple[int, ...]
    # In bytes.
    strides: tuple[int, ...]
    item: int

    def low(self) -> int:
        return self.address + sum(min(reach, 0) for reach in self._reaches())

    def high(self) -> int:
        return self.address + sum(max(reach, 0) for reach in self._reaches()) + self.item

    def _reaches(self) -> list[int]:
        return [(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)]

    def is_folded(self) -> bool:
        """Whether two of its own values may share memory."""
        pairs = zip(self.strides, self.shape, strict=True)
        reach = self.item
        for step, count in sorted((abs(step), count) for step, count in pairs if count > 1):
            if step < reach:
                return True
            reach += step * (count - 1)
        return False


def _region(name: str, target: Any) -> _Region:
    shape = tuple(target.shape)
    if not is_torch(target):
        return _Region(name, "cpu", target.ctypes.data, shape, target.strides, target.itemsize)
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    item = target.element_size()
    if is_traceable_wrapper_subclass(target):
        # It has no memory of its own; the same object is the same memory.
        steps = [item]
        for count in reversed(shape[1:]):
            steps.insert(0, steps[0] * count)
        return _Region(name, f"object {id(target)}", 0, shape, tuple(steps[-len(shape) :]), item)
    strides = tuple(step * item for step in target.stride())
    return _Region(name, str(target.device), target.data_ptr(), shape, strides, item)


def _groups(regions: Sequence[_Region]) -> Iterator[list[int]]:
    """Indices of regions that overlap in their bounds, and of single ones that are folded."""
    order = sorted(
        (region.space, region.low(), i) for i, region in enumerate(regions) if 0 not in region.shape
    )
    group: list[int] = []
    space, end = "", 0
    for there, low, i in order:
        if group and (there != space or low >= end):
            if len(group) > 1 or regions[group[0]].is_folded():
                yield group
            group = []
        end = max(end, regions[i].high()) if group else regions[i].high()
        space = there
        group.append(i)
    if len(group) > 1 or group and regions[group[0]].is_folded():
        yield group


def sharing(targets: Iterable[tuple[str, Any]]) -> list[int]:
    """Indices of the targets that may share memory with a target of another name."""
    regions = [_region(name, target) for name, target in targets]
    groups = (group for group in _groups(regions) if len({regions[i].name for i in group}) > 1)
    return sorted(i for group in groups for i in group)


def close_together(targets: Iterable[tuple[str, Any]]) -> set[str]:
    """Names of the targets that may share memory with another, or within themselves."""
    regions = [_region(name, target) for name, target in targets]
    return {regions[i].name for group in _groups(regions) for i in group}


def check_apart(writes: Sequence[tuple[str, Any, Any]]) -> None:
    """Fails if tensors share memory and should be different.

    ``writes`` are names, tensors or arrays, and the values that they are to get, of the same type
    and shape. Those that may share memory are written to other memory first, and compared there.
    """
    regions = [_region(name, target) for name, target, _ in writes]
    for group in _groups(regions):
        _check_group([regions[i] for i in group], [_as_written(*writes[i][1:]) for i in group])


def _as_written(target: Any, value: Any) -> Any:
    """The bytes that memory holds once ``target`` is ``value``, in order."""
    import numpy

    if is_torch(value):
        value = value.detach().cpu()
        # Such views change the sign of what is written through them.
        value = value.conj() if target.is_conj() else value
        value = value.neg() if target.is_neg() else value
        value = value.resolve_conj().resolve_neg().contiguous()
    else:
        value = numpy.ascontiguousarray(value)
    return numpy.frombuffer(view(value), numpy.uint8)


def _check_group(regions: Sequence[_Region], values: Sequence[Any]) -> None:
    import numpy

    low = min(region.low() for region in regions)
    memory = numpy.empty(max(region.high() for region in regions) - low, numpy.uint8)
    windows = [
        numpy.lib.stride_tricks.as_strided(
            memory[region.address - low :], (*region.shape, region.item), (*region.strides, 1)
        )
        for region in regions
    ]
    for window, value in zip(windows, values, strict=True):
        window[...] = value.reshape(window.shape)
    for i, (window, value) in enumerate(zip(windows, values, strict=True)):
        if not numpy.array_equal(window, value.reshape(window.shape)):
            # Only what was written later can have changed it.
            own, later = regions[i], regions[i + 1 :]
            near = [p.name for p in later if p.low() < own.high() and own.low() < p.high()]
            with_whom = f"{own.name} and {near[0]} share" if near else f"values of {own.name} share"
            raise InvalidError(
                f"{with_whom} memory but need different values; copy one of them first"
            )
