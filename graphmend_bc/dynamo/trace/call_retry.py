"""A call that breaks the graph is made again with a marked callee: the trace need not start again.

Dynamo refuses most calls before it does anything. The callee and the arguments are at hand there,
and a mark is no more than another callee. So the rules that mark a call are tried on the spot.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any

from torch._dynamo import exc
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import LocalGeneratorObjectVariable
from torch._dynamo.variables.iter import IteratorVariable
from torch.fx import Graph, Node

from graphmend_bc.dynamo.trace.breaks import break_at
from graphmend_bc.dynamo.trace.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.trace.context import Compilation, TakesPartLate, current
from graphmend_bc.dynamo.trace.earlier_part import EarlierPart
from graphmend_bc.dynamo.trace.inlined_frames import is_in_coroutine

_USED_UP = (IteratorVariable, LocalGeneratorObjectVariable)
"""Arguments that a call may have changed although it was refused."""


def retry_calls(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`InstructionTranslatorBase.call_function`: what every call instruction ends with."""

    def call_function(
        self: InstructionTranslatorBase,
        fn: VariableTracker,
        args: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> None:
        last = next(iter(reversed(self.output.graph.nodes)), None)
        try:
            stock(self, fn, args, kwargs)
        except exc.Unsupported as error:
            if _has_grown(self.output.graph, last) or not _goes_on(self, fn, args, kwargs, error):
                raise

    return call_function


def _has_grown(graph: Graph, last: Node | None) -> bool:
    """Whether there are operators behind what was the last node; inputs do not count."""
    added = takewhile(lambda node: node is not last, reversed(graph.nodes))
    return any(node.op != "placeholder" for node in added)


def _goes_on(
    tx: InstructionTranslatorBase,
    fn: VariableTracker,
    args: list[VariableTracker],
    kwargs: dict[str, VariableTracker],
    error: exc.Unsupported,
) -> bool:
    """Whether a call that was refused has a value after all, because its callee was marked."""
    compilation = current()
    if compilation is None or compilation.mark_at is None or compilation.trace.arms:
        return False
    if tx.output.current_tracer.parent is not None or is_in_coroutine(tx.parent, tx.f_code):
        return False
    if any(isinstance(arg, _USED_UP) for arg in (*args, *kwargs.values())):
        return False
    callee = fn
    while (found := break_at(tx, error)) is not None:
        is_marked = isinstance(callee, MarkedCalleeVariable)
        mark = compilation.mark_at(compilation.trace, found, is_marked)
        if mark is None:
            return False
        _take_part(compilation)
        while isinstance(callee, MarkedCalleeVariable):
            callee = callee.callee
        callee = compilation.handlers[mark.rule](tx, compilation, mark, [callee])
        try:
            tx.push(callee.call_function(tx, args, kwargs))
        except exc.Unsupported as again:
            error.remove_from_stats()
            error = again
            continue
        error.remove_from_stats()
        return True
    return False


def _take_part(compilation: Compilation) -> None:
    if compilation.trace.of(EarlierPart).as_stock:
        raise TakesPartLate
