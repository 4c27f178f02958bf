"""Progress bars that a compiled function makes: real ones, made and driven after its graph."""

from __future__ import annotations

import functools
import io
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakSet


class Clock:
    """When the graph of a compiled function last began, in each thread."""

    def __init__(self) -> None:
        self._times = threading.local()

    def timing(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        """The same graph; its calls are noted."""

        @functools.wraps(graph)
        def run_graph(*args: Any, **kwargs: Any) -> Any:
            self._times.begun = time.time()
            return graph(*args, **kwargs)

        return run_graph

    def begun(self) -> float:
        """When the graph began; now, if there is none."""
        return float(getattr(self._times, "begun", None) or time.time())


class Items:
    """What a bar goes over: as many items as the program goes over, whatever they are."""

    def __init__(self) -> None:
        self.more = True

    def __iter__(self) -> Iterator[None]:
        return self

    def __next__(self) -> None:
        if not self.more:
            raise StopIteration


class CountedItems(Items):
    """Items whose number the bar may ask for.

    Args:
        length: how many there are.
    """

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def __len__(self) -> int:
        return self.length


def items_of(length: int | None) -> Items:
    """Items as many as `length`; None if what the program goes over has no length."""
    return Items() if length is None else CountedItems(length)


class Stand:
    """The bar that generated code makes in place of one that a program makes.

    Args:
        kind: the class of the bar.
        clock: tells when the graph began.

    Attributes:
        bar: the real bar, once it is made.
        items: what it goes over.
    """

    def __init__(self, kind: Callable[..., Any], clock: Clock) -> None:
        self.kind = kind
        self.clock = clock
        self.bar: Any = None
        self.items: Items | None = None

    def make(self, has_items: bool, length: int | None, kwargs: Mapping[str, Any]) -> None:
        """Make the bar, as if it had been made when the graph began.

        Args:
            has_items: whether the program gave it something to go over.
            length: how many items that has, if it can tell.
            kwargs: the other arguments.
        """
        self.items = items_of(length) if has_items else None
        self.bar = self.kind(self.items, **kwargs)
        if hasattr(self.bar, "start_t"):
            self.bar.start_t = self.clock.begun()


class Walk:
    """One loop over a bar. The bar's own generator counts, shows and closes."""

    def __init__(self) -> None:
        self._steps: Iterator[Any] | None = None

    def advance(self, stand: Stand, count: int, ends: bool) -> None:
        """Go on.

        Args:
            stand: the bar.
            count: how many items the loop got.
            ends: whether it then found that there are no more.
        """
        if self._steps is None:
            self._steps = iter(stand.bar)
        if stand.items is not None:
            stand.items.more = True
        for _ in range(count):
            next(self._steps)
        if ends and stand.items is not None:
            stand.items.more = False
            next(self._steps, None)

    def leave(self) -> None:
        """Let go of the generator, as a loop does that is left early."""
        close = getattr(self._steps, "close", None)
        if close is not None:
            close()


_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def complaint(kind: type, has_items: bool, length: int | None, kwargs: Mapping[str, Any]) -> str:
    """What is wrong with the arguments of a bar; empty if a bar can be made and shown.

    A bar is tried that nobody sees: it is not one of its class's bars, and writes to nowhere.

    Args:
        kind: the class of the bar.
        has_items, length, kwargs: as for `Stand.make`, without `file`.
    """
    colour = kwargs.get("colour")
    if colour and not (isinstance(colour, str) and colour.lower() in _COLOURS):
        return "Its colour is none of those that have a name."  # others may warn
    if isinstance(kwargs.get("initial"), (int, float)) and kwargs["initial"] < 0:
        return "It begins before the first item."  # others warn
    if kwargs.get("gui") or kwargs.get("lock_args"):
        return "It is shown by other means than a text, or not if another thread shows one."
    # A lock of its own: tqdm does not release it when a text cannot be made.
    own = {"_instances": WeakSet(), "_lock": threading.RLock(), "monitor_interval": 0}
    trial = type("Trial", (kind,), own)
    try:
        given = {**kwargs, "disable": False, "file": io.StringIO()}
        bar: Any = trial(items_of(length) if has_items else None, **given)
        if bar.delay:
            return "It is shown after a delay."
        bar.refresh()
        bar.update(1)
        bar.close()
    except Exception as error:
        return f"It could not be shown: {error!r}."
    return ""
