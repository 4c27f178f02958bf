"""Which way a branch most likely goes, as far as its bytecode tells.

The rules are of the kind in Ball and Larus, "Branch prediction for free" (PLDI 1993): raising,
leaving early and complaining are rare, and so are numbers that are not finite and ones that are
equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bytecode import Compare

from graphmend_bc.catalog.observers import observer_names
from graphmend_bc.code.analysis.blocks import EXIT, Block, Graph
from graphmend_bc.code.analysis.dominators import immediate_postdominators, raising_blocks
from graphmend_bc.code.analysis.loops import NaturalLoop, loops
from graphmend_bc.code.analysis.regions import blocks_until
from graphmend_bc.code.listing import name_of
from graphmend_bc.rewriting.conditions.decision import decision_at, jump_outcomes

_RARE_TESTS = frozenset({"isnan", "isinf", "isneginf", "isposinf"})
_USUAL_TESTS = frozenset({"isfinite", "equal", "allclose", "is_nonzero"})


@dataclass(frozen=True, slots=True)
class BranchExpectation:
    """What is expected of a branch.

    Attributes:
        outcome: the truth value of its condition that is likely.
        firm: True if the other way only raises, so that it is never worth compiling.
        unbounded: True if it decides whether a loop goes round again that nothing else ends.
    """

    outcome: bool
    firm: bool = False
    unbounded: bool = False


def expectation(graph: Graph, block: Block, *, alone: bool = False) -> BranchExpectation:
    """The likely way on from a block that ends in a conditional jump.

    Args:
        graph: the blocks.
        block: the block.
        alone: True to look at this jump only, not at the short circuit it may begin.
    """
    decision = decision_at(graph, block)
    on_true, on_false = decision.when_true, decision.when_false
    if alone:
        on_true, on_false = jump_outcomes(graph, block)
    doomed = raising_blocks(graph)
    if (on_true in doomed) != (on_false in doomed):
        return BranchExpectation(on_false in doomed, firm=True)
    join = immediate_postdominators(graph, without=doomed).get(block.index, EXIT)
    for is_rare in _RULES:
        rare = [is_rare(graph, block, way, join) for way in (on_true, on_false)]
        if rare[0] != rare[1]:
            return BranchExpectation(rare[1], unbounded=_is_unbounded(graph, block))
    return BranchExpectation(_of_tests(graph, block), unbounded=_is_unbounded(graph, block))


def _of_tests(graph: Graph, block: Block) -> bool:
    names = {name_of(op.arg) for op in graph.ops(block)}
    if names & _RARE_TESTS:
        return False
    if names & _USUAL_TESTS:
        return True
    compare = next((op for op in reversed(graph.ops(block)[:-1]) if op.name != "TO_BOOL"), None)
    if compare is not None and compare.name == "COMPARE_OP":
        return not Compare(compare.arg).name.startswith("EQ")  # also EQ_CAST, as 3.13 has it
    # `if c: x = ...` without an else: more often than not there is something to do.
    return True


def _uses_up_rounds(graph: Graph, block: Block, way: int, join: int) -> bool:
    """True if the way goes on in a `for` loop that ends in an error when no round is left."""
    loop = innermost_loop(graph, block.index)
    if loop is None or way not in loop.body:
        return False
    ends = {edge.target for edge in graph.blocks[loop.header].successors} - loop.body
    return bool(ends) and ends <= raising_blocks(graph)


def _leaves_loop(graph: Graph, block: Block, way: int, join: int) -> bool:
    loop = innermost_loop(graph, block.index)
    return loop is not None and way not in loop.body


def _only_complains(graph: Graph, block: Block, way: int, join: int) -> bool:
    """True if all the way to the join does is call observers."""
    ops = [op for index in blocks_until(graph, way, join) for op in graph.ops(graph.blocks[index])]
    stores = any(op.name.startswith("STORE_") for op in ops)
    names = observer_names()
    return not stores and any(name_of(op.arg) in names for op in ops)


def _returns_early(graph: Graph, block: Block, way: int, join: int) -> bool:
    """True if the way returns at once while the code goes on elsewhere."""
    return join == EXIT and not graph.blocks[way].successors


_RULES: tuple[Callable[[Graph, Block, int, int], bool], ...] = (
    _only_complains,
    _uses_up_rounds,
    _leaves_loop,
    _returns_early,
)


def innermost_loop(graph: Graph, block: int) -> NaturalLoop | None:
    """The smallest loop that has a block, or None."""
    around = [loop for loop in loops(graph) if block in loop.body]
    return around[-1] if around else None


def _is_unbounded(graph: Graph, block: Block) -> bool:
    loop = innermost_loop(graph, block.index)
    if loop is None or all(edge.target in loop.body for edge in block.successors):
        return False
    return graph.last(graph.blocks[loop.header]).name != "FOR_ITER"
