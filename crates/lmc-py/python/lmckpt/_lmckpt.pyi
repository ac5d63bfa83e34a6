"""The native module. Use lmckpt instead."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, TypeAlias, TypedDict, final

__version__: str
# The longest header of a safetensors file, without the bytes of its length.
# Of each element type its name in safetensors, its bits, and its names in numpy and torch.
DTYPES: list[tuple[str, int, str | None, str | None]]
HEADER_JSON_LEN_MAX: int

Buffer: TypeAlias = Any
Path: TypeAlias = str | PathLike[str]

# A path, a buffer or several, and paths of files of the parent that hold what it was.
File: TypeAlias = tuple[str, Buffer | list[Buffer], list[str]]

class NativeSaveOptions(TypedDict):
    run: str
    step: int | None
    tags: list[str]
    meta: dict[str, str]
    parent: str | Snapshot
    level: str
    threads: int
    verify: bool

def compress(
    data: Buffer,
    *,
    level: str = ...,
    threads: int = ...,
    verify: bool = ...,
    bases: Sequence[Path | Buffer] = ...,
    name_bases: bool = ...,
) -> bytes: ...
def compress_into(
    data: Buffer,
    into: Buffer,
    *,
    level: str = ...,
    threads: int = ...,
    verify: bool = ...,
    bases: Sequence[Path | Buffer] = ...,
) -> int: ...
def decompress(
    data: Buffer,
    *,
    into: Buffer | None = ...,
    threads: int = ...,
    bases: Sequence[Path | Buffer] = ...,
    max_size: int | None = ...,
) -> bytes | None: ...
def compress_file(
    source: Path,
    target: Path,
    *,
    level: str = ...,
    threads: int = ...,
    verify: bool = ...,
    bases: Sequence[Path | Buffer] = ...,
    overwrite: bool = ...,
    progress: Callable[[int], object] | None = ...,
) -> tuple[int, int]: ...
def decompress_file(
    source: Path,
    target: Path,
    *,
    threads: int = ...,
    bases: Sequence[Path | Buffer] = ...,
    overwrite: bool = ...,
    max_size: int | None = ...,
    progress: Callable[[int], object] | None = ...,
) -> tuple[int, int]: ...
def save_parts(
    data: Buffer | list[Buffer],
    target: Path,
    *,
    level: str = ...,
    threads: int = ...,
    verify: bool = ...,
    bases: Sequence[Path | Buffer] = ...,
) -> tuple[int, int]: ...
def copy(pairs: Sequence[tuple[Buffer, Buffer]]) -> None: ...
def main(args: Sequence[str]) -> int: ...
def printable(text: str) -> str: ...
def shown(url: str) -> str: ...
def write_file(target: Path, data: bytes) -> None: ...

@final
class Archive:
    def __new__(
        cls,
        source: Path | Buffer,
        *,
        bases: Sequence[Path | Buffer] = ...,
        max_size: int | None = ...,
        threads: int = ...,
    ) -> Archive: ...
    @property
    def original_len(self) -> int: ...
    @property
    def file_len(self) -> int: ...
    @property
    def content_hash(self) -> str: ...
    @property
    def is_safetensors(self) -> bool: ...
    @property
    def format(self) -> str: ...
    def tensors(self) -> list[tuple[str, str, list[int], int, int]]: ...
    def check_named_bases(self) -> None: ...
    def read(self, start: int, end: int, *, threads: int = ...) -> bytes: ...
    def read_into(self, start: int, out: Buffer, *, threads: int = ...) -> None: ...
    def scatter(self, out: Sequence[Buffer], *, threads: int = ...) -> None: ...
    def update(
        self,
        places: Sequence[tuple[Buffer, int | None]],
        agree: Callable[[], None],
        *,
        threads: int = ...,
    ) -> None: ...
    def test(self, *, threads: int = ...) -> None: ...

@final
class Snapshot:
    def __new__(cls, key: str, tags: list[str]) -> Snapshot: ...
    @property
    def id(self) -> str: ...
    @property
    def run(self) -> str: ...
    @property
    def step(self) -> int: ...
    @property
    def time_ms(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def added(self) -> int: ...
    @property
    def tags(self) -> list[str]: ...

@final
class Contents:
    @property
    def snapshot(self) -> Snapshot: ...
    def entries(self) -> list[tuple[str, str, int, str]]: ...
    def meta(self) -> dict[str, str]: ...
    def file(self, path: str) -> Archive: ...

@final
class Store:
    @property
    def url(self) -> str: ...
    @staticmethod
    def open(url: str) -> Store: ...
    @staticmethod
    def init(url: str) -> Store: ...
    def save_path(
        self,
        path: Path,
        save: NativeSaveOptions,
        *,
        progress: Callable[[int], object] | None = ...,
    ) -> Snapshot: ...
    def save_files(
        self,
        files: Sequence[File],
        save: NativeSaveOptions,
        *,
        progress: Callable[[int], object] | None = ...,
    ) -> Snapshot: ...
    def save_part(
        self, files: Sequence[File], save: NativeSaveOptions
    ) -> tuple[str, list[str]]: ...
    def commit_parts(
        self, parts: Sequence[str], files: Sequence[File], save: NativeSaveOptions
    ) -> Snapshot: ...
    def abandon_parts(self, parts: Sequence[str]) -> None: ...
    def newest(self, run: str) -> Snapshot | None: ...
    def snapshots(self, run: str | None = ...) -> list[Snapshot]: ...
    def get(self, text: str) -> Snapshot: ...
    def contents(self, snapshot: str | Snapshot) -> Contents: ...
    def restore(
        self,
        snapshot: str,
        target: Path,
        *,
        only: Sequence[str],
        weights_only: bool,
        overwrite: bool,
        threads: int,
        max_size: int | None,
        progress: Callable[[int], object] | None = ...,
    ) -> tuple[int, int]: ...
    def set_tag(self, snapshot: str, tag: str, is_set: bool) -> None: ...
    def forget(
        self,
        *,
        run: str | None,
        keep_last: int | None,
        keep_every: int | None,
        keep_tags: Sequence[str],
        keep_within_ms: int | None,
        dry_run: bool,
    ) -> tuple[list[Snapshot], list[Snapshot]]: ...
    def prune(
        self, *, grace_ms: int | None, dry_run: bool, allow_empty: bool
    ) -> tuple[int, int, int]: ...
    def check(
        self, *, read_percent: int, threads: int
    ) -> tuple[list[tuple[str, str]], list[tuple[str, str, str]]]: ...
    def stats(self) -> dict[str, int]: ...
    def diff(
        self, old: str, new: str, *, threads: int
    ) -> tuple[list[str], list[str], list[str], list[tuple[str, int, int]]]: ...
