"""The functions of ``safetensors.numpy`` for .lmc files: change the import, and that is all."""

from __future__ import annotations

from .safetensors.numpy import load, load_file, save, save_file

__all__ = ["load", "load_file", "save", "save_file"]
