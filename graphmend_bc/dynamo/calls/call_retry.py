"""A call that breaks the graph is made again with a marked callee: the trace need not start again.

Dynamo refuses most calls before it does anything. The callee and the arguments are at hand there,
and a mark is no more than another callee. So the rules that mark a call are tried on the spot. Not
so where it has traced a function first, such as the `key` of `sorted`: what that has changed would
be changed twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch._dynamo import exc
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import LocalGeneratorObjectVariable
from torch._dynamo.variables.iter import IteratorVariable
from torch.fx import Node

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.frames.breaks import break_at
from graphmend_bc.dynamo.frames.inlined_frames import is_in_coroutine
from graphmend_bc.dynamo.frames.on_stack_replacement import (
    GoesOnOtherwise,
    NotReplaceable,
    go_back_to,
)
from graphmend_bc.dynamo.graph.fx_nodes import is_in_place, last_node, nodes_after
from graphmend_bc.dynamo.trace.compilation import Compilation, current

_USED_UP = (IteratorVariable, LocalGeneratorObjectVariable)
"""Arguments that a call may have changed although it was refused."""


def retry_calls(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`InstructionTranslatorBase.call_function`: what every call instruction ends with."""

    def call_function(self: Translator, fn: VariableTracker, args: Args, kwargs: Keywords) -> None:
        before = _Before.of(self)
        try:
            stock(self, fn, args, kwargs)
        except GoesOnOtherwise as otherwise:
            go_back_to(self, otherwise)
        except exc.Unsupported as error:
            if not _goes_on(self, before, fn, args, kwargs, error):
                raise

    return call_function


class _Before(NamedTuple):
    """What had been traced before a call.

    Attributes:
        last: the last node of the graph.
        functions: how many functions had been traced.
    """

    last: Node | None
    functions: int

    @classmethod
    def of(cls, tx: InstructionTranslatorBase) -> _Before:
        return cls(last_node(tx.output.graph), len(tx.output.tracing_context.traced_code))


def _is_as_before(tx: InstructionTranslatorBase, before: _Before) -> bool:
    """Whether a refused call has added no operator to the graph; inputs do not count.

    An operator that gave no value, because its size is not known, is taken out again.

    Args:
        tx: translator of the frame that calls.
        before: what had been traced before.
    """
    if len(tx.output.tracing_context.traced_code) != before.functions:
        return False
    added = [n for n in nodes_after(tx.output.graph, before.last) if n.op != "placeholder"]
    if not added:
        return True
    node = added[0]
    if len(added) > 1 or node.users or "example_value" in node.meta or is_in_place(node):
        return False
    tx.output.remove_node(node)
    return True


def _goes_on(
    tx: Translator,
    before: _Before,
    fn: VariableTracker,
    args: Args,
    kwargs: Keywords,
    error: exc.Unsupported,
) -> bool:
    """Whether a call that was refused has a value after all, because its callee was marked.

    Args:
        tx: translator of the frame that calls.
        before: what had been traced before the call.
        fn, args, kwargs: the call.
        error: why it was refused.
    """
    compilation = current()
    if compilation is None or not compilation.goes_on or compilation.trace.arms:
        return False
    if tx.output.current_tracer.parent is not None or is_in_coroutine(tx.parent, tx.f_code):
        return False
    if any(isinstance(arg, _USED_UP) for arg in (*args, *kwargs.values())):
        return False
    refused = [error]
    try:
        return _has_value_marked(tx, compilation, before, fn, args, kwargs, refused)
    finally:
        refused.clear()  # the traceback of the last one holds the frame that holds it


def _has_value_marked(
    tx: Translator,
    compilation: Compilation,
    before: _Before,
    callee: VariableTracker,
    args: Args,
    kwargs: Keywords,
    refused: list[exc.Unsupported],
) -> bool:
    """Try marks of the callee, one after the other; `refused` holds the error of the last try."""
    tried = False
    while (found := break_at(tx, refused[0])) is not None and _is_as_before(tx, before):
        is_marked = isinstance(callee, MarkedCalleeVariable)
        mark = compilation.planner.mark_at(compilation.trace, found, is_marked, tried)
        if mark is None:
            return False
        tried = True
        compilation.check_earlier_part()
        while isinstance(callee, MarkedCalleeVariable):
            callee = callee.callee
        if (handler := compilation.handlers.get(mark.rule)) is None:
            raise NotReplaceable
        callee = handler(tx, compilation, mark, [callee])
        try:
            tx.push(callee.call_function(tx, args, kwargs))
        except exc.Unsupported as again:
            refused[0].remove_from_stats()
            refused[0] = again
            continue
        refused[0].remove_from_stats()
        return True
    return False
