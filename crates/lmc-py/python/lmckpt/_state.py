"""A training state as files: tensors in safetensors files, all else as JSON. Nothing is pickled.

A state is a tree of dicts, lists and tuples with tensors, arrays and plain values at its ends.
``state.json`` holds the tree. Tensors stand in one file for each name at the top of the tree,
``model.safetensors`` and ``optimizer.safetensors`` say, or all in ``model.safetensors`` if they
stand at the top themselves; a tensor is named by the way to it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._buffers import is_numpy, is_torch
from .errors import CorruptError, InvalidError

STATE_FILE = "state.json"
TOP_FILE = "model.safetensors"
FORMAT = 1
_DEPTH_MAX = 100
_PLAIN = (str, int, bool, type(None))


@dataclass
class Flat:
    """A state, taken apart."""

    tree: Any
    # What the names of the files begin with.
    prefix: str = ""
    # For each file, its tensors by name.
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def json(self) -> bytes:
        """The tree as it stands in ``state.json``."""
        state = {"format": FORMAT, "tree": self.tree}
        return json.dumps(state, separators=(",", ":"), allow_nan=False).encode()

    def tensors(self) -> Iterable[Any]:
        """All tensors and arrays."""
        for tensors in self.files.values():
            yield from tensors.values()


def flatten(state: Mapping[str, Any], prefix: str = "") -> Flat:
    """Takes a state apart. The names of all files begin with ``prefix``."""
    if not isinstance(state, Mapping):
        raise InvalidError(f"expected a dict, found a {type(state).__name__}")
    flat = Flat(None, prefix)
    flat.tree = _node(state, (), flat, 0)
    return flat


def _file(way: tuple[str, ...]) -> str:
    if len(way) < 2:
        return TOP_FILE
    return re.sub(r"[^A-Za-z0-9_-]", "_", way[0])[:100] + ".safetensors"


def _node(value: Any, way: tuple[str, ...], flat: Flat, depth: int) -> Any:
    if depth > _DEPTH_MAX:
        raise InvalidError(f"{'.'.join(way[:4])}...: more than {_DEPTH_MAX} levels")
    if is_torch(value) or is_numpy(value):
        file, name = flat.prefix + _file(way), ".".join(way[1:] if len(way) > 1 else way)
        tensors = flat.files.setdefault(file, {})
        while name in tensors:
            name += "'"
        tensors[name] = value
        return {"t": "torch" if is_torch(value) else "numpy", "file": file, "name": name}
    if isinstance(value, bool) or value is None or isinstance(value, (str, int)):
        return {"v": value} if isinstance(value, _PLAIN) else {"v": _scalar(value)}
    if isinstance(value, float):
        # JSON has no infinities, and a float must come back as it was.
        return {"f": float(value).hex() if math.isfinite(value) else repr(float(value))}
    if isinstance(value, complex):
        return {"c": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, (bytes, bytearray)):
        return {"b": bytes(value).hex()}
    if isinstance(value, Mapping):
        items = [
            [_key(key, way), _node(item, (*way, str(key)), flat, depth + 1)]
            for key, item in value.items()
        ]
        return {"d": items}
    if isinstance(value, (list, tuple, set, frozenset)):
        kind = "l" if isinstance(value, list) else "u" if isinstance(value, tuple) else "s"
        ordered = sorted(value, key=repr) if kind == "s" else value
        items = [_node(item, (*way, str(i)), flat, depth + 1) for i, item in enumerate(ordered)]
        return {kind: items}
    raise InvalidError(
        f"{'.'.join(way) or 'the state'}: a {type(value).__name__} cannot be saved without "
        "pickle; turn it into tensors and plain values (state_dict())"
    )


def _scalar(value: Any) -> Any:
    return int(value) if isinstance(value, int) else str(value)


def _key(key: Any, way: tuple[str, ...]) -> Any:
    if isinstance(key, (str, int, bool)) or key is None:
        return key
    if isinstance(key, tuple):
        return {"u": [_key(item, way) for item in key]}
    raise InvalidError(f"{'.'.join(way)}: a key that is a {type(key).__name__} cannot be saved")


def unflatten(text: bytes, tensor: Callable[[str, str, str], Any]) -> Any:
    """The state of ``state.json``; ``tensor(kind, file, name)`` gives each tensor."""
    try:
        state = json.loads(text)
        if state["format"] != FORMAT:
            raise InvalidError(
                f"the state has format {state['format']}, this lmckpt knows {FORMAT}"
            )
        return _value(state["tree"], tensor, 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidError):
            raise
        raise CorruptError(f"{STATE_FILE} cannot be read: {error!r}") from None


def _value(node: Any, tensor: Callable[[str, str, str], Any], depth: int) -> Any:
    if depth > 2 * _DEPTH_MAX:
        raise CorruptError(f"{STATE_FILE} is too deep")
    if "t" in node:
        return tensor(node["t"], node["file"], node["name"])
    ((kind, value),) = node.items()
    if kind == "v":
        return value
    if kind == "f":
        return float.fromhex(value)
    if kind == "c":
        return complex(float.fromhex(value[0]), float.fromhex(value[1]))
    if kind == "b":
        return bytes.fromhex(value)
    if kind == "d":
        return {_unkey(key): _value(item, tensor, depth + 1) for key, item in value}
    items = [_value(item, tensor, depth + 1) for item in value]
    if kind == "l":
        return items
    if kind == "u":
        return tuple(items)
    if kind == "s":
        return set(items)
    raise CorruptError(f"{STATE_FILE} has an unknown kind {kind!r}")


def _unkey(key: Any) -> Any:
    return tuple(_unkey(item) for item in key["u"]) if isinstance(key, dict) else key
