"""Lookups in the table of element types, which the native module has."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from .._lmckpt import DTYPES

if TYPE_CHECKING:
    import torch


class Dtype(NamedTuple):
    """An element type that safetensors knows."""

    name: str
    bits: int
    # Its names elsewhere, where it has one.
    numpy: str | None
    torch: str | None


# numpy knows bfloat16 and the floats of 8 bits once ml_dtypes is imported; some types of torch are
# missing in its older versions.
TABLE = tuple(Dtype(*row) for row in DTYPES)
# Types of torch that safetensors does not know, and the type of the words that they are stored as.
# The metadata of a file says which of its tensors have such a type.
_TORCH_ONLY = {"complex32": "U32", "complex128": "F64", "bits8": "U8", "bits16": "U16"}

BITS = {row.name: row.bits for row in TABLE}
# Types whose values do not begin at whole bytes.
PACKED = frozenset(row.name for row in TABLE if row.bits % 8)
NUMPY_NAME = {row.name: row.numpy for row in TABLE if row.numpy is not None}
NAME_OF_NUMPY = {numpy: name for name, numpy in NUMPY_NAME.items()}


class TorchDtypes(NamedTuple):
    """What the torch that is installed has of the table."""

    name_of: dict[torch.dtype, str]
    type_of: dict[str, torch.dtype]
    # Of these safetensors counts values, and torch counts bytes.
    packed: frozenset[torch.dtype]
    # For a type that safetensors does not know, the type of its words.
    words_of: dict[torch.dtype, str]
    torch_only: dict[str, torch.dtype]


@functools.cache
def torch_dtypes() -> TorchDtypes:
    """The part of the table that needs torch, which is imported for it."""
    types = {
        row.name: found
        for row in TABLE
        if row.torch is not None and (found := torch_dtype(row.torch)) is not None
    }
    torch_only = {name: found for name in _TORCH_ONLY if (found := torch_dtype(name)) is not None}
    return TorchDtypes(
        name_of={dtype: name for name, dtype in types.items()},
        type_of=types,
        packed=frozenset(dtype for name, dtype in types.items() if name in PACKED),
        words_of={dtype: _TORCH_ONLY[name] for name, dtype in torch_only.items()},
        torch_only=torch_only,
    )


def torch_dtype(name: str) -> torch.dtype | None:
    """The type that torch calls by this name, which a file may have chosen."""
    import torch

    # Not by getattr, which imports what torch has under other names.
    found = vars(torch).get(name)
    return found if isinstance(found, torch.dtype) else None
