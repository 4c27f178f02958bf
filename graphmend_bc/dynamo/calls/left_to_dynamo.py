"""Functions of which the user has told Dynamo what becomes of calls: that counts before a mend.

torch._dynamo.config.ignore_logging_functions = {logging.Logger.info}    does not run
torch._dynamo.substitute_in_graph(warnings.warn)(quiet)                  another one is traced
torch._dynamo.disallow_in_graph(torch.get_num_threads)                   breaks the graph
"""

from __future__ import annotations

from typing import Final

from torch._dynamo import config, trace_rules
from torch._dynamo.variables import PolyfilledFunctionVariable
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.catalog.observers import is_among
from graphmend_bc.dynamo import facts


def is_left_to_dynamo(callee: VariableTracker, function: object) -> bool:
    """Whether an option or a decorator of Dynamo's says what a call becomes.

    Args:
        callee: what is called in a trace, realized.
        function: the Python object behind it, bound methods included.
    """
    if isinstance(callee, PolyfilledFunctionVariable) or is_ignored(function):
        return True
    method = getattr(function, "__func__", function)
    if getattr(method, "_dynamo_marked_constant", False):
        return True
    marks = (*facts.PUT_INTO_GRAPHS, trace_rules.is_callable_disallowed, trace_rules.is_forbidden)
    return any(is_marked(method) for is_marked in marks)


def is_ignored(function: object) -> bool:
    """Whether Dynamo traces calls of a function as if they were not there.

    A function that caches its results is traced as if it did not, so it is one if it calls one.
    """
    ignored = config.ignore_logging_functions
    if is_among(function, ignored):
        return True
    cached = hasattr(function, "cache_info") and getattr(function, "__wrapped__", None)
    called = getattr(getattr(cached, "__code__", None), "co_names", ())
    return any(getattr(known, "__name__", None) in called for known in ignored)


def is_opaque(function: object) -> bool:
    """Whether a graph calls a function of the user's as it is, which may do more than compute.

    Example:
        >>> is_opaque(torch.compiler.allow_in_graph(lambda x: print("hidden")))
        True
    """
    module = getattr(function, "__module__", None) or ""
    if module.partition(".")[0] in _PURE:
        return False
    return any(is_in_graph(function) for is_in_graph in facts.PUT_INTO_GRAPHS)


_PURE: Final = frozenset({"torch", "einops"})
"""Libraries whose functions in graphs only compute."""
