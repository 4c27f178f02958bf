"""A `while` loop as a function of one round: what it carries from round to round.

CPython writes `while c: body` with the test twice, before the loop and at the end of each round:

    G: c; jump if false -> X        the guard
    H: body                         the header
    T: c; jump if true -> H         the test
    X: ...

From 3.14 on the guard is the test, too: the body jumps back to it. It is written twice then.

The guard becomes `Loop(site)(c, step, carried..., fixed...)`, where `step` is H to T as a function
that gives the test's condition and the carried variables. A loop without a guard, `while True` with
a `break` at its end, is entered as if its guard had been true.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from graphmend_bc.code import facts
from graphmend_bc.code.analysis import stack
from graphmend_bc.code.analysis.assignment import definitely_assigned, definitely_assigned_before
from graphmend_bc.code.analysis.blocks import Block, Graph, predecessors
from graphmend_bc.code.analysis.liveness import live_in, reads, writes
from graphmend_bc.code.analysis.loops import NaturalLoop, loops
from graphmend_bc.code.listing import Handler, Op
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.conditions.decision import decision_at, is_condition
from graphmend_bc.rewriting.lifting.arms import check_op

_BACK = frozenset({"JUMP_BACKWARD", "NOP", "NOT_TAKEN"})


@dataclass(frozen=True, slots=True)
class Round:
    """A loop as a function of one round.

    Attributes:
        header: index of the round's first block.
        test: index of the block that decides whether there is another round.
        exit: block behind the loop.
        enters: truth value of the guard's condition under which the loop is entered.
        again: truth value of the test's condition under which there is another round.
        carried: locals that a round changes and a later one, or the code behind, reads.
        fixed: locals that a round only reads.
        unbound: those of `carried` that have no value before the first round, which gives them one.
        handler: exception handler around the loop.
    """

    header: int
    test: int
    exit: int
    enters: bool
    again: bool
    carried: tuple[str, ...]
    fixed: tuple[str, ...]
    unbound: frozenset[str]
    handler: Handler | None


def guards_round(graph: Graph, block: Block) -> bool:
    """True if a block's conditional jump guards a loop that can become a function of a round."""
    return _is_found(round_at, graph, block)


def ends_round(graph: Graph, block: Block) -> bool:
    """True if a block's conditional jump ends a round of such a loop."""
    return _is_found(round_ended_by, graph, block)


def _is_found(find: Callable[[Graph, Block], Round], graph: Graph, block: Block) -> bool:
    try:
        find(graph, block)
    except Refused:
        return False
    return True


def round_at(graph: Graph, guard: Block) -> Round:
    """The loop that a conditional jump guards.

    Args:
        graph: the blocks.
        guard: the block that ends in the jump.

    Raises:
        Refused: it guards no loop that can become a function of one round.
    """
    decision = decision_at(graph, guard)
    bound = definitely_assigned_before(graph, guard.stop - 1)
    handler = graph.last(guard).handler
    by_header = {loop.header: loop for loop in loops(graph)}
    again = None if facts.WHILE_TESTS_TWICE else by_header.get(guard.index)
    for enters, first, way_out in (
        (True, decision.when_true, decision.when_false),
        (False, decision.when_false, decision.when_true),
    ):
        loop = by_header.get(first)
        if again is not None and first in again.body and way_out not in again.body:
            found = _round(graph, again, first, (guard.index, enters), way_out, handler, bound)
        elif loop is not None and guard.index not in loop.body:
            merged = {guard.index, *(t.block for t in decision.tests)}
            if predecessors(graph)[first] - loop.body - merged:
                raise Refused("no-such-loop", "The loop has another entry.")
            test = _test_of(graph, loop, way_out)
            found = _round(graph, loop, first, test, way_out, handler, bound)
        else:
            continue
        if found.unbound:
            raise Refused("unbound-in-one-arm", f"The variable is '{min(found.unbound)}'.")
        return replace(found, enters=enters)
    raise Refused("no-such-loop")


def round_ended_by(graph: Graph, test: Block) -> Round:
    """The loop a round of which a conditional jump ends, entered without a condition.

    Args:
        graph: the blocks.
        test: the block that ends in the jump.

    Raises:
        Refused: it ends no round of a loop that can become a function.
    """
    decision = decision_at(graph, test)
    for loop in reversed(loops(graph)):
        for way, way_out in (
            (decision.when_true, decision.when_false),
            (decision.when_false, decision.when_true),
        ):
            if test.index in loop.body and _leads_back(graph, way, loop.header):
                header = graph.blocks[loop.header]
                handler = graph.listing.ops[header.start].handler
                bound = definitely_assigned(graph)[loop.header]
                ends = _test_of(graph, loop, way_out)
                found = _round(graph, loop, loop.header, ends, way_out, handler, bound)
                if found.test == test.index:
                    return found
    raise Refused("no-such-loop")


def _round(
    graph: Graph,
    loop: NaturalLoop,
    first: int,
    ends: tuple[int, bool],
    way_out: int,
    handler: Handler | None,
    bound: Collection[str],
) -> Round:
    test, again = ends
    tests = {test, *(t.block for t in decision_at(graph, graph.blocks[test]).tests)}
    inside = loop.body | tests
    if way_out in inside or graph.last(graph.blocks[loop.header]).name == "FOR_ITER":
        raise Refused("no-such-loop")
    leaving = {
        index
        for index in inside
        for edge in graph.blocks[index].successors
        if edge.target not in inside
    }
    if not leaving <= tests:
        raise Refused("loop-exit")
    ops = [op for index in sorted(inside) for op in graph.ops(graph.blocks[index])]
    for op in ops:
        check_op(op, handler)
        if op.name in ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS"):
            raise Refused("loop-exit")
    if stack.lowest_depth(graph, inside) < stack.depth_at(graph)[first]:
        raise Refused("stack-live-in")
    carried, fixed, unbound = _state(graph, first, way_out, ops, bound)
    return Round(first, test, way_out, True, again, carried, fixed, unbound, handler)


def _test_of(graph: Graph, loop: NaturalLoop, way_out: int) -> tuple[int, bool]:
    """The block that ends a round, and the truth value for another one."""
    for index in sorted(loop.body):
        block = graph.blocks[index]
        if not is_condition(graph.last(block)):
            continue
        decision = decision_at(graph, block)
        ways = (decision.when_true, decision.when_false)
        for again, way in ((True, ways[0]), (False, ways[1])):
            other = ways[1] if again else ways[0]
            if _leads_back(graph, way, loop.header) and _same(graph, other, way_out):
                return index, again
    raise Refused("no-such-loop", "Its test does not stand at the end of a round.")


def _leads_back(graph: Graph, index: int, header: int) -> bool:
    block = graph.blocks[index]
    return index == header or (
        {op.name for op in graph.ops(block)} <= _BACK
        and [edge.target for edge in block.successors] == [header]
    )


def _same(graph: Graph, one: int, two: int) -> bool:
    """True for one block, and for copies of a short way out, which later compilers make."""
    if one == two:
        return True
    a, b = graph.blocks[one], graph.blocks[two]
    shown = [[(op.name, repr(op.arg), op.handler) for op in graph.ops(block)] for block in (a, b)]
    return a.successors == b.successors and shown[0] == shown[1]


def _state(
    graph: Graph, header: int, way_out: int, ops: Iterable[Op], bound: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
    live = live_in(graph)
    written = {name for op in ops for name in writes(op)}
    read = {name for op in ops for name in reads(op)}
    carried = sorted(written & (live[header] | live[way_out]))
    fixed = sorted((read & live[header]) - written)
    at_once = [*fixed, *(name for name in carried if name in live[header])]
    after = definitely_assigned(graph)[way_out]
    for name in [name for name in at_once if name not in bound]:
        raise Refused("unbound-in-one-arm", f"The variable is '{name}'.")
    for name in [name for name in carried if name not in after]:
        raise Refused("unbound-in-one-arm", f"The variable is '{name}'.")
    return tuple(carried), tuple(fixed), frozenset(carried) - frozenset(bound)
