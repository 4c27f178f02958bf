"""Deoptimisation: run a frame's original code when its graph took something wrong for granted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CellType, CodeType, FunctionType
from typing import Any, Final

from graphmend_bc.runtime.deferral.call_places import (
    callers,
    is_machinery,
    shim_at,
)
from graphmend_bc.runtime.told_once import told_once

_CALLERS_SHOWN: Final = 4
"""How many of its callers the original code finds above it. Each costs a call of a few lines."""


class Deoptimise(BaseException):
    """The graph's results must not be used.

    Not an Exception, so that no handler of the user's, copied around the graph, catches it.

    Args:
        charge: told how many nanoseconds the original code took.
        compiles: whether the frame is to be compiled anew by the call that meets this.
    """

    def __init__(
        self, charge: Callable[[int], None] | None = None, *, compiles: bool = False
    ) -> None:
        super().__init__()
        # The generated code that catches it passes nothing on.
        _raised.charge, _raised.compiles = charge, compiles


_raised = threading.local()
"""What was last raised in a thread."""


def compiles_anew() -> bool:
    """Whether the exception that this thread raised last asks for that; it is forgotten then."""
    asked, _raised.compiles = getattr(_raised, "compiles", False), False
    return asked


def deoptimising(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which raises `Deoptimise` in the place of an error of ours.

    Args:
        function: what generated code calls before a graph.
    """

    def call(*values: Any) -> Any:
        try:
            return function(*values)
        except Exception as error:
            told_once("runs a frame's own code", error)
            raise Deoptimise from None

    return call


@dataclass(frozen=True, slots=True, eq=False)
class Recompiling:
    """How original code runs that a compiler is to compile anew.

    Attributes:
        call: from a function, its arguments and keywords to what it gives, with the compiler on.
        leave_out: has the compiler leave a code object of ours as it is.
    """

    call: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
    leave_out: Callable[[CodeType], object]


@dataclass(frozen=True, slots=True, eq=False)
class Deoptimizer:
    """Runs the original code object of a frame.

    Attributes:
        code: the original code object.
        module_globals: its globals.
        roll_back: each is called first, to undo what was done before the graph.
        recompiling: how it is compiled anew; None if nothing is.
    """

    code: CodeType
    module_globals: dict[str, Any]
    roll_back: tuple[Callable[[], None], ...] = ()
    recompiling: Recompiling | None = None

    def run(self, cells: tuple[CellType, ...], values: tuple[Any, ...]) -> tuple[bool, Any]:
        """Run the code from its start.

        An exception is returned, so that nothing between the frame and its original code is in the
        traceback. Code that looks for its caller (`stacklevel=2`) finds frames with the file, line,
        function name and globals of the nearest callers.

        Args:
            cells: the frame's free variables, in the order of `co_freevars`.
            values: the frame's arguments as it got them, in the order of `co_varnames`: positional,
                keyword-only, then the tuple of `*args` and the dict of `**kwargs` if it has them.

        Returns:
            Whether the original code raises, and what it raises or returns.
        """
        for undo in self.roll_back:
            undo()
        code, rest = self.code, list(values)
        keywords: dict[str, Any] = rest.pop() if code.co_flags & CO_VARKEYWORDS else {}
        extra: tuple[Any, ...] = rest.pop() if code.co_flags & CO_VARARGS else ()
        count = code.co_argcount
        names = code.co_varnames[count : count + code.co_kwonlyargcount]
        only = dict(zip(names, rest[count:], strict=True))
        function = FunctionType(code, self.module_globals, code.co_name, None, cells)
        charge, _raised.charge = getattr(_raised, "charge", None), None
        args, kwargs = (*rest[:count], *extra), only | keywords
        shims, compiled = self._shims(), self.recompiling
        for shim in shims:
            function, args, kwargs = shim, (function, args, kwargs), {}
        begun = time.perf_counter_ns()
        try:
            if compiled is not None:
                return False, compiled.call(function, args, kwargs)
            return False, function(*args, **kwargs)
        except BaseException as error:
            try:
                _cut_entries(error, len(shims) + (1 if compiled is None else 2))
            except Exception as another:
                told_once("leaves frames of its own in a traceback", another)
            return True, error
        finally:
            if charge is not None:
                charge(time.perf_counter_ns() - begun)

    def _shims(self) -> list[FunctionType]:
        """What looks like the callers, innermost first."""
        try:  # the generated code is a frame of the user's, too
            below = 0 if is_machinery(self.module_globals) else 1
            shims = [shim_at(place) for place in callers(_CALLERS_SHOWN, below)]
            if self.recompiling is not None:
                for shim in shims:
                    self.recompiling.leave_out(shim.__code__)
            return shims
        except Exception as error:
            told_once("shows a frame's original code without its callers", error)
            return []


def _cut_entries(error: BaseException, count: int) -> None:
    """Cut in a function of its own, as the traceback would hold a local that holds it."""
    entry = error.__traceback__
    for _ in range(count):
        entry = entry and entry.tb_next
    error.__traceback__ = entry
