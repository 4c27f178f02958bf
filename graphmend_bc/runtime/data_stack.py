"""Room on the interpreter's stack for what recurses deeply, such as a trace.

CPython 3.11 and later keep the frames of Python functions in chunks of 16 KiB. A chunk is mapped
when a call needs it and unmapped when that call returns; where a loop happens to make its calls at
the end of a chunk, each of them maps memory anew (python/cpython#142183; mended in 3.13 and 3.14).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SLOTS: Final = 1 << 16
"""Half of a chunk: a frame that claims as many leaves as many, half a MiB, to those it calls."""


def call_with_stack_room(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a frame that claims a chunk of its own.

    The frames it leads to are in that chunk until they need more than half a MiB. The memory is
    mapped, but not touched before it is needed.

    Args:
        function: what is called.
        args, kwargs: its arguments.

    Returns:
        What it returns.

    Example:
        >>> call_with_stack_room(max, 1, 2)
        2
    """
    return function(*args, **kwargs)


call_with_stack_room.__code__ = call_with_stack_room.__code__.replace(co_stacksize=SLOTS)
