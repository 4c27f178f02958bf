"""What is planned where a trace meets a jump on a tensor, so that it goes on in the new form."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import CodeType

from graphmend_bc.dynamo.frames.breaks import Break, gb_id_of
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.plans.site_plans import Plans
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rules.rule import BreakSite
from graphmend_bc.runtime import CodeId, Site, identity_of

_JUMP = "Data-dependent branching"
"""Dynamo's type of the break at a jump on a tensor."""

_OPS = 8192
"""Instructions of one function that are written anew while it is traced. With more jumps than that
allows, a survey meets the rest of them, and they are written at once."""


@dataclass(frozen=True, slots=True)
class JumpPlans:
    """The jumps on tensors that the traces of one frame meet.

    Attributes:
        plans: of the frame.
        written: instructions that were written anew, by function.
    """

    plans: Plans
    written: Counter[CodeId] = field(default_factory=Counter)

    def code_at(self, code: CodeType, offset: int) -> CodeType | None:
        """The code object in which a trace goes on at a jump that it has met.

        Args:
            code: what is traced.
            offset: of the jump in it.

        Returns:
            The form of the function that mends the jump; None if there is none, or if what is
            traced is a lifted part of the function.
        """
        plans, state = self.plans, self.plans.state
        original, place = state.rewrites.original(code, offset)
        if place < 0 or plans.suspends or plans.off:
            return None
        current, site = plans.code_for(original), site_of(original, place)
        if code is not current:  # planned since the function was called, or in a lifted part of it
            return None if state.rewrites.is_rewritten(code) else current
        if plans.is_planned(site) or site in plans.declined or site in state.given_up:
            return None
        if state.leaves_alone(original) or plans.left.known(original, site) is not None:
            return None
        break_site = BreakSite(original, place)
        if break_site.ends_round:
            return None  # the new form of such a loop is entered before its first round
        if not self._may_write(break_site):
            return None
        plans.breaks.setdefault(site, Break(original, place, _JUMP, gb_id_of(_JUMP), ""))
        return plans.code_for(original) if plans.start(original, site) else None

    def form_after(self, code: CodeType, site: Site, refused: Refused) -> CodeType | None:
        """The code object in which a trace goes on after a jump's rewritten form was refused.

        Args:
            code: what is traced.
            site: the jump.
            refused: why.

        Returns:
            The form with the next rule, or as the program has it if there is none; None if what is
            traced is a lifted part of the function.
        """
        plans = self.plans
        original = plans.codes.get(site.code)
        if original is None or plans.off or plans.suspends or not plans.is_planned(site):
            return None
        if plans.code_for(original) is not code or not self._may_write(
            BreakSite(original, site.offset)
        ):
            return None
        plans.climb(site, refused)
        return plans.code_for(original)

    def _may_write(self, break_site: BreakSite) -> bool:
        key = identity_of(break_site.code)
        self.written[key] += len(break_site.graph.listing.ops)
        return self.written[key] <= _OPS
