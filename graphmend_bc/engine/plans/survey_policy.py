"""Where an attempt that has failed goes on, and what is planned for what it meets there."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType

from graphmend_bc.dynamo.frames.breaks import Break
from graphmend_bc.dynamo.speculation.survey import Survey
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.plans.site_plans import Plans
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.conditions.truth_guards import speculation_at
from graphmend_bc.rules.branches import SPECULATE
from graphmend_bc.rules.registry import candidates_at
from graphmend_bc.rules.rule import BreakSite
from graphmend_bc.runtime import Site, Speculate


@dataclass(frozen=True, slots=True)
class Surveys:
    """The surveys of one frame; see `dynamo/speculation/survey.py`.

    Attributes:
        plans: of the frame.
        unplanned: sites that a survey met and no rule carries: the next attempt ends there, and
            says why.
    """

    plans: Plans
    unplanned: set[Site] = field(default_factory=set)

    def survey_at(self, code: CodeType, offset: int) -> Speculate | None:
        """How an attempt goes on at a jump on a tensor that no plan covers.

        Args:
            code: the code object that is traced.
            offset: of the jump in it.

        Returns:
            The way that the bytecode suggests; None if the attempt ends there.
        """
        plans, state = self.plans, self.plans.state
        original, place = state.rewrites.original(code, offset)
        if place < 0 or plans.suspends or state.leaves_alone(original):
            return None
        site, break_site = site_of(original, place), BreakSite(original, place)
        if plans.is_planned(site) or site in self.unplanned:
            return None
        if site in plans.declined or site in state.given_up:
            return None
        if plans.left.known(original, site) is not None:
            return None
        if not break_site.is_condition or break_site.guards_loop or break_site.ends_round:
            return None
        try:
            candidates_at(break_site, self.plans.state.lost)
        except Refused:
            return None
        way = speculation_at(break_site.graph, break_site.op, site, alone=True)
        return None if way.unbounded else way

    def speculation_after(self, site: Site, refused: Refused) -> Speculate | None:
        """The speculation that is planned next for a branch; None if something else is.

        Args:
            site: the branch, planned to be computed with both arms.
            refused: why that does not work.
        """
        plans = self.plans
        if not plans.is_planned(site):
            return None
        code, name = plans.codes[site.code], plans.by_code[site.code][site.offset].rule
        try:
            left = plans.remaining_rules(code, site, name, refused)
        except Refused:
            return None
        if not left or left[0].rule is not SPECULATE:
            return None
        break_site = BreakSite(code, site.offset)
        return speculation_at(break_site.graph, break_site.op, site, alone=False)

    def learn(self, survey: Survey) -> None:
        """Change the plans for all that an attempt met before and after it had failed."""
        for site, refused in survey.refused.items():
            self.plans.climb(site, refused)
        for found in survey.found:
            original, offset = self.plans.state.rewrites.original(found.code, found.offset)
            self._start(original, site_of(original, offset), found)

    def _start(self, code: CodeType, site: Site, found: Break) -> None:
        plans = self.plans
        if plans.is_planned(site):
            return
        plans.breaks.setdefault(site, found)
        if plans.start(code, site):
            plans.unmet.add(site)
            return
        # The way there may have been one that no other attempt takes.
        plans.declined.pop(site, None)
        plans.passed_over.pop(site, None)
        self.unplanned.add(site)
