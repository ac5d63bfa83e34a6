"""Lightning checkpoints in a store: ``Trainer(plugins=[StoreCheckpointIO("store")])``.

At the path that Lightning names, a small pointer file is left, as its callbacks look for one. The
checkpoint is a snapshot of the run, with the step of the trainer. Nothing is pickled.
"""

from __future__ import annotations

from .integrations.lightning import StoreCheckpointIO, load_checkpoint

__all__ = ["StoreCheckpointIO", "load_checkpoint"]
