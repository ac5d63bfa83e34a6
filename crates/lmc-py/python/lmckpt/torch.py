"""The functions of ``safetensors.torch`` for .lmc files: only the import changes.

Files that ``save_file`` writes hold a safetensors file; ``lmc decompress`` gives it back, and
``load_file`` reads both. Beyond safetensors, tensors may share memory and need not be contiguous,
and every dense type of torch can be saved.
"""

from __future__ import annotations

from .safetensors.torch import load, load_file, save, save_file

__all__ = ["load", "load_file", "save", "save_file"]
