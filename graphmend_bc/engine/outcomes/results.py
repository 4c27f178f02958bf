"""What one frame came to: the report, and the plans that worked."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import reduce
from types import CodeType

from graphmend_bc.dynamo.before_graph.hoist import Hoists
from graphmend_bc.dynamo.frames.breaks import gb_id_of
from graphmend_bc.dynamo.frames.torch_logs import log_bytecode, trace_mend
from graphmend_bc.dynamo.speculation.loop_rounds import Rounds
from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.engine.decisions.check_outcomes import taught
from graphmend_bc.engine.plans.site_plans import Plans
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.report import Mend
from graphmend_bc.rewriting import Plan
from graphmend_bc.rewriting.plan import LiftBranch
from graphmend_bc.rules.hoisting import HOIST
from graphmend_bc.rules.random_draws import DRAW
from graphmend_bc.rules.registry import all_rules
from graphmend_bc.runtime import Site

mends_log = logging.getLogger("graphmend_bc.mends")

_BY_VALUE = frozenset({HOIST.strategy, DRAW.strategy})
"""Strategies whose mends are compiled for single values."""


def report_result(
    state: MendingState,
    plans: Plans,
    code: CodeType,
    trace: Trace,
    used: Mapping[Site, str],
    *,
    cut: bool = True,
) -> None:
    """Report what a frame came to and remember the plans that worked.

    Args:
        state: for the report, and to remember.
        plans: of the frame.
        code: its own.
        trace: its last attempt.
        used: sites that are mended in it, each with the strategy.
        cut: whether it ends at a break, behind which there may be planned branches.
    """
    if used:
        state.counts_of(code).sites |= used.keys()
    lists = _lists(trace)
    for site, strategy in used.items():
        if strategy in _BY_VALUE and site not in state.guarded:
            state.note_hoist(code, site, lists.get(site))
        gb_type = plans.gb_type(site) or trace.gb_types.get(site, "")
        passed_over = tuple(str(refused) for refused in plans.passed_over.get(site, ()))
        rule = _rule_of(plans, site, strategy)
        mend = Mend(strategy, site, gb_type, gb_id_of(gb_type), passed_over, rule)
        trace_mend(strategy, site, mend.as_dict)
        if state.note(mend):
            mends_log.info("mended %s", mend)
    for decline in plans.declined.values():
        if decline.site in used:
            continue
        state.note_decline(decline)
    if used:
        log_bytecode(code, [f"{used[site]} {site}" for site in used], plans.rewritten_codes)
    plans.take_out_declined()
    plans.unmet -= used.keys()
    for site in plans.unmet:
        plans.take_out(site)
    for key, plan in plans.by_code.items():
        # Branches may have been planned in an arm that was left again: no trace will meet them.
        unproven = plan.of_kind(LiftBranch).keys() - {s.offset for s in used if s.code is key}
        if (proven := reduce(Plan.without, unproven, plan)) and not (unproven and cut):
            state.remember_plan(key, proven, plans.gb_types_of(key))


def _lists(trace: Trace) -> dict[Site, int]:
    """Hashes of what has many values, by the sites that the attempt is compiled for them at."""
    hoists, rounds = trace.known(Hoists), trace.known(Rounds)
    found = {} if hoists is None else hoists.lists
    return found if rounds is None else found | rounds.hashes()


def _rule_of(plans: Plans, site: Site, strategy: str) -> str:
    """The name of the rule by which a site is mended; empty if several may be meant."""
    if (planned := plans.rewrite_at(site)) is not None:
        return planned.rule
    names = [rule.name for rule in all_rules() if rule.strategy == strategy]
    if strategy in names:  # of several rules, this one is found without a plan
        return strategy
    return names[0] if len(names) == 1 else ""


def save_decisions(plans: Plans, function: CodeType) -> None:
    """Keep on disk the plans that a frame was compiled with, and what its checks have taught.

    Args:
        plans: of the frame.
        function: the original code of the function that it is of.
    """
    if plans.suggestions.cache is None:
        return
    if plans.off:
        plans.suggestions.drop()
        plans.suggestions.keep(function, Plan(), {})
        return
    known = taught(plans.state) | plans.suggestions.tried.keys()
    for key, plan in plans.by_code.items():
        if not plan and key not in known:
            continue
        plans.suggestions.keep(plans.codes[key], plan, plans.passed_over)
