"""The rules for one site in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import CodeType

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.conditions.tensor_conditions import tensor_conditions
from graphmend_bc.rules.registry import candidates_at
from graphmend_bc.rules.rule import BreakSite, Candidate
from graphmend_bc.rules.scalar_reads import CAPTURE
from graphmend_bc.runtime import Site

_FINAL = frozenset(
    {
        "decided-by-chance",
        "inside-transform",
        "left-alone",
        "not-optimized-code",
        "predicate-not-scalar",
        "speculation-missed",
        "under-export",
    }
)
"""Reasons that hold for every rule."""

_IN_FUNCTIONS = frozenset({"hoist", "speculate", "each"})
"""Rules for what stands in an autograd function: what they add can be had outside of its graph."""


def planned_ahead(code: CodeType, lost: Mapping[str, str]) -> Iterator[tuple[Site, Candidate]]:
    """Conditions that look as if they asked tensors, each with its cheapest rule.

    Loops are left out: whether they are worth rewriting shows only when they are met.

    Args:
        code: an original code object.
        lost: what this torch lacks; see `is_on`.
    """
    for op in tensor_conditions(graph_of(code)):
        try:
            cheapest = candidates_at(BreakSite(code, op.offset), lost)[0]
        except Refused:
            continue
        if cheapest.rule.planned_ahead:
            line = op.location.lineno if op.location is not None else None
            yield Site.of(code, op.name, op.offset, line), cheapest


def remaining_rules(
    candidates: tuple[Candidate, ...], name: str, refused: Refused
) -> tuple[Candidate, ...]:
    """What is left to try after a rule was refused.

    Args:
        candidates: all rules for the site.
        name: the rule that was tried; empty if none was yet.
        refused: why that does not work.
    """
    if refused.reason.code in _FINAL:
        return ()
    if refused.reason.code == "inside-function":
        candidates = tuple(c for c in candidates if c.rule.name in {name, *_IN_FUNCTIONS})
    tried = [candidate for candidate in candidates if candidate.rule.name == name]
    left = candidates[candidates.index(tried[0]) + 1 :] if tried else candidates
    done = [_what_it_does(candidate) for candidate in tried]
    return tuple(
        candidate
        for candidate in left
        if candidate.rule.helps(refused) and _what_it_does(candidate) not in done
    )


def without_symbols_first(candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The rules with that which makes symbols at the end.

    A value that is known before a CUDA graph is launched does not split it; a symbol does.

    Args:
        candidates: the rules for a site, the cheapest first.
    """
    return tuple(sorted(candidates, key=lambda candidate: candidate.rule is CAPTURE))


def _what_it_does(candidate: Candidate) -> object:
    """The same for rules that differ in name only."""
    rewrites = {o: replace(rewrite, rule="") for o, rewrite in candidate.rewrites.items()}
    return candidate.rule.handler, rewrites
