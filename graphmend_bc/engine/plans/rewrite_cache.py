"""Rewritten code objects, and where each of their instructions came from."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass, field
from threading import RLock
from types import CodeType

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting import Plan, rewrite
from graphmend_bc.rewriting.calls import site_of_op
from graphmend_bc.rewriting.origin import origin_of, original_place
from graphmend_bc.runtime import CodeId, Site, identity_of
from graphmend_bc.runtime.forks import lock_over_forks

_KEPT = 256
"""Rewritten code objects that are kept although nobody may need them any more."""


def _recent() -> deque[CodeType]:
    return deque(maxlen=_KEPT)


@dataclass(slots=True)
class Rewrites:
    """The rewrites that are in use, and some more.

    The same code and plan give the same object, so that Dynamo's caches hit. An equal code object
    gives another one: Dynamo makes functions of it, whose compiled versions are those of a module.

    Attributes:
        made: by the original code's identity and plan, the last one; a refusal is kept too.
        recent: the last ones.
        lock: held while the tables are changed.
    """

    made: dict[tuple[CodeId, Plan], weakref.ref[CodeType] | Refused] = field(default_factory=dict)
    recent: deque[CodeType] = field(default_factory=_recent)
    lock: RLock = field(default_factory=lock_over_forks)

    def rewritten(self, code: CodeType, plan: Plan) -> CodeType:
        """The code object for a plan.

        Raises:
            Refused: the plan cannot be carried out.
        """
        if not plan.changes_code:
            return code
        key = (identity_of(code), plan)
        found = self._made(key, code)
        if found is None:
            try:
                found = rewrite(code, plan).code
            except Refused as refused:
                found = refused.again()
            found = self._keep(key, code, found)
        if isinstance(found, Refused):
            raise found.again()
        return found

    def codes(
        self, original: weakref.ref[CodeType], plan: Plan
    ) -> tuple[CodeType, CodeType] | None:
        """A code object and that for a plan; None if the first is gone.

        What has to be made anew is not kept: it is only looked at.
        """
        code = original()
        if code is None:
            return None
        if not plan.changes_code:
            return code, code
        found = self._made((identity_of(code), plan), code)
        return code, found if isinstance(found, CodeType) else rewrite(code, plan).code

    def _made(self, key: tuple[CodeId, Plan], code: CodeType) -> CodeType | Refused | None:
        known = self.made.get(key)
        found = known() if isinstance(known, weakref.ref) else known
        is_other = isinstance(found, CodeType) and self.original(found, 0)[0] is not code
        return None if is_other else found

    def _keep(
        self, key: tuple[CodeId, Plan], code: CodeType, result: CodeType | Refused
    ) -> CodeType | Refused:
        """The result, or that of another thread which was faster."""
        with self.lock:
            if (known := self._made(key, code)) is not None:
                return known
            if isinstance(result, Refused):
                self.made[key] = result
            else:
                self.made[key] = weakref.ref(result)
                self.recent.append(result)
            return result

    def is_rewritten(self, code: CodeType) -> bool:
        """True for code written by us, arms included."""
        return origin_of(code) is not None

    def original(self, code: CodeType, offset: int) -> tuple[CodeType, int]:
        """The user's code object and offset behind an instruction of any code object."""
        return original_place(code, offset)

    def forget(self) -> None:
        """Keep nothing that nobody needs. Rewritten code that is in use stays known."""
        recent, self.recent = self.recent, _recent()
        with self.lock:
            self.made = {key: made for key, made in self.made.items() if _is_in_use(made)}
        del recent  # code objects are freed while no lock is held

    def forget_dead(self) -> None:
        """Forget what is known of code that is gone."""
        with self.lock:
            self.made = {
                key: made
                for key, made in self.made.items()
                if _is_in_use(made) or (isinstance(made, Refused) and key[0].is_alive)
            }


def _is_in_use(made: weakref.ref[CodeType] | Refused) -> bool:
    return isinstance(made, weakref.ref) and made() is not None


def site_of(code: CodeType, offset: int) -> Site:
    """The site of an instruction of an original code object."""
    return site_of_op(code, graph_of(code).listing.at_offset(offset))
