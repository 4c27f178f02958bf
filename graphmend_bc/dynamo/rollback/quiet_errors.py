"""What torch.fx prints of a graph that raises: nothing where the graph is rolled back.

A call of a graph module that raises prints a traceback to stderr before it raises further. The
original code then runs and raises what eager Python raises, which prints nothing.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar

from graphmend_bc.dynamo.frames.generated_code import OURS

F = TypeVar("F", bound=Callable[..., Any])

_ROLLED_BACK: set[CodeType] = set()


def rolled_back(function: F) -> F:
    """Decorator of a function that runs a graph and, if it raises, leaves nothing behind."""
    assert isinstance(function, FunctionType)
    _ROLLED_BACK.add(function.__code__)
    return function


def printing(stock: Callable[..., None] | None) -> Callable[..., None]:
    """`print`, as `torch.fx.graph_module` sees it. It costs nothing until something is printed.

    Args:
        stock: what stands in that module for Python's own; None if nothing does.
    """

    def print(*values: Any, **kwargs: Any) -> None:
        if not _reports_what_is_rolled_back():
            (stock or builtins.print)(*values, **kwargs)

    return print


def _reports_what_is_rolled_back() -> bool:
    """True if a graph module reports what it raises to a function that takes the graph back."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(OURS):
        frame = frame.f_back
    if frame is None or frame.f_code.co_qualname != "_WrappedCall.__call__":
        return False
    caller = frame.f_back
    while caller is not None and caller.f_code not in _ROLLED_BACK:
        caller = caller.f_back
    return caller is not None
