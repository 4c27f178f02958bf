"""Functions that cache their results: what is inside such a call runs once, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphmend_bc.dynamo.trace.context import Trace, current
from graphmend_bc.dynamo.trace.features import Feature


@dataclass(slots=True, eq=False)
class CachedCalls(Feature):
    """How many such calls are around what is being traced."""

    depth: int = 0


def is_cached(trace: Trace) -> bool:
    """Whether what is being traced is inside the call of a function that caches its results."""
    calls = trace.known(CachedCalls)
    return calls is not None and calls.depth > 0


def call_cached(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`WrapperUserFunctionVariable.call_function`: calls of functions that cache results."""

    def call_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        compilation = current()
        if compilation is None or not hasattr(self.wrapper_obj, "cache_info"):
            return stock(self, *args, **kwargs)
        calls = compilation.trace.of(CachedCalls)
        calls.depth += 1
        try:
            return stock(self, *args, **kwargs)
        finally:
            calls.depth -= 1

    return call_function
