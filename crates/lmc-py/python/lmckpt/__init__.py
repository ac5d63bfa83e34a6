"""Lossless compression and incremental snapshots of training checkpoints.

``compress`` and ``decompress`` work on any buffer, ``compress_file`` and ``decompress_file`` on
files. ``lmckpt.torch`` and ``lmckpt.numpy`` have the functions of safetensors, ``safe_open`` reads
single tensors. A ``Store`` keeps the history of a run. ``delta`` and ``apply`` send new weights to
those who have the old ones.
"""

from __future__ import annotations

from ._lmckpt import Snapshot, __version__
from .delta import apply, delta
from .errors import (
    ConflictError,
    CorruptError,
    ExistsError,
    InvalidError,
    LimitError,
    LmcError,
    NoStoreError,
    NotFoundError,
    StoppedError,
    StorageError,
    TruncatedError,
    UnsupportedError,
)
from .files import compress, compress_file, decompress, decompress_file
from .safetensors.open import safe_open
from .store.store import Store

__all__ = [
    "ConflictError",
    "CorruptError",
    "ExistsError",
    "InvalidError",
    "LimitError",
    "LmcError",
    "NoStoreError",
    "NotFoundError",
    "Snapshot",
    "StoppedError",
    "StorageError",
    "Store",
    "TruncatedError",
    "UnsupportedError",
    "__version__",
    "apply",
    "compress",
    "compress_file",
    "decompress",
    "decompress_file",
    "delta",
    "safe_open",
]
