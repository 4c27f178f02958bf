"""The smallest parts of a list with which something fails: delta debugging by halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def culprits(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[list[T]]:
    """The groups of items that make something fail, each by itself.

    Args:
        items: with all of them it fails, and with none it does not.
        fails: whether it fails with some of them.

    Returns:
        Disjoint groups; in each, every item is needed. Without all of them nothing fails.

    Example:
        >>> culprits(range(8), lambda some: 5 in some or {1, 2} <= {*some})
        [[1, 2], [5]]
    """
    found, left = [], [*items]
    while left and fails(left):
        group = _smallest(left, fails)
        found.append(group)
        left = [item for item in left if item not in group]
    return found


def _smallest(items: list[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """A part with which it fails, and without any item of which it does not."""
    parts = 2
    while len(items) > 1:
        size = -(-len(items) // parts)
        chunks = [items[i : i + size] for i in range(0, len(items), size)]
        others = [[item for item in items if item not in chunk] for chunk in chunks]
        smaller = next((chunk for chunk in chunks if fails(chunk)), None)
        if smaller is not None:
            items, parts = smaller, 2
        elif parts > 2 and (rest := next(filter(fails, others), None)) is not None:
            items, parts = rest, parts - 1
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(items))
    return items
