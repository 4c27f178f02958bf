"""What the two arms of a branch take in and give back, and whether they may become functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphmend_bc.code import facts
from graphmend_bc.code.analysis import stack
from graphmend_bc.code.analysis.assignment import definitely_assigned, definitely_assigned_before
from graphmend_bc.code.analysis.blocks import EXIT, Block, Graph
from graphmend_bc.code.analysis.dominators import immediate_postdominators, raising_blocks
from graphmend_bc.code.analysis.liveness import live_in, reads, writes
from graphmend_bc.code.analysis.producers import may_be_null, slots_before
from graphmend_bc.code.analysis.regions import blocks_until
from graphmend_bc.code.kept import kept
from graphmend_bc.code.listing import Handler, Op
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.conditions.decision import Decision, decision_at
from graphmend_bc.rewriting.inplace_writes import attribute_written_inplace

_REFUSED_OPS = {
    "STORE_GLOBAL": "arm-writes-scope",
    "DELETE_GLOBAL": "arm-writes-scope",
    "STORE_NAME": "arm-writes-scope",
    "DELETE_NAME": "arm-writes-scope",
    "STORE_DEREF": "arm-writes-scope",
    "DELETE_DEREF": "arm-writes-scope",
    "DELETE_FAST": "arm-deletes-local",
    "LOAD_FAST_AND_CLEAR": "arm-deletes-local",
    "YIELD_VALUE": "arm-yields",
    "SEND": "arm-yields",
    "RETURN_GENERATOR": "arm-yields",
    "GET_AWAITABLE": "arm-yields",
    "IMPORT_NAME": "arm-imports",
    "IMPORT_STAR": "arm-imports",
    "RERAISE": "arm-raises",
    "LOAD_LOCALS": "arm-inspects-frame",
    "LOAD_NAME": "arm-inspects-frame",
}
_NEVER_RAISE = facts.op_set(
    "COPY",
    "JUMP_FORWARD",
    "LOAD_COMMON_CONSTANT",
    "LOAD_CONST",
    "LOAD_FAST",
    "NOP",
    "NOT_TAKEN",
    "POP_TOP",
    "RETURN_CONST",
    "RETURN_VALUE",
    "STORE_FAST",
    "SWAP",
)
_FRAME_READERS = frozenset({"super", "locals", "vars", "dir", "eval", "exec", "breakpoint"})


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of a branch.

    Attributes:
        entry: index of its first block; the join itself if the arm is empty.
        blocks: its blocks.
        kept: values that the jump to it leaves on the stack above the branch's other slots.
    """

    entry: int
    blocks: frozenset[int]
    kept: int


@dataclass(frozen=True, slots=True)
class Lift:
    """A branch as two functions.

    Attributes:
        block: index of the branching block.
        decision: its condition, further tests included.
        join: block where the arms meet, or EXIT.
        when_true, when_false: the arms.
        live_ins: locals passed to both arms.
        live_outs: locals both arms give back.
        stack_ins: stack slots below the condition that the arms consume.
        stack_outs: stack slots the arms leave at the join in their place.
        handler: exception handler around the branch.
    """

    block: int
    decision: Decision
    join: int
    when_true: Arm
    when_false: Arm
    live_ins: tuple[str, ...]
    live_outs: tuple[str, ...]
    stack_ins: int
    stack_outs: int
    handler: Handler | None


@kept(512)
def lift(graph: Graph, block: Block) -> Lift:
    """Describe the branch that ends `block` as two functions over its live-ins.

    Raises:
        Refused: the arms cannot become functions with the same meaning.
    """
    decision = decision_at(graph, block)
    join = _join(graph, block, decision)
    handler = graph.last(block).handler
    sides = [
        Arm(entry, blocks_until(graph, entry, join), kept=_kept(graph, block, entry, decision))
        for entry in (decision.when_true, decision.when_false)
    ]
    inside = sides[0].blocks | sides[1].blocks
    if block.index in inside:
        raise Refused("loop-exit")
    ops = [op for index in sorted(inside) for op in _ops(graph, graph.blocks[index])]
    for op in ops:
        check_op(op, handler)
    if name := attribute_written_inplace(ops):
        raise Refused("arm-mutates-tensor", f"It is the attribute '{name}' of an object.")
    outs = _live_outs(graph, join, ops)
    for side in sides:
        _check_handler_reads(graph, handler, [op for op in ops if _is_in(graph, op, side)])
    stack_ins, stack_outs = _stack_interface(graph, block, join, inside)
    below = stack.depth_before(graph, block.stop - 1) - 1 - stack_ins
    if handler is not None and handler.depth is not None and below < handler.depth:
        raise Refused("exception-region")  # the handler counts on what the arms would consume
    return Lift(
        block=block.index,
        decision=decision,
        join=join,
        when_true=sides[0],
        when_false=sides[1],
        live_ins=_live_ins(graph, block, sides, ops, outs),
        live_outs=outs,
        stack_ins=stack_ins,
        stack_outs=stack_outs,
        handler=handler,
    )


def _join(graph: Graph, block: Block, decision: Decision) -> int:
    """Where the arms meet. Ways that end in a raise meet nobody, so they do not count.

    Raises:
        Refused: an arm only raises.
    """
    doomed = raising_blocks(graph)
    if decision.when_true in doomed or decision.when_false in doomed:
        raise Refused("arm-raises")
    return immediate_postdominators(graph, without=doomed)[block.index]


def check_test(graph: Graph, branch: Block, test: Block) -> tuple[str, ...]:
    """Locals that a further condition of a branch reads.

    Raises:
        Refused: the condition cannot become a function.
    """
    ops = _ops(graph, test)
    for op in ops:
        check_op(op, graph.last(branch).handler)
    names = tuple(sorted({name for op in ops for name in reads(op)}))
    bound = definitely_assigned_before(graph, branch.stop - 1)
    for name in names:
        if name not in bound:
            raise Refused("unbound-in-one-arm", f"The variable is '{name}'.")
    return names


def _ops(graph: Graph, block: Block) -> tuple[Op, ...]:
    return graph.listing.ops[block.start : block.stop]


def _kept(graph: Graph, block: Block, entry: int, decision: Decision) -> int:
    """1 if the jump to `entry` leaves the condition on the stack (JUMP_IF_TRUE_OR_POP)."""
    if decision.tests or "OR_POP" not in graph.last(block).name:
        return 0
    return int(any(edge.jump and edge.target == entry for edge in block.successors))


def check_op(op: Op, handler: Handler | None) -> None:
    """Refuse an op that cannot stand in an arm.

    Args:
        op: an op of the arm.
        handler: the exception handler of the branch; the arm's ops must have the same.

    Raises:
        Refused: the op writes outside of the arm, sees or leaves its frame, imports something, or
            has another handler.
    """
    check_scope(op)
    # Python 3.12 makes two of a conditional jump back; it covers only the first one by a handler.
    # Nor does 3.14 cover what only tells that a jump was not taken.
    is_left_out = op.name in ("JUMP_BACKWARD", "NOT_TAKEN") and op.handler is None
    if op.handler != handler and not is_left_out:
        raise Refused("exception-region")


def check_scope(op: Op) -> None:
    """Refuse an op that cannot stand in another function than the one it is written in.

    Args:
        op: it.

    Raises:
        Refused: it writes outside of the function, sees or leaves its frame, or imports something.
    """
    if op.name in _REFUSED_OPS:
        raise Refused(_REFUSED_OPS[op.name])
    if op.name == "LOAD_GLOBAL" and op.arg[1] in _FRAME_READERS:
        raise Refused("arm-inspects-frame", f"It calls {op.arg[1]}().")


def _live_outs(graph: Graph, join: int, ops: Iterable[Op]) -> tuple[str, ...]:
    if join == EXIT:
        return ()
    written = {name for op in ops for name in writes(op)}
    outs = sorted(written & live_in(graph)[join])
    bound = definitely_assigned(graph)[join]
    for name in outs:
        if name not in bound:
            raise Refused("unbound-in-one-arm", f"The variable is '{name}'.")
    return tuple(outs)


def _live_ins(
    graph: Graph, block: Block, arms: Iterable[Arm], ops: Iterable[Op], outs: tuple[str, ...]
) -> tuple[str, ...]:
    live = live_in(graph)
    read = {name for op in ops for name in reads(op)}
    wanted = {name for arm in arms for name in live[arm.entry] & read if arm.blocks}
    bound = definitely_assigned_before(graph, block.stop - 1)
    for name in sorted(wanted):
        if name not in bound:
            raise Refused("unbound-in-one-arm", f"The variable is '{name}'.")
    kept = frozenset[str]().union(*(live[arm.entry] for arm in arms))  # an arm may not write it
    wanted |= {name for name in outs if name in bound and name in kept}
    order = {name: i for i, name in enumerate(graph.listing.code.co_varnames)}
    return tuple(sorted(wanted, key=lambda name: (order.get(name, len(order)), name)))


def _check_handler_reads(graph: Graph, handler: Handler | None, ops: Iterable[Op]) -> None:
    """An arm's writes reach the frame when it is done, too late for a handler that reads them."""
    if handler is None:
        return
    seen = live_in(graph)[graph.block_of(handler.target).index]
    written: set[str] = set()
    for op in ops:
        if written and op.name not in _NEVER_RAISE:
            raise Refused("handler-sees-write", f"The variable is '{min(written)}'.")
        written |= set(writes(op)) & seen


def _is_in(graph: Graph, op: Op, arm: Arm) -> bool:
    return graph.block_of(op.index).index in arm.blocks


def _stack_interface(
    graph: Graph, block: Block, join: int, inside: frozenset[int]
) -> tuple[int, int]:
    """Slots the arms consume below the condition, and slots they leave at the join."""
    depth = stack.depth_at(graph)
    base = stack.depth_before(graph, block.stop - 1) - 1
    lowest = min([base, *([depth[join]] if join != EXIT else [])])
    if inside:
        lowest = min(lowest, stack.lowest_depth(graph, inside))
    slots = slots_before(graph, block.stop - 1)
    if slots is None or any(may_be_null(graph, slot) for slot in slots[lowest:base]):
        raise Refused("stack-live-in")
    return base - lowest, (depth[join] - lowest if join != EXIT else 0)
