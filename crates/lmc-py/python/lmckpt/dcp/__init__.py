"""torch.distributed.checkpoint in a store: ``dcp.save(state, storage_writer=StoreWriter(...))``.

Every rank stores what it holds, and one commits. What has not changed since the previous snapshot
is referred to. What has changed is stored as a delta, by name and region, even if the number of
ranks is different.
Nothing that is read is unpickled.
"""

from __future__ import annotations

from .reader import StoreReader
from .writer import StoreWriter

__all__ = ["StoreReader", "StoreWriter"]
