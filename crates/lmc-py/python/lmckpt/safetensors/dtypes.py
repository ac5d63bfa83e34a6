"""The element types: one table, and every lookup derived from it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

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
TABLE = tuple(
    Dtype(*row)
    for row in (
        ("BOOL", 8, "bool", "bool"),
        ("F4", 4, None, "float4_e2m1fn_x2"),
        ("F6_E2M3", 6, None, None),
        ("F6_E3M2", 6, None, None),
        ("U8", 8, "uint8", "uint8"),
        ("I8", 8, "int8", "int8"),
        ("F8_E5M2", 8, "float8_e5m2", "float8_e5m2"),
        ("F8_E4M3", 8, "float8_e4m3fn", "float8_e4m3fn"),
        ("F8_E8M0", 8, "float8_e8m0fnu", "float8_e8m0fnu"),
        ("F8_E4M3FNUZ", 8, "float8_e4m3fnuz", "float8_e4m3fnuz"),
        ("F8_E5M2FNUZ", 8, "float8_e5m2fnuz", "float8_e5m2fnuz"),
        ("I16", 16, "int16", "int16"),
        ("U16", 16, "uint16", "uint16"),
        ("F16", 16, "float16", "float16"),
        ("BF16", 16, "bfloat16", "bfloat16"),
        ("I32", 32, "int32", "int32"),
        ("U32", 32, "uint32", "uint32"),
        ("F32", 32, "float32", "float32"),
        ("C64", 64, "complex64", "complex64"),
        ("F64", 64, "float64", "float64"),
        ("I64", 64, "int64", "int64"),
        ("U64", 64, "uint64", "uint64"),
    )
)
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
