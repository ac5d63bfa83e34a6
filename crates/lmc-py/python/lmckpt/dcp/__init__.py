"""torch.distributed.checkpoint in a store: ``dcp.save(state, storage_writer=StoreWriter(...))``.

Every rank stores what it holds, one commits. What did not change since the snapshot before is
referred to, what did is a delta, by name and region, also if the number of ranks is another one.
Nothing that is read is unpickled.
"""

from __future__ import annotations

from .reader import StoreReader
from .writer import StoreWriter

__all__ = ["StoreReader", "StoreWriter"]
