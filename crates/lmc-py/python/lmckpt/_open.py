"""Single tensors of a file, of which only the bytes that are needed are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from . import _header, _lmckpt
from ._buffers import needed, view
from .errors import CorruptError, InvalidError, NotFoundError, StorageError
from .files import Path, _bases, path_text

_MAGIC = b"\x89LMC\r\n\x1a\n"
# Tensors up to this length are coded together, so they are read together.
_SMALL_LEN = 1 << 16
_RUN_LEN = 1 << 22


def open_archive(
    filename: Path, bases: Sequence[Any] = (), max_size: int | None = None
) -> _lmckpt.Archive:
    """Opens a .lmc file; refuses an original of more than ``max_size`` bytes."""
    return _lmckpt.Archive(path_text(filename), bases=_bases(bases), max_size=max_size)


def tensors_of(archive: _lmckpt.Archive) -> tuple[list[_header.Described], bytearray]:
    """What tensors an archive holds, and memory for the header before them."""
    described = archive.tensors()
    if not archive.is_safetensors:
        raise InvalidError("the file holds no tensors: its original is not a safetensors file")
    return described, bytearray(described[0][3] if described else archive.original_len)


def is_plain(filename: Path) -> bool:
    """Whether a file is no .lmc file, so that safetensors may be asked to read it."""
    try:
        with open(path_text(filename), "rb") as file:
            return file.read(len(_MAGIC)) != _MAGIC
    except OSError as error:
        # What Python says of it repeats the name, which may be a URL with a password in it.
        message = f"{_lmckpt.shown(path_text(filename))}: cannot open it: {error.strerror}"
        is_missing = isinstance(error, FileNotFoundError)
        raise (NotFoundError if is_missing else StorageError)(message) from None


def load_plain(load: Callable[[], dict[str, Any]]) -> dict[str, Any]:
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
    """Stretches of a file that hold several small tensors: start, end, and where each tensor starts.

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
    """Small tensors of a file of which all will be asked for, one by one: each run is read once."""

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
    """Tensors that lie one behind the other."""

    start: int
    size: int
    # How many have not been asked for.
    left: int
    data: bytearray | None = None


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
        self._set(framework, device, 0)
        self._archive: _lmckpt.Archive | None = open_archive(filename, bases, max_size)
        self._init(self._archive)

    def _set(self, framework: str, device: Any, threads: int) -> None:
        if not isinstance(framework, str):
            raise TypeError(f"framework is text, not {type(framework).__name__}")
        self._is_torch = framework in ("pt", "torch", "pytorch")
        if not self._is_torch and framework not in ("np", "numpy"):
            raise InvalidError(f"framework {framework!r} is none of pt and np")
        if not self._is_torch and str(device) != "cpu":
            raise InvalidError(f"numpy has no device {device}")
        needed("torch" if self._is_torch else "numpy")
        if self._is_torch:
            from .torch import check_device

            check_device(device)
        self._device, self._threads = device, threads
        self._ahead: _Ahead | None = None

    @classmethod
    def of(
        cls,
        archive: _lmckpt.Archive,
        framework: str,
        device: Any = "cpu",
        threads: int = 0,
        *,
        whole: bool = False,
    ) -> safe_open:
        """The same for an archive that is open already.

        With ``whole``, all tensors will be asked for, so that small ones are read together.
        """
        made = cls.__new__(cls)
        made._set(framework, device, threads)
        made._archive = archive
        made._init(archive)
        if whole:
            made._ahead = _Ahead(archive, [place[2:] for place in made._tensors.values()])
        return made

    def _init(self, archive: _lmckpt.Archive) -> None:
        described, header = tensors_of(archive)
        self._tensors = {name: (dtype, shape, a, b) for name, dtype, shape, a, b in described}
        self._order = [name for name, *_ in described]
        archive.read_into(0, header, threads=1)
        self._metadata = _header.metadata_of(bytes(header))
        self._others: dict[str, str] = {}
        if self._is_torch:
            from .torch import other_types

            self._others = other_types(self._metadata)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._archive = None

    def _open(self) -> _lmckpt.Archive:
        if self._archive is None:
            raise InvalidError("the file is closed")
        return self._archive

    def keys(self) -> list[str]:
        """The names of all tensors, in order."""
        return sorted(self._order)

    def offset_keys(self) -> list[str]:
        """The names of all tensors, in the order of their bytes."""
        return list(self._order)

    def metadata(self) -> dict[str, str] | None:
        """The metadata of the file, if it has any."""
        return self._metadata

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def _find(self, name: str) -> tuple[str, list[int], int, int]:
        if name not in self._tensors:
            raise NotFoundError(f"the file has no tensor {name}")
        return self._tensors[name]

    def get_tensor(self, name: str) -> Any:
        """A tensor."""
        dtype, shape, start, _ = self._find(name)
        return self._read(name, dtype, shape, start)

    def get_slice(self, name: str) -> Slice:
        """A tensor that is read when it is indexed, and then only what is asked for."""
        self._find(name)
        return Slice(self, name)

    def _read(self, name: str, dtype: str, shape: list[int], start: int) -> Any:
        archive = self._open()
        if self._is_torch:
            from .torch import empty

            tensor: Any = empty(dtype, shape, self._others.get(name))
            self._fill(archive, start, view(tensor, writable=True))
            return tensor if str(self._device) == "cpu" else tensor.to(device=self._device)
        from .numpy import empty as empty_array

        array = empty_array(dtype, shape)
        self._fill(archive, start, view(array, writable=True))
        return array

    def _fill(self, archive: _lmckpt.Archive, start: int, out: memoryview) -> None:
        if self._ahead is None or not self._ahead.read(start, out, self._threads):
            archive.read_into(start, out, threads=self._threads)


class Slice:
    """A tensor in a file that is read in part."""

    def __init__(self, file: safe_open, name: str) -> None:
        self._file = file
        self._name = name

    def get_shape(self) -> list[int]:
        """The dimensions of the whole tensor."""
        return list(self._file._find(self._name)[1])

    def get_dtype(self) -> str:
        """The type of the values, by its name in safetensors."""
        return self._file._find(self._name)[0]

    def __getitem__(self, index: Any) -> Any:
        dtype, shape, start, end = self._file._find(self._name)
        is_odd = self._name in self._file._others or dtype in ("F4", "F6_E2M3", "F6_E3M2")
        index = index if isinstance(index, tuple) else (index,)
        if not shape or is_odd or not shape[0] or (index and index[0] is Ellipsis):
            return self._file.get_tensor(self._name)[index]
        # The rows that the first index reaches stand one behind the other.
        first, rest = index[0] if index else slice(None), index[1:]
        if isinstance(first, slice):
            rows = range(shape[0])[first]
            low, high = (min(rows[0], rows[-1]), max(rows[0], rows[-1]) + 1) if rows else (0, 0)
            first = slice(rows.start - low, None if rows.stop < low else rows.stop - low, rows.step)
        elif isinstance(first, int) and not isinstance(first, bool):
            if not -shape[0] <= first < shape[0]:
                raise IndexError(f"row {first} of {shape[0]}")
            low = first % shape[0]
            first, high = 0, low + 1
        else:
            return self._file.get_tensor(self._name)[index]
        row = (end - start) // shape[0]
        found = self._file._read(self._name, dtype, [high - low, *shape[1:]], start + low * row)
        return found[(first, *rest)]
