"""`itertools.groupby` in Python, for Dynamo to trace."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any


def groupby(iterable: Iterable[Any], key: Callable[[Any], Any] | None = None) -> Generator[Any]:
    """The groups of neighbours with equal keys, as lazily as CPython's: Modules/itertoolsmodule.c.

    An item is asked for, and its key computed, when a group or the search for the next one needs
    it; a group gives nothing any more once the next one was asked for.

    Args:
        iterable: the items.
        key: from an item to its key; None for the item itself.

    Returns:
        Gives each group's key with an iterator over its items.
    """
    rest = iter(iterable)
    ahead: tuple[Any, Any] | None = None  # an item that no group has given, with its key
    turn = 0

    def begins(wanted: Any) -> bool:
        """True if there is a next item and it has the key."""
        nonlocal ahead
        if ahead is None:
            for item in rest:
                ahead = item, (item if key is None else key(item))
                break
        return ahead is not None and (ahead[1] is wanted or bool(ahead[1] == wanted))

    def group(mine: int, wanted: Any) -> Generator[Any]:
        nonlocal ahead
        while turn == mine and begins(wanted):
            assert ahead is not None
            item, ahead = ahead[0], None
            yield item

    def groups() -> Generator[Any]:
        nonlocal ahead, turn
        begins(None)
        while ahead is not None:
            turn, wanted = turn + 1, ahead[1]
            yield wanted, group(turn, wanted)
            turn += 1
            while begins(wanted):
                ahead = None

    return groups()
