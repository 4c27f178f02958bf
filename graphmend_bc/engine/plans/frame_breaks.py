"""What one frame knows of breaks that other frames have met, and tells of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import CodeType

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.dynamo.frames.breaks import Break
from graphmend_bc.engine.decisions.break_memory import BreakPlace, CutPlan, LeftBreak
from graphmend_bc.engine.decisions.decision_cache import settings_now
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.report import Decline
from graphmend_bc.rewriting import Plan
from graphmend_bc.runtime import CodeId, Site, identity_of


@dataclass(frozen=True)
class FrameBreaks:
    """The breaks that one frame may know.

    Attributes:
        state: what is known across frames.
        frame: the frame's own code object.
    """

    state: MendingState
    frame: CodeId

    @cached_property
    def settings(self) -> object:
        """Those that rules depend on; a frame without breaks does not ask."""
        return settings_now(self.state.lost)

    def cut_plan(self, key: CodeId) -> CutPlan | None:
        """What carried another frame up to a break that ended its graph.

        Args:
            key: an original code object.
        """
        cut = self.state.breaks.cut.get(key) if self.state.remember else None
        return cut if cut is not None and cut.settings == self.settings else None

    def note_cut(
        self,
        key: CodeId,
        plan: Plan,
        gb_types: Mapping[Site, str],
        passed_over: Mapping[Site, Sequence[Refused]],
    ) -> None:
        """The frame was compiled up to a break with a plan; the rest as for `CutPlan`."""
        if not plan or key in self.state.proven:
            return
        passed = {site: tuple(why) for site, why in passed_over.items() if site.code is key}
        self.state.breaks.cut[key] = CutPlan(plan, gb_types, passed, self.settings)

    def note_left(
        self, code: CodeType, found: Break, decline: Decline, refusals: Sequence[Refused]
    ) -> None:
        """A break of the frame is left to stock; the rest as for `BreakMemory.note_left`."""
        place = self._place(code, decline.site)
        self.state.breaks.note_left(self.frame, place, found, decline, refusals, self.settings)

    def known(self, code: CodeType, site: Site) -> LeftBreak | None:
        """What is known of a place where no rule mended a break, if it holds here too.

        Args:
            code: an original code object.
            site: in it.
        """
        if not (self.state.remember and self.state.breaks.left):
            return None
        place, innermost = self._place(code, site), site.code is self.frame
        if not self.state.breaks.is_left(self.frame, place, self.settings, innermost):
            return None
        return self.state.breaks.left[place]

    def between(self, code: CodeType) -> list[tuple[Site, LeftBreak]]:
        """Breaks in a function that a frame around it met first, whose reasons are of that frame.

        Args:
            code: an original code object that this frame calls.
        """
        if not (self.state.remember and self.state.breaks.left) or identity_of(code) is self.frame:
            return []
        function = identity_of(self.state.function_of(code))
        with self.state.lock:
            places = [place for place in self.state.breaks.left if place[0] is function]
        if not places:
            return []
        found = []
        for op in graph_of(code).listing.ops:
            if (function, op.name, op.location) in places:
                site = site_of(code, op.offset)
                known = self.known(code, site)
                if known is not None and not known.everywhere:
                    found.append((site, known))
        return found

    def decline_of(self, code: CodeType, site: Site, found: Break) -> Decline | None:
        """Why no rule mends a break, if that is known before one is tried.

        Args:
            code: an original code object.
            site: where the break is in it.
            found: the break.
        """
        known = self.known(code, site)
        if known is None or known.text != found.text:
            return None
        return replace(known.decline, site=site)

    def _place(self, code: CodeType, site: Site) -> BreakPlace:
        """The same for a function and for what resumes it."""
        op = graph_of(code).listing.at_offset(site.offset)
        return identity_of(self.state.function_of(code)), op.name, op.location
