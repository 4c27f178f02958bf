"""Functions that draw from NumPy's global generator, called before a graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from graphmend_bc.runtime.deopt import Deoptimise
from graphmend_bc.runtime.signal_handlers import pass_on


@contextmanager
def not_drawn(generator: Any) -> Iterator[None]:
    """Leave a NumPy generator as it was.

    Args:
        generator: a `numpy.random.RandomState`.
    """
    before = generator.get_state(legacy=False)
    try:
        yield
    finally:
        generator.set_state(before)


@dataclass(slots=True, eq=False)
class Draws:
    """What one frame draws before its graph.

    Attributes:
        generator: NumPy's global generator.
    """

    generator: Any
    _before: threading.local = field(default_factory=threading.local)

    def remember(self) -> None:
        """To be called before the first draw of a call."""
        self._before.state = self.generator.get_state(legacy=False)

    def roll_back(self) -> None:
        """Make the generator as it was before the first draw of the call that is running."""
        state = getattr(self._before, "state", None)
        if state is not None:
            self.generator.set_state(state)
            self._before.state = None


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A call of a function that draws.

    Attributes:
        draws: of the frame.
        is_first: whether it is the frame's first.
        call: from the values that the frame has to arrays, and what the graph rests on.
        wanted: what that was when the graph was traced.
        mismatched: to be told if it is something else.
    """

    draws: Draws
    is_first: bool
    call: Callable[..., tuple[Sequence[Any], Any]]
    wanted: Any
    mismatched: Callable[[], None]

    def __call__(self, *values: Any) -> Sequence[Any]:
        """The arrays.

        Raises:
            Deoptimise: it raised, or gave something that the graph is not made for.
        """
        if self.is_first:
            self.draws.remember()
        try:
            arrays, found = self.call(*values)
        except Exception as error:
            pass_on(error)
            self.mismatched()
            raise Deoptimise from error
        if found != self.wanted:
            self.mismatched()
            raise Deoptimise
        return arrays
