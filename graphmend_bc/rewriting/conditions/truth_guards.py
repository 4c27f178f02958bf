"""Ask for truth values by name: a jump on `c` becomes a jump on `Speculate(site)(c)`.

The control flow stays as it is, so this works wherever a condition can stand.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphmend_bc.code.analysis.blocks import Block, Graph
from graphmend_bc.code.analysis.producers import slots_before
from graphmend_bc.code.assemble import Emit, Label
from graphmend_bc.code.listing import Op
from graphmend_bc.rewriting.calls import CallWriter
from graphmend_bc.rewriting.conditions.branch_prediction import expectation
from graphmend_bc.rewriting.conditions.decision import decision_at, is_condition
from graphmend_bc.runtime import Site, Speculate, Use


def asks_truth(op: Op) -> bool:
    """True for an op that asks an object for its truth value."""
    return is_condition(op) or op.name == "UNARY_NOT"


def speculation_at(graph: Graph, op: Op, site: Site, *, alone: bool) -> Speculate:
    """The primitive for a conditional jump or a `not`.

    Args:
        graph: the blocks.
        op: the jump or `not`.
        site: its site.
        alone: True for the jump by itself, False for the whole short circuit it begins.
    """
    if not is_condition(op):
        return Speculate(site, likely=False)
    found = expectation(graph, graph.block_of(op.index), alone=alone)
    return Speculate(site, found.outcome, found.firm, found.unbounded)


def jumps_of_decision(graph: Graph, block: Block) -> frozenset[int]:
    """Offsets of the jumps that make up the condition which ends `block`."""
    tests = (graph.blocks[test.block] for test in decision_at(graph, block).tests)
    return frozenset(graph.last(b).offset for b in (block, *tests))


def write_speculation(
    op: Op, speculation: Speculate, writer: CallWriter, label: Label | None
) -> list[Emit]:
    """The op, with its condition asked by the primitive."""
    ask = [*writer.callable_under_top(speculation), *writer.call(1)]
    if op.name == "UNARY_NOT":
        return [*ask, writer.emit("UNARY_NOT")]
    if "OR_POP" not in op.name:
        return [*ask, writer.emit(op.name, label=label)]
    # The object itself goes on, not its truth value.
    jump = "POP_JUMP_FORWARD_IF_TRUE" if "TRUE" in op.name else "POP_JUMP_FORWARD_IF_FALSE"
    return [writer.emit("COPY", 1), *ask, writer.emit(jump, label=label), writer.emit("POP_TOP")]


def use_of(graph: Graph, call: Op) -> Use:
    """How the result of a call is used."""
    ops = graph.listing.ops[call.index + 1 : graph.block_of(call.index).stop]
    compare = _comparison(graph, call, ops)
    asked = call if compare is None else compare
    jump = next((op for op in ops if op.index > asked.index and op.name != "TO_BOOL"), call)
    tested = is_condition(jump) and "POP_JUMP" in jump.name
    likely = expectation(graph, graph.block_of(jump.index)).outcome if is_condition(jump) else True
    return Use(tested=tested, compared=compare is not None, likely=likely)


def _comparison(graph: Graph, call: Op, following: Sequence[Op]) -> Op | None:
    """The comparison of the call's result with something that is just loaded, if there is one."""
    compare = next((op for op in following if not op.name.startswith("LOAD_")), call)
    slots = slots_before(graph, compare.index)
    if compare.name != "COMPARE_OP" or slots is None:
        return None
    return compare if frozenset({call.index}) in slots[-2:] else None
