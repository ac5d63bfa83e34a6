"""Where users import a class or a function from, which is not where its code is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Item = TypeVar("_Item")


def documented_as(module: str) -> Callable[[_Item], _Item]:
    """Lets ``help()``, errors and pickles name the documented module.

    Pickles may be read by another version of lmckpt, in which the code is elsewhere.
    """

    def mark(item: _Item) -> _Item:
        item.__module__ = module
        return item

    return mark
