"""New weights for those who have the old ones: a .lmc file on the old weights as its base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _lmckpt
from ._buffers import check_target, is_torch, view
from .errors import InvalidError
from .files import Level


def _parts(tensors: Mapping[str, Any]) -> list[Any]:
    if not isinstance(tensors, Mapping):
        raise InvalidError(f"expected a dict of tensors, found a {type(tensors).__name__}")
    if any(is_torch(tensor) for tensor in tensors.values()):
        from .torch import serialize

        return serialize(tensors)
    from .numpy import serialize as serialize_arrays

    return serialize_arrays(tensors)


def delta(
    old: Mapping[str, Any], new: Mapping[str, Any], *, level: Level = "fast", threads: int = 0
) -> bytes:
    """What turns ``old`` into ``new``: dicts of tensors or arrays of any types.

    Tensors may be added and left out. The result names what it is against by a hash of all of
    ``old``, names and shapes included.
    """
    return _lmckpt.compress(_parts(new), level=level, threads=threads, bases=[_parts(old)])


def apply(old: Mapping[str, Any], data: Any, *, threads: int = 0) -> dict[str, Any]:
    """Brings ``old`` up to date, in place, by what ``delta`` returned; returns all tensors.

    Nothing is changed unless ``old`` is what the delta was made against and everything has been
    decoded and checked. Tensors of the same name, shape and type are written in place, others are
    new ones in the result.
    """
    archive = _lmckpt.Archive(view(data), bases=[_parts(old)])
    if any(is_torch(tensor) for tensor in old.values()):
        from .torch import load_archive

        new: dict[str, Any] = load_archive(archive, threads=threads)
    else:
        from .numpy import load_archive as load_arrays

        new = load_arrays(archive, threads)
    targets = {name: old[name] for name in new if _is_like(old.get(name), new[name])}
    for name, target in targets.items():
        check_target(target, name)
    _check_apart(targets, new)
    for name, target in targets.items():
        if is_torch(target):
            target.data.copy_(new[name])
        else:
            target[...] = new[name]
    return {**new, **targets}


def _is_like(old: Any, new: Any) -> bool:
    return old is not None and old.shape == new.shape and old.dtype == new.dtype


def _check_apart(targets: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Fails if tensors share memory, as tied weights do, and are no longer to be the same."""
    seen: dict[tuple[Any, ...], str] = {}
    for name, target in targets.items():
        place: tuple[Any, ...] = (target.shape,)
        if is_torch(target):
            place += (target.device, target.data_ptr(), target.stride())
        else:
            place += (target.ctypes.data, target.strides)
        first = seen.setdefault(place, name)
        if first != name and view(new[first]) != view(new[name]):
            raise InvalidError(f"{first} and {name} share memory and are to be different")
