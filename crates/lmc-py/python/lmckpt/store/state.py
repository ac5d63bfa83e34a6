"""A training state as files: tensors in safetensors files, all else as JSON. Nothing is pickled.

A state is a tree of dicts, lists and tuples whose leaves are tensors, arrays and plain values.
``state.json`` holds the tree. Tensors are in one file for each name at the top of the tree, such as
``model.safetensors`` and ``optimizer.safetensors``, or all in ``model.safetensors`` if they are at
the top themselves; a tensor is named by the path to it.

A node of the tree is an object whose one key says what it is. A value comes back as the type that
it had, or is refused; ``docs/python.md`` lists the few that change.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import CorruptError, InvalidError, LimitError, UnsupportedError
from ..safetensors.buffers import is_numpy, is_torch, needed

STATE_FILE = "state.json"
STATE_LEN_MAX = 1 << 30
TOP_FILE = "model.safetensors"
FORMAT = 1
_DEPTH_MAX = 100
# Integers with more bits than these are written in hex: Python limits decimal digits.
_DECIMAL_BITS_MAX = 8192
# Types of numpy that a number may have: byte order, kind, and bytes of one.
_NUMBERS = re.compile(r"[<>|=]?[biufc][0-9]{1,2}")
_FACTORIES = {
    kind.__name__: kind for kind in (bool, bytes, dict, float, int, list, set, str, tuple)
}

# Gives a tensor by its kind, its file, its name there and the path to it in the state.
Tensor = Callable[[str, str, str, tuple[str, ...]], Any]


@dataclass
class FlatState:
    """A state, taken apart."""

    tree: Any
    # What the names of the files begin with.
    prefix: str = ""
    # For each file, its tensors by name.
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def json(self) -> bytes:
        """The tree as it is in ``state.json``."""
        state = {"format": FORMAT, "tree": self.tree}
        text = json.dumps(state, separators=(",", ":"), allow_nan=False).encode()
        if len(text) > STATE_LEN_MAX:
            raise InvalidError("the state has too much besides its tensors; turn it into tensors")
        return text

    def tensor_files(self) -> Iterator[tuple[str, list[Any]]]:
        """The safetensors files, each as buffers that follow one another."""
        for path, tensors in self.files.items():
            yield path, _serialize(tensors)


def _serialize(tensors: Mapping[str, Any]) -> list[Any]:
    if any(is_torch(tensor) for tensor in tensors.values()):
        from ..safetensors.torch import serialize

        return serialize(tensors, arrays=True)
    from ..safetensors.numpy import serialize as serialize_arrays

    return serialize_arrays(tensors)


def flatten(state: Mapping[str, Any], prefix: str = "") -> FlatState:
    """Takes a state apart. The names of all files begin with ``prefix``."""
    if not isinstance(state, Mapping):
        raise InvalidError(f"expected a dict, found a {type(state).__name__}")
    flat = FlatState(None, prefix)
    flat.tree = _node(state, (), flat, 0)
    return flat


def _file(way: tuple[str, ...]) -> str:
    if len(way) < 2:
        return TOP_FILE
    return re.sub(r"[^A-Za-z0-9_-]", "_", way[0])[:100] + ".safetensors"


def _node(value: Any, way: tuple[str, ...], flat: FlatState, depth: int) -> Any:
    if depth > _DEPTH_MAX:
        raise InvalidError(f"{'.'.join(way[:4])}...: more than {_DEPTH_MAX} levels")
    if is_torch(value) or is_numpy(value):
        return _tensor_node(value, way, flat)
    found = _scalar_node(value)
    if found is not None:
        return found
    if isinstance(value, Mapping):
        return _dict_node(value, way, flat, depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        ordered = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        items = [_node(item, (*way, str(i)), flat, depth + 1) for i, item in enumerate(ordered)]
        return {_sequence_kind(value): items}
    raise InvalidError(
        f"{'.'.join(way) or 'the state'}: a {type(value).__name__} cannot be saved without "
        "pickle; turn it into tensors and plain values (state_dict())"
    )


def _tensor_node(value: Any, way: tuple[str, ...], flat: FlatState) -> dict[str, Any]:
    if why := _refusal(value):
        raise InvalidError(f"{'.'.join(way)}: {why}")
    file, name = flat.prefix + _file(way), ".".join(way[1:] if len(way) > 1 else way)
    # Any text can be a key, but only what UTF-8 can tell can be a name.
    name = name.encode("utf-8", "backslashreplace").decode()
    tensors = flat.files.setdefault(file, {})
    while name in tensors or name == "__metadata__":
        name += "'"
    tensors[name] = value
    node = {"t": "torch" if is_torch(value) else "numpy", "file": file, "name": name}
    if is_torch(value):
        if isinstance(value, sys.modules["torch"].nn.Parameter):
            node["is"] = "parameter" if value.requires_grad else "frozen"
        elif value.requires_grad and value.is_leaf:
            node["is"] = "leaf"
    return node


def _refusal(value: Any) -> str | None:
    """Why a tensor or an array cannot be saved, if so."""
    if is_torch(value):
        from ..safetensors.torch import refusal as torch_refusal

        return torch_refusal(value)
    from ..safetensors.numpy import refusal as numpy_refusal

    return numpy_refusal(value)


def _scalar_node(value: Any) -> dict[str, Any] | None:
    """A value without parts; nothing for any other."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if value is None or isinstance(value, bool):
        return {"v": value}
    if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in "biufc":
        return {"n": [value.dtype.str, value.tobytes().hex()]}
    if isinstance(value, int):
        plain = int(value)
        return {"v": plain} if plain.bit_length() <= _DECIMAL_BITS_MAX else {"i": hex(plain)}
    if isinstance(value, str):
        return {"v": str.__str__(value)}
    if isinstance(value, float):
        return {"f": _float_text(value)}
    if isinstance(value, complex):
        return {"c": [_float_text(value.real), _float_text(value.imag)]}
    if isinstance(value, (bytes, bytearray)):
        return {"b" if isinstance(value, bytes) else "ba": bytes(value).hex()}
    if torch is not None and isinstance(value, (torch.dtype, torch.device)):
        kind = "dtype" if isinstance(value, torch.dtype) else "device"
        return {kind: str(value).removeprefix("torch.")}
    return None


def _float_text(value: float) -> str:
    # JSON has no infinities, and a float must come back as it was.
    return float(value).hex() if math.isfinite(value) else repr(float(value))


def _sequence_kind(value: Any) -> str:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Size):
        return "size"
    kinds = ((list, "l"), (tuple, "u"), (set, "s"), (frozenset, "fs"))
    return next(kind for plain, kind in kinds if isinstance(value, plain))


def _dict_node(value: Mapping[Any, Any], way: tuple[str, ...], flat: FlatState, depth: int) -> Any:
    items = [
        [_key(key, way), _node(item, (*way, str(key)), flat, depth + 1)]
        for key, item in value.items()
    ]
    if isinstance(value, Counter):
        return {"counter": items}
    if isinstance(value, defaultdict):
        factory = value.default_factory
        name = None if factory is None else getattr(factory, "__name__", "")
        if name is not None and _FACTORIES.get(name) is not factory:
            raise InvalidError(
                f"{'.'.join(way)}: a defaultdict whose values are made by {factory!r} cannot be "
                "saved without pickle; turn it into a dict"
            )
        return {"dd": [name, items]}
    if isinstance(value, OrderedDict):
        # The versions of modules, which torch attaches to what state_dict() returns.
        versions = getattr(value, "_metadata", None)
        if not isinstance(versions, Mapping):
            return {"od": [items, None]}
        return {"od": [items, _node(versions, (*way, "_metadata"), flat, depth + 1)]}
    return {"d": items}


def _key(key: Any, way: tuple[str, ...]) -> Any:
    if key is None or isinstance(key, bool):
        return key
    if isinstance(key, int):
        return int(key)
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, float):
        return {"f": _float_text(key)}
    if isinstance(key, tuple):
        return {"u": [_key(item, way) for item in key]}
    raise InvalidError(f"{'.'.join(way)}: a key that is a {type(key).__name__} cannot be saved")


@dataclass(frozen=True)
class _TensorRef:
    """Which tensor of which file is in a place of the tree."""

    kind: str
    file: str
    name: str
    role: str


def unflatten(text: bytes, tensor: Tensor) -> Any:
    """The state of ``state.json``, with what ``tensor`` gives."""
    if len(text) > STATE_LEN_MAX:
        raise LimitError(f"{STATE_FILE} has {len(text)} bytes, more than {STATE_LEN_MAX}")
    try:
        state = json.loads(text)
        if state["format"] != FORMAT:
            found = state["format"]
            raise UnsupportedError(f"the state has format {found}, this lmckpt knows {FORMAT}")
        tree = _value(state["tree"], 0)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptError(f"{STATE_FILE} cannot be read: {error!r}"[:300]) from None
    except RecursionError:
        raise CorruptError(f"{STATE_FILE} is too deep") from None
    return _filled(tree, tensor, ())


def _filled(value: Any, tensor: Tensor, way: tuple[str, ...]) -> Any:
    """The same with tensors in their places."""
    if isinstance(value, _TensorRef):
        return _with_role(tensor(value.kind, value.file, value.name, way), value.role)
    if isinstance(value, dict):
        for key, item in value.items():
            value[key] = _filled(item, tensor, (*way, str(key)))
        return value
    if type(value) in (list, tuple, set, frozenset):
        items = [_filled(item, tensor, (*way, str(i))) for i, item in enumerate(value)]
        try:
            return type(value)(items)
        except TypeError:
            # Arrays cannot be in sets, which is known only now that there are arrays.
            raise CorruptError(f"{STATE_FILE} has a set of arrays, which is impossible") from None
    return value


def _with_role(found: Any, role: str) -> Any:
    if not role or not is_torch(found):
        return found
    import torch

    # Integers have no gradients.
    has_gradient = found.is_floating_point() or found.is_complex()
    if role == "leaf":
        return found.requires_grad_(has_gradient)
    return torch.nn.Parameter(found, requires_grad=role == "parameter" and has_gradient)


def _value(node: Any, depth: int) -> Any:
    if depth > 2 * _DEPTH_MAX:
        raise CorruptError(f"{STATE_FILE} is too deep")
    if "t" in node:
        ref = _TensorRef(node["t"], node["file"], node["name"], node.get("is", ""))
        is_known = ref.kind in ("torch", "numpy")
        is_known &= ref.role in ("", "parameter", "frozen", "leaf")
        if not is_known or not isinstance(ref.file, str) or not isinstance(ref.name, str):
            raise CorruptError(f"{STATE_FILE} has an entry that is not a tensor: {node!r}"[:300])
        return ref
    ((kind, value),) = node.items()
    if kind in _SCALARS:
        return _SCALARS[kind](value)
    if kind in _SEQUENCES:
        return _SEQUENCES[kind]([_value(item, depth + 1) for item in value])
    if kind == "d":
        return dict(_pairs(value, depth))
    if kind == "counter":
        return Counter(dict(_pairs(value, depth)))
    if kind == "dd":
        name, items = value
        return defaultdict(None if name is None else _FACTORIES[name], _pairs(items, depth))
    if kind == "od":
        items, versions = value
        made: OrderedDict[Any, Any] = OrderedDict(_pairs(items, depth))
        if versions is not None:
            made._metadata = _value(versions, depth + 1)  # type: ignore[attr-defined]
        return made
    raise CorruptError(f"{STATE_FILE} has an unknown kind {kind!r}"[:300])


def _pairs(items: Any, depth: int) -> list[tuple[Any, Any]]:
    return [(_unkey(key, 0), _value(item, depth + 1)) for key, item in items]


def _unkey(key: Any, depth: int) -> Any:
    if depth > _DEPTH_MAX:
        raise CorruptError(f"{STATE_FILE} is too deep")
    if not isinstance(key, dict):
        return key
    if "f" in key:
        return float.fromhex(key["f"])
    return tuple(_unkey(item, depth + 1) for item in key["u"])


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise ValueError(f"{value!r} is not a plain value"[:300])


def _complex(value: Any) -> complex:
    real, imaginary = value
    return complex(float.fromhex(real), float.fromhex(imaginary))


def _numpy_scalar(value: Any) -> Any:
    numpy = needed("numpy")
    name, digits = value
    # numpy reads more out of a name than a type of numbers: fields, shapes, Python code.
    if not _NUMBERS.fullmatch(name):
        raise ValueError(f"{name!r} is not a type of numbers"[:100])
    (found,) = numpy.frombuffer(bytes.fromhex(digits), numpy.dtype(name))
    return found


def _dtype(name: Any) -> Any:
    needed("torch")
    from ..safetensors.dtypes import torch_dtype

    found = torch_dtype(name)
    if found is None:
        raise ValueError(f"torch has no type {name!r}"[:100])
    return found


def _device(name: Any) -> Any:
    torch = needed("torch")
    try:
        return torch.device(str(name))
    except RuntimeError as error:
        raise ValueError(str(error).partition("\n")[0]) from None


def _size(items: list[Any]) -> Any:
    return needed("torch").Size(items)


# What is made of the value of a node, by its kind.
_SCALARS: dict[str, Callable[[Any], Any]] = {
    "v": _plain,
    "i": lambda value: int(value, 16),
    "f": float.fromhex,
    "c": _complex,
    "b": bytes.fromhex,
    "ba": bytearray.fromhex,
    "n": _numpy_scalar,
    "dtype": _dtype,
    "device": _device,
}
# The same for what has parts, which have been made.
_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {
    "l": list,
    "u": tuple,
    "s": set,
    "fs": frozenset,
    "size": _size,
}
