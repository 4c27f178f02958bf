"""Functions that draw from generators of NumPy, Python or torch, called before a graph."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from graphmend_bc.runtime.deoptimise import Deoptimise
from graphmend_bc.runtime.signal_handlers import pass_on


def is_python_draw(method: object) -> bool:
    """True for a method of one of Python's generators that only draws from it or sets its state.

    Args:
        method: any callable.

    Example:
        >>> is_python_draw(random.uniform), is_python_draw(random.SystemRandom().random)
        (True, False)
    """
    generator, name = getattr(method, "__self__", None), getattr(method, "__name__", None)
    if type(generator) is not random.Random or name not in PYTHON_DRAWS:
        return False
    # A method may call another one, which somebody may have replaced.
    if not vars(generator).keys() <= {"gauss_next"}:
        return False
    function = getattr(random.Random, name)
    written_in = getattr(function, "__module__", "random")
    return method == function.__get__(generator) and written_in == "random"


PYTHON_DRAWS: Final = frozenset(
    {
        *("betavariate", "binomialvariate", "choice", "choices", "expovariate", "gammavariate"),
        *("gauss", "getrandbits", "lognormvariate", "normalvariate", "paretovariate", "randint"),
        *("random", "randrange", "sample", "seed", "setstate", "shuffle", "triangular", "uniform"),
        *("vonmisesvariate", "weibullvariate"),
    }
)
"""Methods of Python's generators."""


@contextmanager
def not_drawn(generators: Iterable[Any]) -> Iterator[None]:
    """Leave generators as they were.

    Args:
        generators: each a `numpy.random.RandomState`, `random.Random` or `torch.Generator`.
    """
    before = [(generator, _state_of(generator)) for generator in generators]
    try:
        yield
    finally:
        for generator, state in before:
            _set_state(generator, state)


def _state_of(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    return generator.get_state(legacy=False)


def copy_of(generator: Any) -> Any:
    """A generator that is going to draw the same.

    Args:
        generator: a `numpy.random.RandomState`, `random.Random` or `torch.Generator`.
    """
    if isinstance(generator, torch.Generator):
        return generator.clone_state()
    copy = random.Random(0) if isinstance(generator, random.Random) else type(generator)(0)
    _set_state(copy, _state_of(generator))
    return copy


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


@dataclass(slots=True, eq=False)
class Draws:
    """What one frame draws before its graph."""

    _before: threading.local = field(default_factory=threading.local)

    def beginning(self, first: Callable[..., Any]) -> Callable[..., Any]:
        """The first draw of a call, which forgets what the last call has drawn.

        Args:
            first: draws.
        """
        before = self._before

        def draw(*values: Any) -> Any:
            before.states = {}  # first of all, or else `roll_back` would go too far
            return first(*values)

        return draw

    def remember(self, generators: Iterable[Any]) -> None:
        """To be called before each draw; the first one from a generator counts."""
        states = self._before.states
        for generator in generators:
            if id(generator) not in states:
                states[id(generator)] = generator, _state_of(generator)

    def roll_back(self) -> None:
        """Make the generators as they were before the first draw of the call that is running."""
        for generator, state in getattr(self._before, "states", {}).values():
            _set_state(generator, state)
        self._before.states = {}


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A call of a function that draws.

    Attributes:
        draws: of the frame.
        generators: from the values that the frame has to the generators it draws from; None if it
            would call something else than in the trace.
        call: from the values that the frame has to arrays, and what the graph rests on.
        wanted: what that was when the graph was traced.
        mismatched: to be told if it is something else.
    """

    draws: Draws
    generators: Callable[..., Sequence[Any] | None]
    call: Callable[..., tuple[Any, Any]]
    wanted: Any
    mismatched: Callable[[], None]

    def __call__(self, *values: Any) -> Any:
        """The arrays.

        Raises:
            Deoptimise: it raised, or gave something that the graph is not made for.
        """
        generators = self.generators(*values)
        if generators is None:
            raise Deoptimise
        self.draws.remember(generators)
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


@dataclass(frozen=True, slots=True, eq=False)
class AsForeseen:
    """Asks whether a condition is what a guard has found it to be by drawing ahead.

    Attributes:
        condition: from what was drawn to a truth value.
        value: what it has to be.
    """

    condition: Callable[[Sequence[Any]], bool]
    value: bool

    def __call__(self, *drawn: Any) -> None:
        """Ask it of what was drawn.

        Raises:
            Deoptimise: it is another one, because something else was drawn.
        """
        if self.condition(drawn) is not self.value:
            raise Deoptimise
