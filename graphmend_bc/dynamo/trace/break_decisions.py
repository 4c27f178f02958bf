"""Decide about a graph break where Dynamo is about to make it.

A break that nothing can mend is made at once, as stock makes it: it costs no attempt. Where a plan
was changed for it, the attempt ends with `BreakTakenUp`. One of Dynamo's two functions that are
replaced here is called before every break that it makes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch._dynamo import exc

from graphmend_bc.dynamo.trace.compilation import current
from graphmend_bc.dynamo.trace.features import Feature

_UNDER_CONTEXT_MANAGERS = "Graph break under GenericContextWrappingVariable"
"""What Dynamo makes of a break after which it cannot go on; the break itself is its context."""


class BreakTakenUp(Exception):
    """An attempt met a break that another attempt may mend.

    Args:
        error: the break.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def before_break(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`log_graph_break` and `raise_loop_graph_break`: what Dynamo does when a break is certain."""

    def decide(*args: Any, **kwargs: Any) -> Any:
        found = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, Exception)]
        error = found[0] if found else sys.exc_info()[1]
        if isinstance(error, Exception):
            _decide(error)
        return stock(*args, **kwargs)

    return decide


def _decide(error: Exception) -> None:
    """Raises `BreakTakenUp` if the attempt is not to go on."""
    compilation = current()
    if compilation is None or compilation.takes_up is None or compilation.left_break:
        return
    for feature in compilation.trace.obliged(Feature.on_break):
        feature.on_break()
    first = _first_of(error)
    if compilation.takes_up(compilation, first):
        raise BreakTakenUp(first)
    compilation.left_break = True


def _first_of(error: Exception) -> Exception:
    """The break itself, where Dynamo has met another one while it handled it."""
    before = error.__context__
    is_another = getattr(error, "gb_type", "") == _UNDER_CONTEXT_MANAGERS
    if is_another and isinstance(before, (exc.Unsupported, exc.UserError)):
        return before
    return error
