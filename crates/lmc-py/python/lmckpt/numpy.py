"""The functions of ``safetensors.numpy`` for .lmc files: change the import, and that is all."""

from __future__ import annotations

from .safetensors.numpy import load, load_file, save, save_file

<<<<<<< HEAD
__all__ = ["load", "load_file", "save", "save_file"]
=======
import numpy

from . import _header, _lmckpt
from ._buffers import is_masked, view
from ._open import is_plain, load_plain, open_archive, tensors_of
from .errors import InvalidError, LimitError
from .files import Level, Path, path_text

Array = numpy.ndarray[Any, Any]

_NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "uint16": "U16",
    "float16": "F16", "int32": "I32", "uint32": "U32", "float32": "F32", "complex64": "C64",
    "float64": "F64", "int64": "I64", "uint64": "U64",
    # Of the package ml_dtypes, which numpy knows once it is imported.
    "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
}  # fmt: skip
_TYPES = {name: key for key, name in _NAMES.items()}


def dtype_of(name: str) -> numpy.dtype[Any]:
    """The type of numpy that safetensors calls ``name``."""
    if name not in _TYPES:
        raise InvalidError(f"numpy has no type for {name}")
    try:
        return numpy.dtype(_TYPES[name])
    except TypeError:
        raise InvalidError(
            f"numpy has no {_TYPES[name]}; install and import ml_dtypes, or use lmckpt.torch"
        ) from None


def empty(dtype: str, shape: list[int]) -> Array:
    """An array for values that safetensors describes like this."""
    return new_array(shape, dtype_of(dtype))


def new_array(shape: Sequence[int], dtype: numpy.dtype[Any]) -> Array:
    """An array whose values mean nothing yet."""
    try:
        return numpy.empty(shape, dtype)
    except (MemoryError, ValueError) as error:
        raise LimitError(f"numpy cannot hold an array of {shape} values: {error}") from None


def refusal(array: Any) -> str | None:
    """Why this cannot be saved as an array, if so."""
    if not isinstance(array, numpy.ndarray):
        return f"a {type(array).__name__} is not an array"
    if is_masked(array):
        return "a masked array is two; save its data and its mask"
    if array.dtype.name not in _NAMES:
        return f"arrays of {array.dtype} cannot be saved; turn them into numbers"
    return None


def plain(name: str, array: Array) -> tuple[_header.Entry, Array]:
    """An array as it stands in a file: little-endian, one row behind the other."""
    if why := refusal(array):
        raise InvalidError(f"{name}: {why}")
    shape = tuple(array.shape)
    array = numpy.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return _header.Entry(name, _NAMES[array.dtype.name], shape, array.nbytes), array


def lay_out(
    tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> _header.Layout:
    """The safetensors file of arrays."""
    if not isinstance(tensors, Mapping):
        raise InvalidError(f"expected a dict of arrays, found a {type(tensors).__name__}")
    held = {name: plain(name, array) for name, array in tensors.items()}
    order = _header.layout(entry for entry, _ in held.values())
    arrays = {name: array for name, (_, array) in held.items()}
    return _header.Layout(_header.build(order, metadata), order, arrays)


def serialize(tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> list[Any]:
    """A safetensors file as parts: the header, and the memory of each array."""
    return lay_out(tensors, metadata).parts()


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


def load_file(filename: Path, *, threads: int = 0, max_size: int | None = None) -> dict[str, Array]:
    """Loads all arrays of a .lmc file, or of a safetensors file if safetensors is installed.

    A .lmc file with an original of more than ``max_size`` bytes is refused.
    """
    if is_plain(filename):
        return load_plain(lambda: _load_safetensors(filename))
    return load_archive(open_archive(filename, max_size=max_size), threads)


def _load_safetensors(filename: Path) -> dict[str, Array]:
    from safetensors.numpy import load_file as load

    return load(filename)


def load(data: Any, *, threads: int = 0, max_size: int | None = None) -> dict[str, Array]:
    """Loads all arrays from the bytes of a .lmc file; refuses more than ``max_size`` bytes."""
    return load_archive(_lmckpt.Archive(view(data), max_size=max_size), threads)
>>>>>>> house-errors
