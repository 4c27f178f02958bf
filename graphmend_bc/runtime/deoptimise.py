"""Deoptimisation: run a frame's original code when its graph took something wrong for granted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CellType, CodeType, FunctionType
from typing import Any


class Deoptimise(BaseException):
    """The graph's results must not be used.

    Not an Exception, so that no handler of the user's, copied around the graph, catches it.

    Args:
        charge: told how many nanoseconds the original code took.
    """

    def __init__(self, charge: Callable[[int], None] | None = None) -> None:
        super().__init__()
        _raised.charge = charge  # the generated code that catches it passes nothing on


_raised = threading.local()
"""What was last raised in a thread."""


@dataclass(frozen=True, slots=True, eq=False)
class Deoptimizer:
    """Runs the original code object of a frame.

    Attributes:
        code: the original code object.
        module_globals: its globals.
        roll_back: called first, to undo what was done before the graph.
    """

    code: CodeType
    module_globals: dict[str, Any]
    roll_back: Callable[[], None] | None = None

    def run(self, cells: tuple[CellType, ...], values: tuple[Any, ...]) -> tuple[bool, Any]:
        """Run the code from its start.

        An exception is returned, so that nothing between the frame and its original code is in the
        traceback.

        Args:
            cells: the frame's free variables, in the order of `co_freevars`.
            values: the frame's arguments as it got them, in the order of `co_varnames`: positional,
                keyword-only, then the tuple of `*args` and the dict of `**kwargs` if it has them.

        Returns:
            Whether the original code raises, and what it raises or returns.
        """
        if self.roll_back is not None:
            self.roll_back()
        code, rest = self.code, list(values)
        keywords: dict[str, Any] = rest.pop() if code.co_flags & CO_VARKEYWORDS else {}
        extra: tuple[Any, ...] = rest.pop() if code.co_flags & CO_VARARGS else ()
        count = code.co_argcount
        names = code.co_varnames[count : count + code.co_kwonlyargcount]
        only = dict(zip(names, rest[count:], strict=True))
        function = FunctionType(code, self.module_globals, code.co_name, None, cells)
        charge, _raised.charge = getattr(_raised, "charge", None), None
        begun = time.perf_counter_ns()
        try:
            return False, function(*rest[:count], *extra, **only, **keywords)
        except BaseException as error:
            return True, _without_first_entry(error)
        finally:
            if charge is not None:
                charge(time.perf_counter_ns() - begun)


def _without_first_entry(error: BaseException) -> BaseException:
    """Not in the caller, whose locals the traceback would hold, and be held by."""
    entry = error.__traceback__
    return error.with_traceback(entry and entry.tb_next)
