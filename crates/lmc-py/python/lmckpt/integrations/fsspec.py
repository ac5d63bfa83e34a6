"""The files of snapshots for everything that reads through fsspec; they cannot be changed.

``lmc://STORE!/SNAPSHOT/PATH`` names a file, where SNAPSHOT is ``latest``, ``RUN@STEP``,
``RUN@latest`` or an id. ``lmc://SNAPSHOT/PATH`` does so with
``storage_options={"store": STORE}``.
"""

from __future__ import annotations

import datetime
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar
from urllib.parse import unquote

import fsspec
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from .._documented import documented_as
from .._lmckpt import Archive, Snapshot
from ..errors import InvalidError, NotFoundError
from ..files import Path
from ..store.native import native_of
from ..store.store import Store, as_store

_PROTOCOL = "lmc://"
_MARK = "!/"
_SNAPSHOTS_MAX = 16
_ARCHIVES_MAX = 8
_REFUSAL = "snapshots cannot be changed; save a new one with lmckpt.Store or lmc save"

_K = TypeVar("_K")
_V = TypeVar("_V")


class _Recent(Generic[_K, _V]):
    """The values that were used last, up to a number of them."""

    def __init__(self, count_max: int) -> None:
        self._count_max, self._lock = count_max, threading.Lock()
        self._values: OrderedDict[_K, _V] = OrderedDict()

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._count_max:
                self._values.popitem(last=False)
        return value


@documented_as("lmckpt.fs")
class LmcFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The snapshots of a store as directories, named by their ids.

    Other names of a snapshot work too, though they are not listed. Symbolic links are left out.
    """

    protocol = "lmc"

    def __init__(self, store: Store | Path | None = None, **options: Any) -> None:
        """``store`` is a Store, or the path or URL of one."""
        super().__init__(**options)
        if store is None:
            raise InvalidError(
                "which store? Write lmc://STORE!/SNAPSHOT/PATH, or storage_options={'store': ...}"
            )
        self._store = as_store(store)
        # What a snapshot holds does not change, so both are right as long as they are kept.
        self._trees: _Recent[str, dict[str, int | None]] = _Recent(_SNAPSHOTS_MAX)
        self._archives: _Recent[tuple[int, str, str], Archive] = _Recent(_ARCHIVES_MAX)

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        store, mark, _ = _split(path)
        return {"store": store} if mark else {}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return _split(os.fspath(path))[2].strip("/")

    def unstrip_protocol(self, name: str) -> str:
        """The whole URL of a path."""
        return f"{_PROTOCOL}{self._store.url}{_MARK}{self._strip_protocol(name)}"

    def _find(self, path: str) -> tuple[Snapshot, str, str]:
        """The snapshot of a path, its name there, and the path in it."""
        plain = self._strip_protocol(path)
        if not isinstance(plain, str):
            raise TypeError(f"a path is text, not a {type(path).__name__}")
        name, _, inner = plain.partition("/")
        try:
            return self._store.get(name), name, inner
        except (NotFoundError, InvalidError):
            # A run whose name has a slash in it can be written with %2F.
            if "%" in name:
                try:
                    return self._store.get(unquote(name)), name, inner
                except (NotFoundError, InvalidError):
                    pass
        raise NotFoundError(f"no snapshot {name!r} in {native_of(self._store).shown}")

    def _tree(self, snapshot: Snapshot) -> dict[str, int | None]:
        """All paths of a snapshot, with the sizes of files; directories have none."""

        def read() -> dict[str, int | None]:
            tree: dict[str, int | None] = {"": None}
            for path, kind, size, _ in native_of(self._store).contents(snapshot).entries():
                if kind == "link":
                    continue
                tree[path] = size if kind == "file" else None
                while path := path.rpartition("/")[0]:
                    tree.setdefault(path, None)
            return tree

        return self._trees.get(snapshot.id, read)

    def _archive(self, snapshot: Snapshot, inner: str) -> Archive:
        # Connections do not survive a fork.
        key = (os.getpid(), snapshot.id, inner)
        return self._archives.get(
            key, lambda: native_of(self._store).contents(snapshot).file(inner)
        )

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """What is at a path."""
        if not self._strip_protocol(path):
            return {"name": "", "size": 0, "type": "directory"}
        snapshot, name, inner = self._find(path)
        tree = self._tree(snapshot)
        if inner not in tree:
            raise NotFoundError(
                f"no {inner!r} in snapshot {name} of {native_of(self._store).shown}"
            )
        return _info(snapshot, name, inner, tree[inner])

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """What is in a directory; the snapshots, at the top."""
        if not self._strip_protocol(path):
            found = [_info(each, each.id, "", None) for each in self._store.snapshots()]
        else:
            found = self._children(path)
        return found if detail else [each["name"] for each in found]

    def _children(self, path: str) -> list[dict[str, Any]]:
        whole = self.info(path)
        if whole["type"] == "file":
            return [whole]
        snapshot, name, inner = self._find(path)
        inside = [
            (each, size)
            for each, size in self._tree(snapshot).items()
            if each and each.rpartition("/")[0] == inner
        ]
        return [_info(snapshot, name, each, size) for each, size in sorted(inside)]

    def ukey(self, path: str) -> str:
        """A text that is different for every content."""
        snapshot, _, inner = self._find(path)
        return f"{snapshot.id}/{inner}"

    def created(self, path: str) -> datetime.datetime:
        """When the snapshot was saved."""
        return _time(self._find(path)[0])

    modified = created

    def _open(self, path: str, mode: str = "rb", **options: Any) -> SnapshotFile:
        if mode != "rb":
            _refuse()
        snapshot, archive = self._file(path)
        options.pop("autocommit", None)
        size = archive.original_len
        return SnapshotFile(self, path, archive, snapshot.id, size=size, **options)

    def _file(self, path: str) -> tuple[Snapshot, Archive]:
        if self.info(path)["type"] == "directory":
            raise IsADirectoryError(f"{path!r} is a directory")
        snapshot, _, inner = self._find(path)
        return snapshot, self._archive(snapshot, inner)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """The bytes of a file, or some of them."""
        archive = self._file(path)[1]
        first, last, _step = slice(start, end).indices(archive.original_len)
        return archive.read(first, max(first, last))

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Refused, like everything that changes something."""
        _refuse()

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Refused, unless the directory already exists and ``exist_ok`` allows that."""
        if not (exist_ok and self.isdir(path)):
            _refuse()

    def rmdir(self, path: str) -> None:
        """Refused."""
        _refuse()

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Refused."""
        _refuse()

    def rm_file(self, path: str) -> None:
        """Refused."""
        _refuse()

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Refused."""
        _refuse()

    def mv(self, path1: Any, path2: Any, *_: Any, **__: Any) -> None:
        """Refused."""
        _refuse()

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        """Refused."""
        _refuse()


@documented_as("lmckpt.fs")
class SnapshotFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of a snapshot, open for reading. It stays the same if ``latest`` moves on."""

    DEFAULT_BLOCK_SIZE = 2**20

    def __init__(
        self, fs: LmcFileSystem, path: str, archive: Archive, snapshot: str, **options: Any
    ) -> None:
        super().__init__(fs, path, mode="rb", **options)
        self._archive, self._snapshot = archive, snapshot

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._archive.read(start, min(end, self.size))

    def __reduce__(self) -> tuple[Any, ...]:
        # By the id: a name may mean another snapshot where it is opened again.
        inner = self.fs._strip_protocol(self.path).partition("/")[2]
        path = f"{self._snapshot}/{inner}"
        return _reopen, (self.fs, path, self.blocksize, self.loc)


def _reopen(fs: LmcFileSystem, path: str, block_size: int, place: int) -> SnapshotFile:
    file: SnapshotFile = fs.open(path, "rb", block_size=block_size)
    if place:
        file.seek(place)
    return file


def _split(path: str) -> tuple[str, str, str]:
    """The store of a URL, whether there is one, and the path in it."""
    if not path.startswith(_PROTOCOL):
        return "", "", path
    rest = path[len(_PROTOCOL) :]
    if rest.endswith("!"):
        rest += "/"
    store, mark, inner = rest.partition(_MARK)
    return (store, mark, inner) if mark else ("", "", rest)


def _time(snapshot: Snapshot) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(snapshot.time_ms / 1000, datetime.UTC)


def _info(snapshot: Snapshot, name: str, inner: str, size: int | None) -> dict[str, Any]:
    info = {
        "name": f"{name}/{inner}" if inner else name,
        "size": size or 0,
        "type": "directory" if size is None else "file",
        "snapshot": snapshot.id,
        "created": _time(snapshot),
    }
    if not inner:
        info.update(run=snapshot.run, step=snapshot.step, tags=snapshot.tags)
    return info


def _refuse() -> NoReturn:
    raise io.UnsupportedOperation(_REFUSAL)


fsspec.register_implementation("lmc", LmcFileSystem, clobber=True)
