"""New weights for those who have the old ones: a .lmc file on the old weights as its base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _lmckpt
from ._apart import check_apart
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
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    level: Level = "fast",
    threads: int = 0,
    verify: bool = True,
) -> bytes:
    """What turns ``old`` into ``new``: dicts of tensors or arrays of any types.

    Tensors may be added and left out. The result names what it is against by a hash of all of
    ``old``, names and shapes included. ``verify`` decodes everything at once and compares.
    """
    return _lmckpt.compress(
        _parts(new),
        level=level,
        threads=threads,
        verify=verify,
        bases=[_parts(old)],
        name_bases=True,
    )


def apply(old: Mapping[str, Any], data: Any, *, threads: int = 0) -> dict[str, Any]:
    """Brings ``old`` up to date, in place, by what ``delta`` returned; returns all tensors.

    Nothing is changed unless ``old`` is what the delta was made against and everything has been
    decoded and checked. Tensors of the same name, shape and type are written in place, others are
    new ones in the result.
    """
    archive = _lmckpt.Archive(view(data), bases=[_parts(old)])
    # Also where nothing of it is needed: the delta is for these weights and no others.
    archive.check_named_bases()
    if any(is_torch(tensor) for tensor in old.values()):
        from .torch import load_archive

        new: dict[str, Any] = load_archive(archive, threads=threads)
    else:
        from .numpy import load_archive as load_arrays

        new = load_arrays(archive, threads)
    targets = {name: old[name] for name in new if _is_like(old.get(name), new[name])}
    for name, target in targets.items():
        check_target(target, name)
    check_apart([(name, target, new[name]) for name, target in targets.items()])
    for name, target in targets.items():
        if is_torch(target):
            target.data.copy_(new[name])
        else:
            target[...] = new[name]
    return {**new, **targets}


def _is_like(old: Any, new: Any) -> bool:
    return old is not None and old.shape == new.shape and old.dtype == new.dtype
