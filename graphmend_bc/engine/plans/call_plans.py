"""What is planned where a trace meets a call that breaks the graph, so that it goes on there."""

from __future__ import annotations

from dataclasses import dataclass

from graphmend_bc.dynamo.calls.callees import GivenMarks
from graphmend_bc.dynamo.frames.breaks import Break
from graphmend_bc.dynamo.frames.on_stack_replacement import NotReplaceable
from graphmend_bc.dynamo.speculation.survey import Survey
from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.plans.site_plans import Plans
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.mark_callee import mark_of
from graphmend_bc.rewriting.plan import Capture, MarkCallee
from graphmend_bc.rules.rule import BreakSite
from graphmend_bc.runtime import MarkedCallee, Site


@dataclass(frozen=True, slots=True)
class CallPlans:
    """The calls that break the graph in the traces of one frame.

    Attributes:
        plans: of the frame.
    """

    plans: Plans

    def mark_at(
        self, trace: Trace, found: Break, is_marked: bool, again: bool
    ) -> MarkedCallee | None:
        """The mark with which a call is made again.

        Args:
            trace: the attempt.
            found: the break.
            is_marked: whether the callee was marked already.
            again: whether that is the mark that was last given here.

        Returns:
            None if the break stays.

        Raises:
            NotReplaceable: the plan that mends the call is for another attempt.
        """
        plans = self.plans
        original, offset = plans.state.rewrites.original(found.code, found.offset)
        if offset < 0 or trace.known(Survey) is not None:
            return None
        break_site, site = BreakSite(original, offset), site_of(original, offset)
        if not self._may_mark(break_site, site):
            return None
        if not plans.is_planned(site) and plans.left.known(original, site) is not None:
            if not plans.start_as_input(original, site):
                return None
            is_marked = False
        if plans.breaks_as_stock(site):
            plans.breaks.setdefault(site, found)
        given = trace.known(GivenMarks)
        # In an earlier round another rule took the place of the one in the code.
        is_new = given is not None and site in given.sites and not again
        if not plans.is_planned(site):
            goes_on = plans.start(original, site)
        else:
            was_tried = is_marked or plans.code_for(original) is found.code
            goes_on = is_new or not was_tried or self._climbs(trace, site, is_marked)
        return self._mark(trace, break_site, site) if goes_on else None

    def _mark(self, trace: Trace, break_site: BreakSite, site: Site) -> MarkedCallee:
        """The mark that the plan has for a call."""
        rewrite = self.plans.rewrite_at(site)
        if not isinstance(rewrite, (Capture, MarkCallee)):
            raise NotReplaceable
        trace.of(GivenMarks).sites.add(site)
        if isinstance(rewrite, Capture):
            return MarkedCallee(site, rewrite.rule)
        return mark_of(break_site.graph, break_site.op, site, rewrite)

    def _may_mark(self, break_site: BreakSite, site: Site) -> bool:
        """Whether a site is a call of the program's, not one of a primitive, and may be mended."""
        plans, state = self.plans, self.plans.state
        if (
            plans.suspends
            or plans.off
            or not break_site.is_call
            or state.leaves_alone(break_site.code)
        ):
            return False
        return site not in plans.declined and site not in state.given_up

    def _climbs(self, trace: Trace, site: Site, is_marked: bool) -> bool:
        """Whether another rule is planned, because that of the callee's mark was refused."""
        if not is_marked:
            return False
        refused = trace.refused.pop(site, None) or Refused("call-not-traced")
        return self.plans.climb(site, refused) and self.plans.is_planned(site)
