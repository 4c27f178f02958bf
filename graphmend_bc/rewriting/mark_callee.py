"""Mark the callee of a call: `print(x)` becomes `MarkedCallee(site, rule)(print)(x)`.

The arguments, keywords and the call itself stay as they are, so the rewrite needs only the place
where the callee was pushed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from inspect import CO_OPTIMIZED, CO_VARARGS
from types import CodeType

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.blocks import Graph, graph_of
from graphmend_bc.code.analysis.producers import callee_of, pushes_pair, slots_before
from graphmend_bc.code.assemble import Emit
from graphmend_bc.code.listing import Op, name_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.calls import CallWriter
from graphmend_bc.rewriting.conditions.truth_guards import use_of
from graphmend_bc.rewriting.plan import MarkCallee, Rewrite
from graphmend_bc.runtime import MarkedCallee, Primitive, Site

CALLS = facts.op_set("CALL", "CALL_KW", "CALL_FUNCTION_EX")


def marked_callees(
    graph: Graph, offsets: Iterable[int], *, in_order: bool = True
) -> Mapping[int, Op]:
    """The op that pushes each call's callee.

    Args:
        graph: blocks of the original code.
        offsets: byte offsets of `CALL` instructions.
        in_order: whether the order matters in which the call unpacks its arguments.

    Returns:
        From the index of the pushing op to the `CALL` op.

    Raises:
        Refused: a callee is not pushed by a plain load.
    """
    found = {}
    for offset in offsets:
        call = graph.listing.at_offset(offset)
        if call.name not in CALLS or (in_order and not unpacks_in_order(graph, call)):
            raise Refused("unhandled-instruction", f"{call.name} is not a plain call.")
        pushed_by = callee_of(graph, call.index)
        if pushed_by is None or graph.listing.ops[pushed_by].name not in _LOADS:
            raise Refused("callee-not-found")
        found[pushed_by] = call
    return found


def write_marked(op: Op, primitive: Primitive, writer: CallWriter) -> list[Emit]:
    """The instructions that push `op`'s callee marked by a primitive."""
    mark = [*writer.callable_under_top(primitive), *writer.call(1)]
    if not pushes_pair(op):
        return [writer.emit(op.name, op.arg), *mark]
    # The load pushed NULL or self as well; mark the plain attribute, then make it callable again.
    if op.name == "LOAD_METHOD":
        load = writer.emit("LOAD_ATTR", op.arg)
    else:
        load = writer.emit(op.name, (False, op.arg[1]))
    return [load, *mark, *writer.as_callee()]


def likely_effects(code: CodeType, names: frozenset[str]) -> frozenset[int]:
    """Offsets of the calls whose callee has one of the names.

    A mark costs nothing when the callee turns out to be something else, so a name is enough.
    """
    used = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
    if names.isdisjoint(used) or not code.co_flags & CO_OPTIMIZED:
        return frozenset()
    graph = graph_of(code)
    offsets = set()
    for op in graph.listing.ops:
        if op.name in CALLS and (pushed_by := callee_of(graph, op.index)) is not None:
            load = graph.listing.ops[pushed_by]
            if load.name in _LOADS and name_of(load.arg) in names:
                offsets.add(op.offset)
    return frozenset(offsets)


def unpacks_in_order(graph: Graph, call: Op) -> bool:
    """True unless `f(*values)` may unpack a set, whose order Dynamo does not keep.

    `f(*args)` unpacks a tuple if `args` are the function's own, `f(1, *values)` a list that the
    bytecode has made by then.

    Args:
        graph: blocks of the code.
        call: a call in it.
    """
    if call.name != "CALL_FUNCTION_EX":
        return True
    slots = slots_before(graph, call.index) or ()
    has_keywords = not facts.CALL_FUNCTION_EX_TAKES_FLAGS or call.arg & 1
    makers = [graph.listing.ops[i] for i in slots[-2 if has_keywords else -1]] if slots else []
    return bool(makers) and all(op.name in _ROWS or _is_own(graph, op) for op in makers)


def _is_own(graph: Graph, load: Op) -> bool:
    """True for a load of `args` in `def f(*args)` if nothing else is stored there."""
    code = graph.listing.code
    count = code.co_argcount + code.co_kwonlyargcount
    name = code.co_varnames[count] if code.co_flags & CO_VARARGS else ""
    is_stored = any(op.name == "STORE_FAST" and op.arg == name for op in graph.listing.ops)
    return load.name == "LOAD_FAST" and load.arg == name and not is_stored


def calls_named(code: CodeType, names: Container[str]) -> list[int]:
    """Offsets of the calls of a code object whose callee was loaded under one of some names.

    Args:
        code: as CPython compiled it.
        names: of callees.
    """
    graph = graph_of(code)
    calls = [op for op in graph.listing.ops if op.name in CALLS]
    return [call.offset for call in calls if name_of_callee(graph, call) in names]


def name_of_callee(graph: Graph, call: Op) -> str:
    """The name under which a call's callee was loaded; empty if it was not just loaded."""
    pushed_by = callee_of(graph, call.index)
    return "" if pushed_by is None else name_of(graph.listing.ops[pushed_by].arg)


_LOADS = facts.op_set(
    "LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "LOAD_FAST", "LOAD_DEREF", "LOAD_FAST_CHECK"
)

_ROWS = facts.op_set("BUILD_TUPLE", "LOAD_CONST", "LIST_EXTEND", "LIST_TO_TUPLE")


def mark_of(graph: Graph, call: Op, site: Site, rewrite: Rewrite) -> MarkedCallee:
    """The mark of a call's callee.

    Args:
        graph: blocks of the original code.
        call: the call.
        site: of it.
        rewrite: what is planned for it.
    """
    assert isinstance(rewrite, MarkCallee)
    if rewrite.with_use:
        return MarkedCallee(site, rewrite.rule, use_of(graph, call))
    return MarkedCallee(site, rewrite.rule)
