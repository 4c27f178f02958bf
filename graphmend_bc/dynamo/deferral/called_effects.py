"""Calls that only observe are marked where Dynamo is about to make them.

No code is looked through or rewritten for them: a function that has none costs nothing, and one
that has some no attempt.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.misc import NullVariable

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.code.facts import CALL_FUNCTION_EX_TAKES_FLAGS
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable, name_of
from graphmend_bc.dynamo.deferral.deferred_calls import is_deferrable
from graphmend_bc.dynamo.frames.breaks import instruction_of
from graphmend_bc.dynamo.host_values.host_reads import is_plain, is_read
from graphmend_bc.dynamo.trace.compilation import Compilation, current
from graphmend_bc.dynamo.trace.earlier_part import EarlierPart
from graphmend_bc.rewriting.mark_callee import CALLS, unpacks_in_order
from graphmend_bc.runtime import MarkedCallee

_RULE: Final = "defer"


def listen_for_effects(
    translator: InstructionTranslatorBase, compilation: Compilation, code: CodeType
) -> None:
    """Meet the calls of what a translator is about to trace.

    Args:
        translator: its table of handlers is exchanged for one of its own.
        compilation: what is being compiled.
        code: the code object, or the one that it comes from.
    """
    if not compilation.planner.marks_calls_in(code):
        return
    compilation.trace.of(EarlierPart).marks = True
    table: list[Any] = list(translator.dispatch_table)
    for name in CALLS:
        table[dis.opmap[name]] = _call(table[dis.opmap[name]])
    translator.dispatch_table = table


def _call(stock: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, inst: Any) -> None:
        compilation = current()
        if compilation is not None and compilation.handlers.get(_RULE) is not None:
            _mark(self, compilation, inst)
        stock(self, inst)

    return call


def _mark(tx: InstructionTranslatorBase, compilation: Compilation, inst: Any) -> None:
    """Mark the callee on the stack, if its call may run after the graph."""
    index = _place_of_callee(tx.stack, inst)
    if index is None:
        return
    callee = tx.stack[index].realize()
    if isinstance(callee, MarkedCalleeVariable):
        return
    if name_of(callee) not in compilation.planner.called_as or not is_deferrable(callee):
        return
    converts = isinstance(callee, BuiltinVariable) and is_read(callee)
    if converts and not is_plain(tx.stack[-1]):  # `int(n)` of a number
        return
    place = instruction_of(tx)
    if place is None:
        return
    graph = graph_of(tx.f_code)
    if not unpacks_in_order(graph, graph.listing.at_offset(place[1])):
        return
    site = compilation.planner.site_at(*place)
    if not compilation.mends(site) or not compilation.planner.note_mark(site):
        return
    compilation.check_earlier_part()
    mark = MarkedCallee(site, _RULE)
    tx.stack[index] = compilation.handlers[_RULE](tx, compilation, mark, [callee])


def _place_of_callee(stack: list[VariableTracker], inst: Any) -> int | None:
    """Where on the stack the callee of a call is; it lies beside NULL, above or below it."""
    count: int = inst.arg or 0
    if inst.opname == "CALL_FUNCTION_EX":
        count = 1 + (count & 1) if CALL_FUNCTION_EX_TAKES_FLAGS else 2
    elif inst.opname == "CALL_KW":
        count += 1
    first = len(stack) - count - 2
    for callee, null in ((first, first + 1), (first + 1, first)):
        if first >= 0 and type(stack[null]) is NullVariable:
            return callee
    return None
