"""Single tensors of a file: only the bytes that are needed are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from .. import _lmckpt
from .._documented import documented_as
from ..errors import CorruptError, InvalidError, NotFoundError, StorageError
from ..files import Path, checked_bases, path_text
from .buffers import needed, view
from .dtypes import PACKED
from .header import Described, metadata_of

_MAGIC = b"\x89LMC\r\n\x1a\n"
# Tensors up to this length are coded together, so they are read together.
_SMALL_LEN = 1 << 16
_RUN_LEN = 1 << 22


def open_archive(
    filename: Path, bases: Sequence[Any] = (), max_size: int | None = None
) -> _lmckpt.Archive:
    """Opens a .lmc file; refuses an original of more than ``max_size`` bytes."""
    return _lmckpt.Archive(path_text(filename), bases=checked_bases(bases), max_size=max_size)


def tensors_of(archive: _lmckpt.Archive) -> tuple[list[Described], bytearray]:
    """What tensors an archive holds, and memory for the header before them."""
    described = archive.tensors()
    if not archive.is_safetensors:
        is_readable = bool(described) and archive.format != "safetensors"
        what = "; safe_open reads its tensors" if is_readable else ""
        raise InvalidError(f"the original of the file is not a safetensors file{what}")
    return described, bytearray(described[0][3] if described else archive.original_len)


def is_lmc(filename: Path) -> bool:
    """Whether a file begins as .lmc files do; safetensors may know what another one is."""
    try:
        with open(path_text(filename), "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        # What Python says of it repeats the name, which may be a URL with a password in it.
        message = f"{_lmckpt.shown(path_text(filename))}: cannot open it: {error.strerror}"
        is_missing = isinstance(error, FileNotFoundError)
        raise (NotFoundError if is_missing else StorageError)(message) from None


def load_safetensors(load: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What ``load`` reads by safetensors, with its errors as ours."""
    try:
        from safetensors import SafetensorError
    except ImportError:
        message = "the file is not a .lmc file; safetensors, which may know it, is not installed"
        raise InvalidError(message) from None
    try:
        return load()
    except SafetensorError as error:
        raise CorruptError(f"neither a .lmc file nor a safetensors file: {error}") from None
    except OSError as error:
        raise StorageError(str(error)) from None
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidError(f"safetensors cannot load the file: {error}") from None


def small_runs(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, list[int]]]:
    """Ranges of a file that hold several small tensors: start, end, and the start of each.

    ``places`` are starts and ends of tensors in the order of the file.
    """
    start = end = 0
    small: list[int] = []
    # An empty tensor begins where the next one does.
    filled = (place for place in places if place[0] < place[1])
    for low, high in [*filled, (1 << 62, 1 << 62)]:
        is_next = high - low <= _SMALL_LEN and low - end <= _SMALL_LEN
        if not is_next or high - start > _RUN_LEN:
            if len(small) > 1:
                yield start, end, small
            small, start = [], low
        if high - low <= _SMALL_LEN:
            small.append(low)
        end = high


class _Ahead:
    """Small tensors of a file, all of which will be asked for one by one: each run is read once."""

    def __init__(self, archive: _lmckpt.Archive, places: Iterable[tuple[int, int]]) -> None:
        self._archive = archive
        self._runs: dict[int, _Run] = {}
        for low, high, starts in small_runs(sorted(places)):
            self._runs |= dict.fromkeys(starts, _Run(low, high - low, len(starts)))

    def read(self, start: int, out: memoryview, threads: int) -> bool:
        """Fills ``out`` from a run; false if it is in none."""
        run = self._runs.get(start)
        if run is None or not len(out):
            return False
        if run.data is None:
            run.data = bytearray(run.size)
            self._archive.read_into(run.start, run.data, threads=threads)
        out[:] = memoryview(run.data)[start - run.start : start - run.start + len(out)]
        run.left -= 1
        if not run.left:
            run.data, run.left = None, 1
        return True


@dataclass
class _Run:
    """Tensors that follow one another in a file."""

    start: int
    size: int
    # How many have not been asked for.
    left: int
    data: bytearray | None = None


def _described(archive: _lmckpt.Archive) -> tuple[list[Described], dict[str, str] | None]:
    """What tensors an archive of any format holds, and the metadata of safetensors."""
    # A file that is cut off, or has more at its end, is refused as safetensors refuses it.
    if archive.is_safetensors or archive.format == "safetensors":
        described, header = tensors_of(archive)
        archive.read_into(0, header, threads=1)
        return described, metadata_of(bytes(header))
    described = archive.tensors()
    if not described:
        raise InvalidError("the file holds no tensors that are known by name")
    return described, None


class _Tensors:
    """The tensors of an open archive, through which ``safe_open`` and its slices read."""

    def __init__(
        self,
        archive: _lmckpt.Archive,
        is_torch: bool,
        device: Any,
        threads: int = 0,
        *,
        whole: bool = False,
    ) -> None:
        self._archive: _lmckpt.Archive | None = archive
        self._is_torch, self._device, self._threads = is_torch, device, threads
        described, self.metadata = _described(archive)
        #: The names of all tensors, in the order of their bytes.
        self.names = [name for name, *_ in described]
        self._found = {name: (dtype, shape, a, b) for name, dtype, shape, a, b in described}
        # The types of those that safetensors does not know.
        self._others: dict[str, str] = {}
        if is_torch:
            from .torch import other_types

            self._others = other_types(self.metadata)
        places = (place[2:] for place in self._found.values())
        self._ahead = _Ahead(archive, places) if whole else None

    def close(self) -> None:
        """Closes the file; later reads fail."""
        self._archive = self._ahead = None

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def find(self, name: str) -> tuple[str, list[int], int, int]:
        """The type and the shape of a tensor, and where its bytes start and end."""
        if name not in self._found:
            raise NotFoundError(f"the file has no tensor {name}")
        return self._found[name]

    def has_rows(self, name: str) -> bool:
        """Whether rows of the first dimension can be read alone."""
        dtype, shape, _, _ = self.find(name)
        return bool(shape and shape[0]) and name not in self._others and dtype not in PACKED

    def read(self, name: str) -> Any:
        """A tensor."""
        dtype, shape, start, _ = self.find(name)
        return self._read(name, dtype, shape, start)

    def read_rows(self, name: str, low: int, high: int) -> Any:
        """Some rows of a tensor that ``has_rows``."""
        dtype, shape, start, end = self.find(name)
        row = (end - start) // shape[0]
        return self._read(name, dtype, [high - low, *shape[1:]], start + low * row)

    def _read(self, name: str, dtype: str, shape: list[int], start: int) -> Any:
        if self._archive is None:
            raise InvalidError("the file is closed")
        if self._is_torch:
            from .torch import empty

            tensor: Any = empty(dtype, shape, self._others.get(name))
            self._fill(self._archive, start, view(tensor, writable=True))
            return tensor if str(self._device) == "cpu" else tensor.to(device=self._device)
        from .numpy import empty as empty_array

        array = empty_array(dtype, shape)
        self._fill(self._archive, start, view(array, writable=True))
        return array

    def _fill(self, archive: _lmckpt.Archive, start: int, out: memoryview) -> None:
        if self._ahead is None or not self._ahead.read(start, out, self._threads):
            archive.read_into(start, out, threads=self._threads)


def _is_for_torch(framework: str, device: Any) -> bool:
    """Whether tensors of torch are wanted, and not arrays; fails if either cannot be had."""
    if not isinstance(framework, str):
        raise TypeError(f"framework is text, not {type(framework).__name__}")
    is_torch = framework in ("pt", "torch", "pytorch")
    if not is_torch and framework not in ("np", "numpy"):
        raise InvalidError(f"framework {framework!r} is neither pt nor np")
    if not is_torch and str(device) != "cpu":
        raise InvalidError(f"numpy has no device {device}")
    needed("torch" if is_torch else "numpy")
    if is_torch:
        from .torch import check_device

        check_device(device)
    return is_torch


@documented_as("lmckpt")
class safe_open:
    """Opens a .lmc file to read some of its tensors, as ``safetensors.safe_open`` does.

    ``framework`` is "pt" for torch or "np" for numpy. ``bases`` are files that it may be coded
    against; they are also looked for beside it. An original of more than ``max_size`` bytes is
    refused.
    """

    def __init__(
        self,
        filename: Path,
        framework: str,
        device: Any = "cpu",
        *,
        bases: Sequence[Any] = (),
        max_size: int | None = None,
    ) -> None:
        is_torch = _is_for_torch(framework, device)
        self._tensors = _Tensors(open_archive(filename, bases, max_size), is_torch, device)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tensors.close()

    def keys(self) -> list[str]:
        """The names of all tensors, sorted."""
        return sorted(self._tensors.names)

    def offset_keys(self) -> list[str]:
        """The names of all tensors, in the order of their bytes."""
        return list(self._tensors.names)

    def metadata(self) -> dict[str, str] | None:
        """The metadata of the file, if it has any."""
        return self._tensors.metadata

    def __len__(self) -> int:
        return len(self._tensors.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def get_tensor(self, name: str) -> Any:
        """A tensor."""
        return self._tensors.read(name)

    def get_slice(self, name: str) -> Slice:
        """A tensor that is read when it is indexed, and then only what is asked for."""
        self._tensors.find(name)
        return Slice(self._tensors, name)


def open_tensors(
    archive: _lmckpt.Archive,
    framework: str,
    device: Any = "cpu",
    threads: int = 0,
    *,
    whole: bool = False,
) -> safe_open:
    """A ``safe_open`` of an archive that is already open.

    With ``whole``, all tensors will be asked for, so that small ones are read together.
    """
    is_torch = _is_for_torch(framework, device)
    opened = safe_open.__new__(safe_open)
    opened._tensors = _Tensors(archive, is_torch, device, threads, whole=whole)
    return opened


class Slice:
    """A tensor in a file that is read in part."""

    def __init__(self, tensors: _Tensors, name: str) -> None:
        self._tensors = tensors
        self._name = name

    def get_shape(self) -> list[int]:
        """The dimensions of the whole tensor."""
        return list(self._tensors.find(self._name)[1])

    def get_dtype(self) -> str:
        """The type of the values, by its name in safetensors."""
        return self._tensors.find(self._name)[0]

    def __getitem__(self, index: Any) -> Any:
        index = index if isinstance(index, tuple) else (index,)
        if not self._tensors.has_rows(self._name) or (index and index[0] is Ellipsis):
            return self._tensors.read(self._name)[index]
        # The rows that the first index selects are next to each other in the file.
        count = self.get_shape()[0]
        first, rest = index[0] if index else slice(None), index[1:]
        if isinstance(first, slice):
            rows = range(count)[first]
            low, high = (min(rows[0], rows[-1]), max(rows[0], rows[-1]) + 1) if rows else (0, 0)
            first = slice(rows.start - low, None if rows.stop < low else rows.stop - low, rows.step)
        elif isinstance(first, int) and not isinstance(first, bool):
            if not -count <= first < count:
                raise IndexError(f"row {first} of {count}")
            low = first % count
            first, high = 0, low + 1
        else:
            return self._tensors.read(self._name)[index]
        return self._tensors.read_rows(self._name, low, high)[(first, *rest)]
