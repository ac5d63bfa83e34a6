"""The options of a save, spelled out once.

Users pass them as keyword arguments. A function takes them as ``**options: Unpack[...]`` of one of
the classes here, so that type checkers know them, and is decorated with ``takes``, so that
``help()`` shows them and Python refuses others.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar, get_type_hints

from .._lmckpt import Snapshot
from ..errors import InvalidError
from ..files import Level

if TYPE_CHECKING:
    from .._lmckpt import NativeSaveOptions  # A type that is in the stub alone.

_P = ParamSpec("_P")
_R = TypeVar("_R")


class CodingOptions(TypedDict, total=False):
    """How the bytes are coded: what every integration takes."""

    level: Level
    # 0 for all cores.
    threads: int
    # Whether everything is decoded and compared as it is coded.
    verify: bool


class SnapshotOptions(CodingOptions, total=False):
    """What a snapshot may be given besides its run and step."""

    tags: Sequence[str]
    # Values are kept as text.
    meta: Mapping[str, Any] | None
    # The snapshot to code against: one, the name of one, "auto" for the newest of the run, "none".
    parent: str | Snapshot


class SaveOptions(SnapshotOptions, total=False):
    """All that ``Store.save`` takes besides the state."""

    run: str
    # Without one, the number at the end of a path, or one more than the last of the run.
    step: int | None


_DEFAULTS: SaveOptions = {
    "run": "main",
    "step": None,
    "tags": (),
    "meta": None,
    "parent": "auto",
    "level": "default",
    "threads": 0,
    "verify": True,
}


def takes(options: type[CodingOptions]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Decorates a function whose ``**options`` are those of this class."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        types = get_type_hints(options)
        added = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[name]
            )
            for name, default in _DEFAULTS.items()
            if name in types
        ]
        signature = inspect.signature(function)
        own = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        known = {parameter.name for parameter in (*own, *added)}

        @functools.wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            for name in kwargs:
                if name not in known:
                    raise TypeError(
                        f"{function.__qualname__}() got an unexpected keyword argument {name!r}"
                    )
            return function(*args, **kwargs)

        shown = signature.replace(parameters=[*own, *added])
        checked.__signature__ = shown  # type: ignore[attr-defined]
        return checked

    return decorate


def native_options(options: SaveOptions) -> NativeSaveOptions:
    """The options as the native module takes them: all of them, checked."""
    given: SaveOptions = {**_DEFAULTS, **options}
    step, tags, meta = given["step"], given["tags"], given["meta"]
    is_number = hasattr(step, "__index__") and not isinstance(step, bool)
    if step is not None and (not is_number or operator.index(step) < 0):
        raise InvalidError(f"a step is a number from 0 on, not {step!r}")
    if meta is not None and not isinstance(meta, Mapping):
        raise InvalidError(f"meta must be a dict, not a {type(meta).__name__}")
    return {
        "run": given["run"],
        "step": step,
        "tags": [tags] if isinstance(tags, str) else list(tags),
        "meta": {key: str(value) for key, value in (meta or {}).items()},
        "parent": snapshot_name(given["parent"]),
        "level": given["level"],
        "threads": given["threads"],
        "verify": given["verify"],
    }


def snapshot_name(snapshot: str | Snapshot) -> str:
    """The text by which the native module finds a snapshot."""
    if isinstance(snapshot, Snapshot):
        return snapshot.id
    if not isinstance(snapshot, str):
        raise TypeError(f"a snapshot is named by text, not by a {type(snapshot).__name__}")
    return snapshot
