"""What worked in another process, as far as one frame tries it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import CodeType

from graphmend_bc.engine.decisions.check_outcomes import begin_with, outcomes_of
from graphmend_bc.engine.decisions.decisions import Subject
from graphmend_bc.engine.decisions.proven_plan import Proven
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting import Plan
from graphmend_bc.runtime import CodeId, Site, identity_of
from graphmend_bc.runtime.signal_handlers import pass_on

log = logging.getLogger("graphmend_bc")


class Suggestions:
    """The plans that are read from disk for one frame, and those that are kept there after it.

    Args:
        state: knows where they are kept.
        reads: False if none is read.

    Attributes:
        tried: what was read, by code object.
    """

    def __init__(self, state: MendingState, reads: bool) -> None:
        self.state = state
        self.cache = state.decisions if state.remember else None
        self.reads = reads
        self.tried: dict[CodeId, tuple[Subject, Plan]] = {}
        self._read: dict[CodeId, Proven | None] = {}

    def plan_for(self, code: CodeType) -> Proven | None:
        """What worked for a code object; None if that is not known.

        Args:
            code: an original code object.
        """
        proven = self.begin_with(code)
        if proven is None or not proven.plan or self.cache is None:
            return None
        key, subject = identity_of(code), Subject(code, self.state.lost)
        plan = self.state.without_given_up(key, proven.plan)
        try:
            self.state.rewrites.rewritten(code, plan)
        except Exception as error:  # rewrites that no rule asks for together
            pass_on(error)
            log.debug("graphmend_bc drops decisions on %s that were kept on disk: %r", code, error)
            self.cache.drop(subject)
            return None
        self.tried[key] = subject, plan
        return Proven(plan, proven.gb_types, proven.refused)

    def begin_with(self, code: CodeType) -> Proven | None:
        """What is on disk of a code object; what its failed checks have taught is known then.

        Args:
            code: an original code object.
        """
        if self.cache is None or not self.reads:
            return None
        key = identity_of(code)
        if key not in self._read:
            self._read[key] = proven = self.cache.read(Subject(code, self.state.lost))
            if proven is not None and proven.outcomes:
                begin_with(self.state, code, proven.outcomes)
        return self._read[key]

    def are_changed(self, plans: Mapping[CodeId, Plan]) -> bool:
        """True if an attempt had a decision changed that was read.

        Args:
            plans: what is planned by now.
        """
        tried = ((plan, plans[key]) for key, (_, plan) in self.tried.items())
        return any(not plan.items() <= now.items() for plan, now in tried)

    def drop(self) -> None:
        """Remove from disk what was read."""
        for subject, _ in self.tried.values():
            self._drop(subject)

    def keep(self, code: CodeType, plan: Plan, refusals: Mapping[Site, Iterable[Refused]]) -> None:
        """Keep on disk what worked for a code object, in place of what was there.

        Args:
            code: an original code object.
            plan: the one with which its frame was compiled.
            refusals: why no cheaper rule mends a site.
        """
        if self.cache is None:
            return
        key, subject = identity_of(code), Subject(code, self.state.lost)
        proven, outcomes = self.state.proven.get(key), outcomes_of(self.state, code)
        if proven is not None and plan and proven.plan == plan:
            refused = {
                site: tuple(why.reason.code for why in reasons)
                for site, reasons in refusals.items()
                if site.code is key
            }
            self.cache.write(Proven(plan, proven.gb_types, refused, outcomes), subject)
        elif outcomes and not plan:
            self.cache.write(Proven(plan, outcomes=outcomes), subject)
        elif key in self.tried and self.tried[key][1] != plan:
            self._drop(subject)

    def _drop(self, subject: Subject) -> None:
        if self.cache is not None:
            self.cache.drop(subject)
