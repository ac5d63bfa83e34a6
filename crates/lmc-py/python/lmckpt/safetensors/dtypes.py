"""Element types of torch by the names that safetensors has for them."""

from __future__ import annotations

import torch

# Some are missing in older versions of torch.
_NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "uint16": "U16",
    "float16": "F16", "bfloat16": "BF16", "int32": "I32", "uint32": "U32", "float32": "F32",
    "complex64": "C64", "float64": "F64", "int64": "I64", "uint64": "U64",
    "float8_e5m2": "F8_E5M2", "float8_e4m3fn": "F8_E4M3", "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float4_e2m1fn_x2": "F4",
}  # fmt: skip
NAME_OF = {getattr(torch, key): name for key, name in _NAMES.items() if hasattr(torch, key)}
TYPE_OF = {name: dtype for dtype, name in NAME_OF.items()}
# Two values in a byte: safetensors counts values, torch counts bytes.
PACKED = {dtype for dtype, name in NAME_OF.items() if name == "F4"}
# Types that safetensors does not know: kept as words of the same width, and named in the metadata.
_OTHERS = {"complex32": "U32", "complex128": "F64", "bits8": "U8", "bits16": "U16"}
OTHERS = {getattr(torch, key): name for key, name in _OTHERS.items() if hasattr(torch, key)}
OTHER_OF = {str(dtype).removeprefix("torch."): dtype for dtype in OTHERS}


def named(name: str) -> torch.dtype | None:
    """The type that torch calls by this name, which a file may have chosen."""
    # Not by getattr, which imports what torch has under other names.
    found = vars(torch).get(name)
    return found if isinstance(found, torch.dtype) else None
