"""What is registered by others, and taken out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Registration:
    """What a function that registers something returns.

    Args:
        take_out: takes it out again; called once at most.

    Example:
        >>> import graphmend_bc
        >>> handle = graphmend_bc.register(graphmend_bc.Extension("mine"))
        >>> isinstance(handle, graphmend_bc.Registration)
        True
        >>> handle.remove()
    """

    def __init__(self, take_out: Callable[[], object]) -> None:
        self._take_out: Callable[[], object] | None = take_out

    def remove(self) -> None:
        """Take out what was registered, unless that was done already."""
        take_out, self._take_out = self._take_out, None
        if take_out is not None:
            take_out()


class Registry(Generic[T]):
    """Values in the order in which they were registered.

    Example:
        >>> names = Registry[str]()
        >>> handle = names.add("one")
        >>> list(names)
        ['one']
        >>> handle.remove()
        >>> list(names)
        []
    """

    def __init__(self) -> None:
        self._entries: tuple[tuple[T], ...] = ()

    def __iter__(self) -> Iterator[T]:
        return (value for (value,) in self._entries)

    def add(self, value: T) -> Registration:
        """Register a value.

        Returns:
            A handle that takes it out again.
        """
        entry = (value,)
        # Replaced, not changed: another thread may be going through it.
        self._entries = (*self._entries, entry)
        return Registration(lambda: self._drop(entry))

    def _drop(self, entry: tuple[T]) -> None:
        self._entries = tuple(other for other in self._entries if other is not entry)
