"""Conditions that look as if a tensor were asked, before a tracer has met them."""

from __future__ import annotations

from graphmend_bc.code.analysis.blocks import Block, Graph, reachable
from graphmend_bc.code.listing import Op, name_of
from graphmend_bc.rewriting.conditions.decision import is_condition
from graphmend_bc.rewriting.conditions.truth_guards import jumps_of_decision

_REDUCTIONS = frozenset(
    {"all", "allclose", "any", "equal", "isfinite", "isinf", "isnan", "isneginf", "isposinf"}
    | {"item", "max", "mean", "min", "norm", "sum"}
)
"""Methods of tensors, and functions of torch, that are asked for a truth value most often."""


def tensor_conditions(graph: Graph) -> tuple[Op, ...]:
    """Conditional jumps whose condition is made by a method or function of such a name.

    A builtin of that name, as in `if any(flags)`, does not count. Of a short circuit only the first
    jump is there, which stands for the whole.

    Args:
        graph: the blocks of a code object.

    Returns:
        The jumps, in the order of the code. They may turn out not to ask tensors.
    """
    found: list[Op] = []
    seen: set[int] = set()
    reached = reachable(graph)  # code that a tool generated may have blocks that nothing leads to
    for block in graph.blocks:
        if block.index not in reached:
            continue
        jump = graph.last(block)
        if not is_condition(jump) or jump.offset in seen or not _reduces(graph, block):
            continue
        seen |= jumps_of_decision(graph, block)
        found.append(jump)
    return tuple(found)


def _reduces(graph: Graph, block: Block) -> bool:
    for op in reversed(graph.listing.ops[block.start : block.stop - 1]):
        if op.name.startswith("STORE_") or op.name == "POP_TOP":
            return False
        if op.name in ("LOAD_METHOD", "LOAD_ATTR") and name_of(op.arg) in _REDUCTIONS:
            return True
    return False
