"""Tensors of torch as safetensors files; ``lmckpt.torch`` has what users need of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .. import _lmckpt
from .._documented import documented_as
from ..errors import CorruptError, InvalidError, LimitError
from ..files import Level, Path, path_text
from .buffers import is_dense, is_numpy, view
from .dtypes import BITS, PACKED, torch_dtypes
from .header import Entry, FileInMemory, build, in_file_order, metadata_of
from .open import is_lmc, load_safetensors, open_archive, tensors_of

_DTYPES = torch_dtypes()
# The key of the metadata that names the types that safetensors does not know.
TYPES_KEY = "lmckpt.types"


def refusal(tensor: Any) -> str | None:
    """Why this cannot be saved as a tensor, if so."""
    if not isinstance(tensor, torch.Tensor):
        return f"a {type(tensor).__name__} is not a tensor"
    if torch.nn.parameter.is_lazy(tensor):
        return "a parameter of a lazy module has no values yet; run the module once first"
    if not is_dense(tensor):
        return "sparse, nested and quantized tensors cannot be saved; make them dense first"
    if tensor.device.type == "meta":
        return "a tensor on the device meta has no values to save"
    if is_traceable_wrapper_subclass(tensor):
        kind = type(tensor).__name__
        return f"a {kind} is made of other tensors; save those, or its full_tensor()"
    if tensor.dtype in _DTYPES.packed and not tensor.shape:
        return "a scalar cannot hold two values in a byte"
    if tensor.dtype not in _DTYPES.name_of and tensor.dtype not in _DTYPES.words_of:
        return f"tensors of {tensor.dtype} cannot be saved"
    return None


def plain(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with plain memory on the CPU: itself if it has, otherwise a copy."""
    if why := refusal(tensor):
        raise InvalidError(f"{name}: {why}")
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()


def _entry(name: str, tensor: torch.Tensor, others: dict[str, str]) -> Entry:
    shape, dtype = tuple(tensor.shape), tensor.dtype
    size = tensor.numel() * tensor.element_size()
    if dtype in _DTYPES.packed:
        return Entry(name, _DTYPES.name_of[dtype], (*shape[:-1], shape[-1] * 2), size)
    if dtype in _DTYPES.name_of:
        return Entry(name, _DTYPES.name_of[dtype], shape, size)
    others[name] = str(dtype).removeprefix("torch.")
    words = dtype.itemsize * 8 // BITS[_DTYPES.words_of[dtype]]
    return Entry(name, _DTYPES.words_of[dtype], (*shape, words) if words > 1 else shape, size)


def lay_out(
    tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None, *, arrays: bool = False
) -> FileInMemory:
    """The safetensors file of tensors; with ``arrays``, some may be arrays."""
    if not isinstance(tensors, Mapping):
        raise InvalidError(f"expected a dict of tensors, found a {type(tensors).__name__}")
    held: dict[str, Any] = {}
    entries: list[Entry] = []
    others: dict[str, str] = {}
    for name, tensor in tensors.items():
        if arrays and is_numpy(tensor):
            from .numpy import plain_array

            entry, held[name] = plain_array(name, tensor)
        else:
            held[name] = plain(name, tensor)
            entry = _entry(name, held[name], others)
        entries.append(entry)
    if others:
        metadata = {**(metadata or {}), TYPES_KEY: json.dumps(others, sort_keys=True)}
    order = in_file_order(entries)
    return FileInMemory(build(order, metadata), order, held)


def serialize(
    tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None, *, arrays: bool = False
) -> list[Any]:
    """A safetensors file as parts: the header, and the memory of each tensor.

    With ``arrays``, some may be arrays.
    """
    return lay_out(tensors, metadata, arrays=arrays).parts()


def shape_and_type(
    dtype: str, shape: list[int], other: str | None = None
) -> tuple[list[int], torch.dtype]:
    """What torch calls the shape and the type that safetensors describes like this."""
    if other is not None:
        found = _DTYPES.torch_only.get(other)
        if found is None:
            raise InvalidError(f"this torch has no type {other}")
        words = found.itemsize * 8 // BITS[dtype]
        if _DTYPES.words_of[found] != dtype or (words > 1 and shape[-1:] != [words]):
            raise CorruptError(f"values of {dtype} and shape {shape} are not {other}")
        return shape[:-1] if words > 1 else shape, found
    if dtype not in _DTYPES.type_of:
        raise InvalidError(f"this torch has no type for {dtype}")
    if dtype in PACKED:
        if not shape or shape[-1] % 2:
            raise InvalidError("a tensor of 4-bit values needs an even last dimension")
        shape = [*shape[:-1], shape[-1] // 2]
    return shape, _DTYPES.type_of[dtype]


def empty(dtype: str, shape: list[int], other: str | None = None) -> torch.Tensor:
    """A tensor for values that safetensors describes like this."""
    return new_tensor(*shape_and_type(dtype, shape, other))


def check_device(device: Any) -> None:
    """Fails if this does not name a device; whether it exists is found out when it is used."""
    try:
        torch.device(device)
    except (RuntimeError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise InvalidError(f"{device!r} is not a device: {why}") from None


def new_tensor(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor with arbitrary values."""
    try:
        return torch.empty(shape, dtype=dtype)
    except (MemoryError, OverflowError, RuntimeError, TypeError) as error:
        # The first line says it; C++ adds many more.
        why = str(error).partition("\n")[0]
        raise LimitError(f"torch cannot hold a tensor of {shape} values: {why}") from None


def other_types(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """The types of tensors that safetensors does not know, as the metadata names them."""
    try:
        found = json.loads((metadata or {}).get(TYPES_KEY, "{}"))
        return {str(name): str(dtype) for name, dtype in found.items()}
    except (AttributeError, RecursionError, ValueError) as error:
        raise CorruptError(f"{TYPES_KEY} in the metadata cannot be read: {error}") from None


def types_in(archive: _lmckpt.Archive, header: bytearray) -> dict[str, str]:
    """The same for an archive, whose header is read into ``header``."""
    archive.read_into(0, header, threads=1)
    return other_types(metadata_of(bytes(header)))


@documented_as("lmckpt.torch")
def save(
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str] | None = None,
    *,
    level: Level = "default",
    threads: int = 0,
    verify: bool = True,
) -> bytes:
    """Saves tensors to the bytes of a .lmc file."""
    return _lmckpt.compress(
        serialize(tensors, metadata), level=level, threads=threads, verify=verify
    )


@documented_as("lmckpt.torch")
def save_file(
    tensors: Mapping[str, torch.Tensor],
    filename: Path,
    metadata: Mapping[str, str] | None = None,
    *,
    level: Level = "default",
    threads: int = 0,
    base: Path | None = None,
) -> None:
    """Saves tensors to a .lmc file, which appears whole or not at all.

    ``base`` is an earlier file to code against; it is needed to load this one, and is looked for
    beside it.
    """
    _lmckpt.save_parts(
        serialize(tensors, metadata),
        path_text(filename),
        level=level,
        threads=threads,
        bases=[] if base is None else [path_text(base)],
    )


def load_archive(
    archive: _lmckpt.Archive, device: str | int | torch.device = "cpu", threads: int = 0
) -> dict[str, torch.Tensor]:
    """All tensors of an archive, each with memory of its own."""
    check_device(device)
    described, header = tensors_of(archive)
    others = types_in(archive, header)
    tensors = {
        name: empty(dtype, shape, others.get(name)) for name, dtype, shape, _, _ in described
    }
    places = [view(tensors[name], writable=True) for name, *_ in described]
    archive.scatter([header, *places], threads=threads)
    if str(device) != "cpu":
        return {name: tensor.to(device=device) for name, tensor in tensors.items()}
    return tensors


@documented_as("lmckpt.torch")
def load_file(
    filename: Path,
    device: str | int | torch.device = "cpu",
    *,
    threads: int = 0,
    max_size: int | None = None,
) -> dict[str, torch.Tensor]:
    """Loads all tensors of a .lmc file, or of a safetensors file if safetensors is installed.

    A .lmc file with an original of more than ``max_size`` bytes is refused.
    """
    if not is_lmc(filename):
        return load_safetensors(lambda: _load_by_safetensors(filename, str(device)))
    return load_archive(open_archive(filename, max_size=max_size), device, threads)


def _load_by_safetensors(filename: Path, device: str) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file as load

    return load(filename, device=device)


@documented_as("lmckpt.torch")
def load(data: Any, *, threads: int = 0, max_size: int | None = None) -> dict[str, torch.Tensor]:
    """Loads all tensors from the bytes of a .lmc file; refuses more than ``max_size`` bytes."""
    return load_archive(_lmckpt.Archive(view(data), max_size=max_size), threads=threads)
