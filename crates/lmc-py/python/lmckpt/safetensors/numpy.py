"""Arrays of numpy as safetensors files; ``lmckpt.numpy`` has what users need of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from .. import _lmckpt
from .._documented import documented_as
from ..errors import InvalidError, LimitError
from ..files import Level, Path, path_text
from .buffers import is_masked, view
from .dtypes import NAME_OF_NUMPY, NUMPY_NAME
from .header import Entry, FileInMemory, build, in_file_order
from .open import is_lmc, load_safetensors, open_archive, tensors_of

Array = numpy.ndarray[Any, Any]


def dtype_of(name: str) -> numpy.dtype[Any]:
    """The type of numpy that safetensors calls ``name``."""
    if name not in NUMPY_NAME:
        raise InvalidError(f"numpy has no type for {name}")
    try:
        return numpy.dtype(NUMPY_NAME[name])
    except TypeError:
        raise InvalidError(
            f"numpy has no {NUMPY_NAME[name]}; install and import ml_dtypes, or use lmckpt.torch"
        ) from None


def empty(dtype: str, shape: list[int]) -> Array:
    """An array for values that safetensors describes like this."""
    return new_array(shape, dtype_of(dtype))


def new_array(shape: Sequence[int], dtype: numpy.dtype[Any]) -> Array:
    """An array with arbitrary values."""
    try:
        return numpy.empty(shape, dtype)
    except (MemoryError, ValueError) as error:
        raise LimitError(f"numpy cannot hold an array of {shape} values: {error}") from None


def refusal(array: Any) -> str | None:
    """Why this cannot be saved as an array, if so."""
    if not isinstance(array, numpy.ndarray):
        return f"a {type(array).__name__} is not an array"
    if is_masked(array):
        return "a masked array is two arrays; save its data and its mask"
    if array.dtype.name not in NAME_OF_NUMPY:
        return f"arrays of {array.dtype} cannot be saved; turn them into numbers"
    return None


def plain_array(name: str, array: Array) -> tuple[Entry, Array]:
    """An array as it is in a file: little-endian, row after row."""
    if why := refusal(array):
        raise InvalidError(f"{name}: {why}")
    shape = tuple(array.shape)
    array = numpy.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return Entry(name, NAME_OF_NUMPY[array.dtype.name], shape, array.nbytes), array


def lay_out(
    tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> FileInMemory:
    """The safetensors file of arrays."""
    if not isinstance(tensors, Mapping):
        raise InvalidError(f"expected a dict of arrays, found a {type(tensors).__name__}")
    held = {name: plain_array(name, array) for name, array in tensors.items()}
    order = in_file_order(entry for entry, _ in held.values())
    arrays = {name: array for name, (_, array) in held.items()}
    return FileInMemory(build(order, metadata), order, arrays)


def serialize(tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> list[Any]:
    """A safetensors file as parts: the header, and the memory of each array."""
    return lay_out(tensors, metadata).parts()


@documented_as("lmckpt.numpy")
def save(
    tensor_dict: Mapping[str, Array],
    metadata: Mapping[str, str] | None = None,
    *,
    level: Level = "default",
    threads: int = 0,
    verify: bool = True,
) -> bytes:
    """Saves arrays to the bytes of a .lmc file."""
    return _lmckpt.compress(
        serialize(tensor_dict, metadata), level=level, threads=threads, verify=verify
    )


@documented_as("lmckpt.numpy")
def save_file(
    tensor_dict: Mapping[str, Array],
    filename: Path,
    metadata: Mapping[str, str] | None = None,
    *,
    level: Level = "default",
    threads: int = 0,
    base: Path | None = None,
) -> None:
    """Saves arrays to a .lmc file, which appears whole or not at all."""
    _lmckpt.save_parts(
        serialize(tensor_dict, metadata),
        path_text(filename),
        level=level,
        threads=threads,
        bases=[] if base is None else [path_text(base)],
    )


def load_archive(archive: _lmckpt.Archive, threads: int = 0) -> dict[str, Array]:
    """All arrays of an archive."""
    described, head = tensors_of(archive)
    arrays = {name: empty(dtype, shape) for name, dtype, shape, _, _ in described}
    places = [view(arrays[name], writable=True) for name, *_ in described]
    archive.scatter([head, *places], threads=threads)
    return arrays


@documented_as("lmckpt.numpy")
def load_file(filename: Path, *, threads: int = 0, max_size: int | None = None) -> dict[str, Array]:
    """Loads all arrays of a .lmc file, or of a safetensors file if safetensors is installed.

    A .lmc file with an original of more than ``max_size`` bytes is refused.
    """
    if not is_lmc(filename):
        return load_safetensors(lambda: _load_by_safetensors(filename))
    return load_archive(open_archive(filename, max_size=max_size), threads)


def _load_by_safetensors(filename: Path) -> dict[str, Array]:
    from safetensors.numpy import load_file as load

    return load(filename)


@documented_as("lmckpt.numpy")
def load(data: Any, *, threads: int = 0, max_size: int | None = None) -> dict[str, Array]:
    """Loads all arrays from the bytes of a .lmc file; refuses more than ``max_size`` bytes."""
    return load_archive(_lmckpt.Archive(view(data), max_size=max_size), threads)
