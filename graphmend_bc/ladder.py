"""The rungs by which a site can be mended, the cheapest first.

where     both arms are computed and one result is chosen
cond      only the arm that is taken runs, inside the graph
loop      a while loop becomes `torch.while_loop`
entered   the same, with the first round taken for granted
round     the same for a loop that is left at the end of a round only
guess     the likely way is compiled alone and checked after the graph; as one condition
each      the same, with every condition of a short circuit guessed by itself
ask       a Python value of a tensor becomes a predicate
defer     a call that only observes runs after the graph
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

from graphmend_bc import config
from graphmend_bc.code.blocks import Graph, build
from graphmend_bc.code.listing import decode
from graphmend_bc.reasons import Refused
from graphmend_bc.rewriting import Plan
from graphmend_bc.rewriting.alike import tensor_conditions
from graphmend_bc.rewriting.asking import jumps_of_decision
from graphmend_bc.rewriting.decision import is_condition
from graphmend_bc.rewriting.defer import CALLS, name_of_callee
from graphmend_bc.rewriting.likely import expectation
from graphmend_bc.rewriting.loops import ends_round, guards_round
from graphmend_bc.runtime import Site

ASKING = frozenset({"item", "bool", "equal", "allclose", "is_nonzero", "__bool__"})
"""Names of functions that make a truth value of a tensor."""

_FINAL = frozenset(
    {
        "inside-transform",
        "left-alone",
        "not-optimized-code",
        "predicate-not-scalar",
        "speculation-missed",
        "under-export",
    }
)
"""Reasons that hold for every rung."""

_COND_HELPS = frozenset(
    {
        "arm-draws-random",
        "arm-may-raise",
        "arm-op-unknown",
        "arm-too-dear",
    }
)
"""Reasons against computing both arms that do not matter if only one of them runs."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One way to mend a site.

    Attributes:
        name: as listed above.
        strategy: what the report calls it.
        apply: adds the site to a plan that does not have it.
        helps: whether it may succeed where a cheaper rung was refused.
    """

    name: str
    strategy: str
    apply: Callable[[Plan], Plan]
    helps: Callable[[Refused], bool] = lambda refused: True


def rungs_at(code: CodeType, offset: int, *, is_effect: bool) -> tuple[Rung, ...]:
    """The ladder of one instruction, as far as `config.strategies` allows it.

    Args:
        code: an original code object.
        offset: the instruction's offset in `co_code`.
        is_effect: for a call: whether Dynamo breaks there because it prints or logs.

    Raises:
        Refused: there is no rung for such an instruction.
    """
    rungs = _all_rungs_at(code, offset, is_effect)
    allowed = tuple(rung for rung in rungs if rung.strategy in config.strategies)
    if not allowed:
        raise Refused("strategy-off", f"It is {rungs[-1].strategy!r}.")
    return allowed


def rungs_ahead(code: CodeType) -> Iterator[tuple[Site, Rung]]:
    """Conditions that look as if they asked tensors, each with its cheapest rung.

    Loops are left out: whether they are worth rewriting shows only when they are met.

    Args:
        code: an original code object.
    """
    for op in tensor_conditions(_graph(code)):
        try:
            rung = rungs_at(code, op.offset, is_effect=False)[0]
        except Refused:
            continue
        if rung.name in ("where", "guess"):
            line = op.location.lineno if op.location is not None else None
            yield Site.of(code, op.name, op.offset, line), rung


@lru_cache(maxsize=16)
def _graph(code: CodeType) -> Graph:
    """The blocks of a code object, the same for every question so that analyses are kept."""
    return build(decode(code))


def _all_rungs_at(code: CodeType, offset: int, is_effect: bool) -> tuple[Rung, ...]:
    graph = _graph(code)
    op = graph.listing.at_offset(offset)
    if op.name in CALLS:
        if is_effect:
            return (Rung("defer", "defer", lambda plan: plan.with_effect(offset)),)
        if name_of_callee(graph, op) not in ASKING:
            raise Refused("call-not-traced")
        return (Rung("ask", "capture", lambda plan: plan.with_ask(offset)),)
    single = Rung("guess", "speculate", lambda plan: plan.with_guesses([offset]))
    if op.name == "UNARY_NOT":
        return (single,)
    if not is_condition(op):
        raise Refused("unhandled-instruction", f"The instruction is {op.name}.")
    block = graph.block_of(op.index)
    jumps = jumps_of_decision(graph, block)
    guesses = [single]
    if len(jumps) > 1:
        guesses.append(Rung("each", "speculate", lambda plan: plan.with_guesses(jumps)))
    if expectation(graph, block).firm:
        return tuple(guesses)
    if guards_round(graph, block):
        return (
            Rung("loop", "while_loop", lambda plan: plan.with_loop(offset)),
            Rung("entered", "while_loop", lambda plan: plan.with_entered_loop(offset)),
        )
    if ends_round(graph, block):
        return (Rung("round", "while_loop", lambda plan: plan.with_round(offset)), *guesses)
    return (
        Rung("where", "where", lambda plan: plan.with_branch(offset)),
        Rung(
            "cond",
            "cond",
            lambda plan: plan.with_cond(offset),
            lambda refused: refused.reason.code in _COND_HELPS,
        ),
        *guesses,
    )


def name_of_rung(plan: Plan, offset: int) -> str:
    """The rung on which a plan has a site; empty if it does not have it."""
    for name, offsets in (
        ("cond", plan.conds),
        ("where", plan.branches),
        ("entered", plan.entered),
        ("loop", plan.loops),
        ("round", plan.rounds),
        ("guess", plan.guesses),
        ("ask", plan.asks),
        ("defer", plan.effects),
    ):
        if offset in offsets:
            return name
    return ""


def rungs_above(rungs: tuple[Rung, ...], name: str, refused: Refused) -> tuple[Rung, ...]:
    """What is left to try after a rung was refused.

    Args:
        rungs: the site's ladder.
        name: the rung it is on; empty if it is on none yet.
        refused: why that does not work.
    """
    if refused.reason.code in _FINAL:
        return ()
    names = [rung.name for rung in rungs]
    left = rungs[names.index(name) + 1 :] if name in names else rungs
    return tuple(rung for rung in left if rung.helps(refused))
