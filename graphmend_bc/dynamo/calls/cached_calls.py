"""Functions that cache their results: what is inside such a call runs once, or not at all.

Dynamo goes around the cache and traces the function in each call. Here a trace asks the function
once for the same arguments, as eager Python does, and uses the result again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable

from graphmend_bc.dynamo.calls.higher_order import depth_of
from graphmend_bc.dynamo.graph.fx_nodes import last_node
from graphmend_bc.dynamo.trace.compilation import Trace, current
from graphmend_bc.dynamo.trace.features import Feature


@dataclass(slots=True, eq=False)
class CachedCalls(Feature):
    """Such calls of an attempt.

    Attributes:
        depth: how many are around what is being traced.
        results: by function and arguments.
        traced: how often a function was traced, by its identity: the cache has dropped nothing
            since, as long as that is no more than it keeps.
        held: what the two know by identity.
        effects: Dynamo's notes of the objects that the results are made of.
    """

    stays: ClassVar[bool] = True

    depth: int = 0
    results: dict[tuple[int, Hashable], VariableTracker] = field(default_factory=dict)
    traced: Counter[int] = field(default_factory=Counter)
    held: list[object] = field(default_factory=list)
    effects: object = None

    def results_for(self, output: OutputGraph) -> dict[tuple[int, Hashable], VariableTracker]:
        """The results that are known where Dynamo is; it may trace anew, or a part on trial."""
        if self.effects is not output.side_effects:
            self.results.clear()
            self.effects = output.side_effects
        return self.results


def is_cached(trace: Trace) -> bool:
    """Whether what is being traced is inside the call of a function that caches its results."""
    calls = trace.known(CachedCalls)
    return calls is not None and calls.depth > 0


def call_cached(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`WrapperUserFunctionVariable.call_function`: calls of functions that cache results."""

    def call_function(
        self: Any,
        tx: InstructionTranslatorBase,
        args: Sequence[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> Any:
        compilation = current()
        if compilation is None or not hasattr(self.wrapper_obj, "cache_info"):
            return stock(self, tx, args, kwargs)
        trace = compilation.trace
        calls = trace.of(CachedCalls)
        results = calls.results_for(tx.output)
        key = _key(self, args, kwargs) if compilation.may_mend else None
        if key in results and _keeps(self.wrapper_obj, calls.traced[id(self.wrapper_obj)]):
            return results[key]
        before = _added(trace, tx.output)
        calls.traced[id(self.wrapper_obj)] += 1
        calls.held += (self, *args, *kwargs.values())
        calls.depth += 1
        try:
            result = stock(self, tx, args, kwargs)
        finally:
            calls.depth -= 1
        if key is not None and not _on_trial(trace, tx) and _added(trace, tx.output) == before:
            results[key] = result
        return result

    return call_function


def _keeps(function: Any, results: int) -> bool:
    """Whether the cache of a function has room for so many results."""
    most = function.cache_parameters()["maxsize"]
    return most is None or results <= most


def _on_trial(trace: Trace, tx: InstructionTranslatorBase) -> bool:
    """Whether this is an arm, or the body of an operator.

    Dynamo tells objects that are made there from others.
    """
    return bool(trace.arms or depth_of(trace) or tx.output.current_tracer.parent is not None)


def _added(trace: Trace, output: OutputGraph) -> tuple[object, ...]:
    """What a call adds that the trace is about, and not only its result."""
    return last_node(output.graph), len(output.random_calls), len(trace.effects)


def _key(
    function: Any, args: Sequence[VariableTracker], kwargs: dict[str, VariableTracker]
) -> tuple[int, Hashable] | None:
    """Equal for calls that the cache takes for the same; None if that is not known."""
    parts = [_part(arg) for arg in (*function.self_args(), *args, *kwargs.values())]
    if None in parts:
        return None
    return id(function.wrapper_obj), (len(args), *kwargs, *parts)


def _part(arg: VariableTracker) -> Hashable:
    arg = arg.realize()
    if arg.is_python_constant():
        return _constant(arg.as_python_constant())
    if isinstance(arg, UserDefinedObjectVariable):
        kind: Any = arg.python_type()
        return id(arg) if (kind.__hash__, kind.__eq__) == _BY_IDENTITY else None
    return None


_BY_IDENTITY = (object.__hash__, object.__eq__)

_PLAIN = (str, int, float, bool, bytes, type(None), torch.dtype)


def _constant(value: object) -> Hashable:
    """As `_part`. The cache takes 1 and True for the same, and -0.0 and 0.0; here they are not."""
    if isinstance(value, tuple) and type(value) in (tuple, torch.Size):
        parts = tuple(map(_constant, value))
        return None if None in parts else (type(value), *parts)
    return (type(value), repr(value)) if type(value) in _PLAIN else None
