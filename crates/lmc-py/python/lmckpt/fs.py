"""The files of snapshots for everything that reads through fsspec; they cannot be changed.

``lmc://STORE!/SNAPSHOT/PATH`` names a file, where SNAPSHOT is ``latest``, ``RUN@STEP``,
``RUN@latest`` or an id. ``lmc://SNAPSHOT/PATH`` does so with
``storage_options={"store": STORE}``.
"""

from __future__ import annotations

from .integrations.fsspec import LmcFileSystem, SnapshotFile

__all__ = ["LmcFileSystem", "SnapshotFile"]
