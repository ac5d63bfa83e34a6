"""A state that was read, merged into an existing one."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from ..errors import InvalidError
from ..safetensors.buffers import check_target, is_numpy, is_torch
from ..safetensors.overlap import check_apart

# Stands for a tensor that was not asked for.
MISSING = object()


class Merge:
    """Finds out where everything goes, and writes only when all of it fits."""

    def __init__(self, only: str | None) -> None:
        self._only = only
        # Names, existing tensors, and those that were read.
        self._copies: list[tuple[str, Any, Any]] = []
        # Dicts and lists, the key, and the value that it gets.
        self._values: list[tuple[Any, Any, Any]] = []
        # Names and values by dict or list and key, as one may appear several times.
        self._placed: dict[tuple[int, Any], tuple[str, Any]] = {}

    def node(self, into: Any, found: Any, way: tuple[str, ...]) -> Any:
        """What a node becomes: what was found, or ``into``, which will get all of it."""
        if found is MISSING:
            return MISSING
        if isinstance(found, dict):
            node = self._dict(into, found, way)
        elif type(found) in (list, tuple):
            node = self._list(into, found, way)
        elif is_torch(found) or is_numpy(found):
            return self._tensor(into, found, way)
        else:
            # With a pattern, only tensors are asked for.
            return found if self._only is None else MISSING
        if not way and node is MISSING:
            raise InvalidError(f"no tensor fits {self._only!r}")
        return node

    def _dict(self, into: Any, found: dict[Any, Any], way: tuple[str, ...]) -> Any:
        if into is not None and not isinstance(into, Mapping):
            raise InvalidError(f"{_text(way)}: the snapshot has a dict here, and into does not")
        if into is not None and self._only is None:
            for key in into:
                if key not in found:
                    raise InvalidError(f"{_text((*way, key))} is in into, and not in the snapshot")
        had = bool(found)
        for key, value in list(found.items()):
            there = (*way, str(key))
            is_there = into is not None and key in into
            merged = self.node(into[key] if is_there else None, value, there)
            if merged is MISSING:
                del found[key]
                continue
            if into is not None and not is_there:
                raise InvalidError(f"{_text(there)} is in the snapshot, and not in into")
            found[key] = merged
            if isinstance(into, MutableMapping):
                self._put(into, key, merged, there)
        if self._only is not None and had and not found:
            return MISSING
        return into if isinstance(into, MutableMapping) else found

    def _list(self, into: Any, found: Any, way: tuple[str, ...]) -> Any:
        targets = into if isinstance(into, (list, tuple)) else [None] * len(found)
        if len(targets) != len(found):
            raise InvalidError(
                f"{_text(way)} has {len(targets)} items in into, and {len(found)} in the snapshot"
            )
        nodes = [
            self.node(target, value, (*way, str(i)))
            for i, (target, value) in enumerate(zip(targets, found, strict=True))
        ]
        kept = [node for node in nodes if node is not MISSING]
        if self._only is not None and found and not kept:
            return MISSING
        if isinstance(into, list):
            for i, node in enumerate(nodes):
                if node is not MISSING:
                    self._put(into, i, node, (*way, str(i)))
            return into
        return type(found)(kept)

    def _put(self, container: Any, key: Any, value: Any, way: tuple[str, ...]) -> None:
        """Takes a value for a dict or a list, which must not get another one in the same place."""
        name, first = self._placed.setdefault((id(container), key), (_text(way), value))
        if not _is_same(first, value):
            raise InvalidError(
                f"{name} and {_text(way)} are the same place in into but need different values"
            )
        if value is not container[key]:
            self._values.append((container, key, value))

    def _tensor(self, into: Any, found: Any, way: tuple[str, ...]) -> Any:
        if into is None:
            return found
        if not is_torch(into) and not is_numpy(into):
            raise InvalidError(f"{_text(way)}: the snapshot has a tensor here, and into does not")
        if into.shape != found.shape or into.dtype != found.dtype:
            there = f"{found.dtype} {tuple(found.shape)}"
            raise InvalidError(
                f"{_text(way)} is {there} in the snapshot, and {into.dtype} {tuple(into.shape)} "
                "in into"
            )
        check_target(into, _text(way))
        self._copies.append((_text(way), into, found))
        return into

    def write(self) -> None:
        """Writes all of it, unless tensors share memory that cannot hold it."""
        check_apart(self._copies)
        for _, target, value in self._copies:
            if is_torch(target):
                target.data.copy_(value)
            else:
                target[...] = value
        for container, key, value in self._values:
            container[key] = value


def _text(way: tuple[Any, ...]) -> str:
    return ".".join(map(str, way)) or "the state"


def _is_same(first: Any, second: Any) -> bool:
    """Whether two values that were read are the same one; tensors are, if they are one tensor."""
    if first is second or is_torch(first) or is_numpy(first) or type(first) is not type(second):
        return first is second
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(_is_same, first, second))
    if isinstance(first, dict):
        return list(first) == list(second) and all(map(_is_same, first.values(), second.values()))
    # NaN is not equal to itself.
    return bool(first == second) or repr(first) == repr(second)
