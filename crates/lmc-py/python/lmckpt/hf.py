"""Checkpoints of the transformers Trainer in a store.

``Trainer(callbacks=[StoreCallback("store", run="r")])`` saves each ``checkpoint-N`` directory once
the trainer has written it; ``restore_checkpoint`` brings one back, to resume from.
"""

from __future__ import annotations

from .integrations.hf import StoreCallback, restore_checkpoint

__all__ = ["StoreCallback", "restore_checkpoint"]
