"""Stores: ``store.py`` is what users see, the other modules are how it works.

``native.py`` is what other parts of lmckpt may use of a store beyond its public methods.
"""

from __future__ import annotations

from .store import Store

__all__ = ["Store"]
