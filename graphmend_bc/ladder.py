"""The ladder of one site: which rung it is on, and what is left to try after a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType

from graphmend_bc.code.blocks import graph_of
from graphmend_bc.reasons import Refused
from graphmend_bc.rewriting import Plan
from graphmend_bc.rewriting.alike import tensor_conditions
from graphmend_bc.rules.registry import rungs_at
from graphmend_bc.rules.rule import Met, Rung
from graphmend_bc.runtime import Site

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


def rungs_ahead(code: CodeType) -> Iterator[tuple[Site, Rung]]:
    """Conditions that look as if they asked tensors, each with its cheapest rung.

    Loops are left out: whether they are worth rewriting shows only when they are met.

    Args:
        code: an original code object.
    """
    for op in tensor_conditions(graph_of(code)):
        try:
            rung = rungs_at(Met(code, op.offset))[0]
        except Refused:
            continue
        if rung.name in ("where", "guess"):
            line = op.location.lineno if op.location is not None else None
            yield Site.of(code, op.name, op.offset, line), rung


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
        ("hoist", plan.hoists),
        ("hits", plan.hits),
        ("defer", plan.effects),
        ("draw", plan.draws),
        ("once", plan.onces),
        ("known", plan.known),
        ("leaf", plan.leaves),
        ("bounds", plan.bounds),
        ("rows", plan.rows),
        ("capture", plan.captures),
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
