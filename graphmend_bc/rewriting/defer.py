"""Mark the callee of an observing call: `print(x)` becomes `Defer(site)(print)(x)`.

The arguments, keywords and the call itself stay as they are, so the rewrite needs only the place
where the callee was pushed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import CO_OPTIMIZED
from types import CodeType

from graphmend_bc.code import facts
from graphmend_bc.code.assemble import Emit
from graphmend_bc.code.blocks import Graph, build
from graphmend_bc.code.listing import Op, decode
from graphmend_bc.code.producers import callee_of
from graphmend_bc.reasons import Refused
from graphmend_bc.rewriting.calls import Writer
from graphmend_bc.runtime import Defer, Site

CALLS = facts.op_set("CALL", "CALL_KW")

OBSERVERS = frozenset(
    "print debug info warning warn error critical debug_once info_once warning_once "
    "error_once warning_advice".split()
)
"""Names under which observing functions are usually called."""


def marked_callees(graph: Graph, offsets: Iterable[int]) -> Mapping[int, Op]:
    """The op that pushes each call's callee.

    Args:
        graph: blocks of the original code.
        offsets: byte offsets of `CALL` instructions.

    Returns:
        From the index of the pushing op to the `CALL` op.

    Raises:
        Refused: a callee is not pushed by a plain load.
    """
    found = {}
    for offset in offsets:
        call = graph.listing.at_offset(offset)
        if call.name not in CALLS:
            raise Refused("unhandled-instruction", f"{call.name} is not a plain call.")
        pushed_by = callee_of(graph, call.index)
        if pushed_by is None or _plain_load(graph.listing.ops[pushed_by]) is None:
            raise Refused("callee-not-found")
        found[pushed_by] = call
    return found


def _plain_load(op: Op) -> tuple[str, object] | None:
    """The load that pushes the callee alone, where `op` pushes it together with NULL or self."""
    if op.name == "LOAD_METHOD":
        return "LOAD_ATTR", op.arg if not facts.LOAD_ATTR_TAKES_FLAG else (False, op.arg)
    if op.name in ("LOAD_ATTR", "LOAD_GLOBAL") and isinstance(op.arg, tuple) and op.arg[0]:
        return op.name, (False, op.arg[1])
    return None


def write_marked(op: Op, site: Site, writer: Writer) -> list[Emit]:
    """The instructions that push `op`'s callee marked by `Defer(site)`."""
    load = _plain_load(op)
    assert load is not None, "marked_callees accepted the op"
    return [
        writer.emit(*load),
        *writer.callable_under_top(Defer(site)),
        *writer.call(1),
        *writer.as_callee(),
    ]


def likely_effects(code: CodeType) -> frozenset[int]:
    """Offsets of the calls whose callee has a name of `OBSERVERS`.

    A mark costs nothing when the callee turns out to be something else, so a name is enough.
    """
    if OBSERVERS.isdisjoint(code.co_names) or not code.co_flags & CO_OPTIMIZED:
        return frozenset()
    graph = build(decode(code))
    offsets = set()
    for op in graph.listing.ops:
        if op.name in CALLS and (pushed_by := callee_of(graph, op.index)) is not None:
            load = _plain_load(graph.listing.ops[pushed_by])
            if load is not None and _name(load[1]) in OBSERVERS:
                offsets.add(op.offset)
    return frozenset(offsets)


def _name(arg: object) -> object:
    return arg[1] if isinstance(arg, tuple) else arg
