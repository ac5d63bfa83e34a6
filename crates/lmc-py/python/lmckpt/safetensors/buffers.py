"""Objects with memory as plain bytes, without a copy."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import InvalidError, UnsupportedError


def needed(name: str) -> Any:
    """A package that a file needs, torch or numpy."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UnsupportedError(f"this needs {name}, which is not installed") from None


def is_torch(value: object) -> bool:
    """Whether this is a tensor of torch, which is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_numpy(value: object) -> bool:
    """Whether this is an array of numpy, which is not imported to find out."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_masked(value: object) -> bool:
    """Whether this is an array of numpy with a mask, which would be lost."""
    return is_numpy(value) and isinstance(value, sys.modules["numpy"].ma.MaskedArray)


def is_dense(tensor: Any) -> bool:
    """Whether a tensor of torch is a plain array of values, on any device."""
    import torch

    return not tensor.is_nested and tensor.layout == torch.strided and not tensor.is_quantized


def view(data: Any, *, writable: bool = False) -> memoryview:
    """The bytes of a buffer, an array or a tensor on the CPU."""
    if is_torch(data):
        data = torch_bytes(data)
    elif is_numpy(data):
        data = numpy_bytes(data)
    try:
        buffer = memoryview(data)
    except TypeError:
        raise InvalidError(f"{type(data).__name__} is not a buffer, an array or a tensor") from None
    if not buffer.c_contiguous:
        raise InvalidError("a buffer must be contiguous; copy it first")
    if writable and buffer.readonly:
        raise InvalidError("a buffer to write to is read-only")
    return buffer.cast("B") if buffer.nbytes else memoryview(bytearray())


def check_target(target: Any, name: str) -> None:
    """Fails unless values can be written into a tensor or an array."""
    if is_numpy(target):
        is_fit = target.flags.writeable and 0 not in _steps(target.strides, target.shape)
    else:
        import torch

        is_fit = is_dense(target) and target.device.type != "meta"
        is_fit = is_fit and 0 not in _steps(target.stride(), target.shape)
        is_fit = is_fit and (not target.is_inference() or torch.is_inference_mode_enabled())
    if not is_fit:
        raise InvalidError(f"{name} cannot be written to: it is read-only, expanded or not dense")


def _steps(strides: Iterable[int], shape: Sequence[int]) -> list[int]:
    """How far values of a tensor are apart; nothing if it is empty, whatever its strides are."""
    if 0 in shape:
        return []
    return [step for step, count in zip(strides, shape, strict=True) if count > 1]


def torch_bytes(tensor: Any) -> Any:
    """The bytes of a contiguous tensor on the CPU, as an array that shares them."""
    import torch

    if tensor.device.type != "cpu":
        raise InvalidError(f"a tensor on {tensor.device} has no memory here; copy it to the CPU")
    if not is_dense(tensor):
        raise InvalidError("sparse, nested and quantized tensors have no plain memory")
    if not tensor.is_contiguous():
        raise InvalidError("a tensor must be contiguous; copy it first")
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        raise InvalidError("a conjugated or negated view has no memory of its own; copy it first")
    # A single value counts as contiguous whatever its stride is, and has no bytes then.
    flat = tensor.as_strided((1,), (1,)) if tensor.numel() == 1 else tensor.reshape(-1)
    return flat.view(torch.uint8).numpy()


def numpy_bytes(array: Any) -> Any:
    """The bytes of a contiguous array, as an array that shares them."""
    import numpy

    if is_masked(array):
        raise InvalidError("a masked array is two arrays; save its data and its mask")
    if array.dtype.hasobject:
        raise InvalidError("an array of objects has no bytes of its own")
    if not array.flags.c_contiguous:
        raise InvalidError("an array must be contiguous; copy it first")
    return array.reshape(-1).view(numpy.uint8)
