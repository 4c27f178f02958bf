"""What the traces of one frame ask: each answer is that of the plans, or of a policy for them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from types import CodeType

from graphmend_bc.dynamo.frames.breaks import Break
from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.engine.outcomes.failures import errors_reported, report_error
from graphmend_bc.engine.outcomes.speculation_flips import SpeculationFlips
from graphmend_bc.engine.plans.call_plans import CallPlans
from graphmend_bc.engine.plans.jump_plans import JumpPlans
from graphmend_bc.engine.plans.site_plans import Plans
from graphmend_bc.engine.plans.survey_policy import Surveys
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.speculation_stats import Tally
from graphmend_bc.runtime import MarkedCallee, Site, Speculate, identity_of
from graphmend_bc.runtime.left_places import left_by

_ASKED = 16
"""Rounds of a condition that are computed one by one; those after them go as the last one."""


_MOST_BROKEN_REGIONS = 2
"""Of a frame, each of which costs an attempt; then all of its regions are inlined."""


@dataclass(slots=True)
class FramePlanner:
    """A `Planner`; see `dynamo/trace/planner.py`.

    Attributes:
        plans, surveys, jumps, calls, flips: of the frame.
        seen: what was seen of conditions in this call, by round.
    """

    plans: Plans
    surveys: Surveys
    jumps: JumpPlans
    calls: CallPlans
    flips: SpeculationFlips
    seen: dict[tuple[Site, int], bool | None] = field(default_factory=dict)

    @property
    def called_as(self) -> Container[str]:
        return self.plans.called_as

    def code_for(self, code: CodeType) -> CodeType:
        return self.plans.code_for(code)

    def rewrites(self) -> bool:
        return self.plans.rewrites()

    def is_declined(self, site: Site) -> bool:
        return site in self.plans.declined or bool(left_by(site.filename, site.lineno))

    def site_at(self, code: CodeType, offset: int) -> Site:
        return self.plans.site_at(code, offset)

    def likely(self, asked: Speculate, occurrence: int, seen: Callable[[], bool | None]) -> bool:
        site = asked.site
        known = self.plans.state.likely(site, occurrence)
        if known is None:
            key = site, 0 if asked.once else min(occurrence, _ASKED)
            if key not in self.seen:
                self.seen[key] = seen()
            known = self.seen[key]
        if known is None:
            self.flips.blind.add(site)
            known = asked.likely
        return self.flips.likely(site, occurrence, known)

    def note_capture(self, code: CodeType, offset: int) -> Site:
        return self.plans.note_capture(code, offset)

    def may_inline(self) -> bool:
        return self.plans.state.mends

    def inlines(self, code: CodeType) -> bool:
        known = identity_of(code) in self.plans.state.inlined
        return known or self.plans.regions_broken > _MOST_BROKEN_REGIONS

    def selects(self, site: Site, *, flips: bool) -> bool:
        return self.plans.state.selects(site, flips=flips)

    def fails_again(self, site: Site) -> bool:
        return self.plans.state.fails_again(site)

    def marks_calls_in(self, code: CodeType) -> bool:
        return not self.plans.off and self.plans.marks_calls_in(code)

    def note_mark(self, site: Site) -> bool:
        return self.plans.note_mark(site)

    def replacement_at(self, code: CodeType, offset: int) -> CodeType | None:
        return self.jumps.code_at(code, offset)

    def form_after(self, code: CodeType, site: Site, refused: Refused) -> CodeType | None:
        return self.jumps.form_after(code, site, refused)

    def mark_at(
        self, trace: Trace, found: Break, is_marked: bool, again: bool
    ) -> MarkedCallee | None:
        return self.calls.mark_at(trace, found, is_marked, again)

    def survey_at(self, code: CodeType, offset: int) -> Speculate | None:
        return self.surveys.survey_at(code, offset)

    def speculation_after(self, site: Site, refused: Refused) -> Speculate | None:
        return self.surveys.speculation_after(site, refused)


@dataclass(frozen=True, slots=True)
class FrameOutcomes:
    """`GraphOutcomes` of one frame. Graphs keep it, so it holds nothing of the plans.

    Attributes:
        state: what is known across frames.
        code: the frame's own code object.
    """

    state: MendingState
    code: CodeType

    def graph_failed(self, tally: Tally, wrong: Sequence[int]) -> None:
        with errors_reported(self.state, self.code):
            self.state.graph_failed(self.code, tally, wrong)

    def site_failed(self, site: Site, reason: str, what: str) -> None:
        with errors_reported(self.state, self.code):
            self.state.site_failed(self.code, site, reason, what)

    def failed(self, error: Exception) -> None:
        report_error(self.state, self.code, error)
