"""The plan that rewrites everything that can be: for `graphmend_bc.rewrite` and for tests."""

from __future__ import annotations

from types import CodeType

from graphmend_bc.catalog.observers import observer_names
from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.conditions.decision import is_condition
from graphmend_bc.rewriting.mark_callee import likely_effects
from graphmend_bc.rewriting.plan import LiftBranch, MarkCallee, Plan
from graphmend_bc.rewriting.rewriter import rewrite


def widest_plan(code: CodeType, *, branches: bool = True, effects: bool = True) -> Plan:
    """All sites of a code object that can be rewritten together, added one by one.

    Args:
        code: a code object as CPython compiled it.
        branches: include conditional jumps.
        effects: include likely effects.

    Returns:
        The plan; empty if nothing can be rewritten.
    """
    plan = Plan()
    jumps = [op.offset for op in graph_of(code).listing.ops if is_condition(op)] if branches else []
    for offset in jumps:
        plan = widened(code, plan, plan.with_all({offset: LiftBranch("where")}))
    for offset in sorted(likely_effects(code, observer_names())) if effects else ():
        plan = widened(code, plan, plan.with_all({offset: MarkCallee("defer")}))
    return plan


def widened(code: CodeType, plan: Plan, wider: Plan) -> Plan:
    """The wider of two plans for a code object if that can be rewritten, else the other.

    Args:
        code: a code object as CPython compiled it.
        plan: what can be rewritten.
        wider: with a site more.
    """
    try:
        rewrite(code, wider)
    except Refused:
        return plan
    return wider
