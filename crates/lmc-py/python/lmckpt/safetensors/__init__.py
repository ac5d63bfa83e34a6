"""Tensors as safetensors files, in memory and in .lmc files.

Users import ``lmckpt.torch``, ``lmckpt.numpy`` and ``lmckpt.safe_open``. This module imports
nothing, so that lmckpt works where neither torch nor numpy is installed.
"""
