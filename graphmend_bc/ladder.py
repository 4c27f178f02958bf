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


def rungs_above(
    rungs: tuple[Rung, ...], name: str | None, plan: Plan, offset: int, refused: Refused
) -> tuple[Rung, ...]:
    """What is left to try after a rung was refused.

    Args:
        rungs: the site's ladder.
        name: the rung that it was put on; None if an earlier compilation did that.
        plan: has it on its rung.
        offset: the site's.
        refused: why that does not work.
    """
    if refused.reason.code in _FINAL:
        return ()
    without = plan.without(offset)
    # Several rungs may do the same; none of them is tried again.
    tried = [
        index
        for index, rung in enumerate(rungs)
        if rung.name == name or _widens(rung, without, plan)
    ]
    left = rungs[tried[-1] + 1 :] if tried else rungs
    return tuple(rung for rung in left if rung.helps(refused))


def _widens(rung: Rung, plan: Plan, wider: Plan) -> bool:
    """True if a rung makes one plan of the other."""
    try:
        return rung.apply(plan) == wider
    except Refused:
        return False
