"""New weights for those who have the old ones: a .lmc file on the old weights as its base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _lmckpt
from ._buffers import is_torch, view
from .errors import InvalidError
from .files import Level


def _parts(tensors: Mapping[str, Any]) -> list[Any]:
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

        new = load_archive(archive, threads=threads)
        for name, tensor in new.items():
            target = old.get(name)
            if _is_like(target, tensor):
                target.data.copy_(tensor)  # type: ignore[union-attr]
                new[name] = target  # type: ignore[assignment]
        return dict(new)
    from .numpy import load_archive as load_arrays

    arrays = load_arrays(archive, threads)
    for name, array in arrays.items():
        target = old.get(name)
        if _is_like(target, array):
            if not target.flags.writeable:  # type: ignore[union-attr]
                raise InvalidError(f"{name} is read-only")
            target[...] = array  # type: ignore[index]
            arrays[name] = target  # type: ignore[assignment]
    return dict(arrays)


def _is_like(old: Any, new: Any) -> bool:
    return old is not None and old.shape == new.shape and old.dtype == new.dtype
