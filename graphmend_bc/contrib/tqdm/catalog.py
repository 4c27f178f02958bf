"""The bars and functions of tqdm, known by identity; it is looked up only where it is loaded."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from graphmend_bc.catalog.observers import CALLED, INLINED, Observer, Observers, each

BAR_BREAK: Final = CALLED
"""What stock Dynamo calls the break at a call that makes a bar."""

_BARS = (("tqdm.std", "tqdm", False), ("tqdm.asyncio", "tqdm_asyncio", True))
_RANGES = ("trange", "tarange", "tnrange")
_SETTERS = ("set_postfix", "set_postfix_str", "set_description", "set_description_str")

OBSERVERS: Final[Observers] = {
    **each("tqdm.std", "tqdm.", (*_SETTERS, "close"), Observer(INLINED, counts="n")),
    **each(
        "tqdm.std",
        "tqdm.",
        ("update", "refresh"),
        Observer(INLINED, returns_none=False, counts="n"),
    ),
    ("tqdm.std", "tqdm.write"): Observer(INLINED, stream="file", of_class=True),
}
"""The methods of bars that only observe."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A plain text bar of tqdm.

    Attributes:
        kind: its class.
        ranged: whether it goes over `range(*args)`, as those of `trange` do.
        asks_twice: whether it asks what it goes over for an iterator when it is made, too.
    """

    kind: type
    ranged: bool = False
    asks_twice: bool = False


def makes_bar(function: object) -> bool:
    """True for `tqdm` and `trange` of any kind, which make a progress bar."""
    bar = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    if bar is None:
        return False
    if isinstance(function, type):
        return issubclass(function, bar)
    module, name = getattr(function, "__module__", ""), getattr(function, "__name__", "")
    return name in _RANGES and str(module).startswith("tqdm.")


def bar_made_by(function: object) -> Bar | None:
    """The bar that a function makes, if it is a plain text bar.

    Args:
        function: one that `makes_bar`.
    """
    ranged = not isinstance(function, type)
    module = sys.modules.get(str(getattr(function, "__module__", "")))
    if ranged and all(getattr(module, name, None) is not function for name in _RANGES):
        return None
    kind = getattr(module, "tqdm", None) if ranged else function
    for place, name, asks_twice in _BARS:
        known = getattr(sys.modules.get(place), name, None)
        if isinstance(known, type) and known is kind:
            return Bar(known, ranged, asks_twice)
    return None
