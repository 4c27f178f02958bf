"""The attempts at one frame: break met -> site found -> plan -> rewrite -> re-feed -> proof.

One call of Dynamo's `compile_frame` becomes a few attempts. Each traces the frame to its end or to
the first break; a break that can be mended changes the plan of the code object it is in, and the
next attempt traces the rewritten code. The last attempt is Dynamo's own, with the caller's
settings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any

from graphmend_bc import config
from graphmend_bc.dynamo import attempt, eager_call
from graphmend_bc.dynamo.breaks import Break, break_of, first_line
from graphmend_bc.dynamo.compilation import Compilation, SiteRefused, running
from graphmend_bc.dynamo.once import Prepared
from graphmend_bc.dynamo.regions import resumed
from graphmend_bc.dynamo.way_back import give_way_back
from graphmend_bc.outcome import settle
from graphmend_bc.plans import Plans
from graphmend_bc.reasons import Refused
from graphmend_bc.reports import FrameResult
from graphmend_bc.rewrites import Key, site_of
from graphmend_bc.rewriting.defer import CALLS
from graphmend_bc.rules.rule import Met
from graphmend_bc.runtime import Site
from graphmend_bc.turning import Turning

if TYPE_CHECKING:
    from graphmend_bc.mender import Mender

log = logging.getLogger("graphmend_bc")

PROGRAM_ERRORS = frozenset({"Observed exception"})
"""Break types that are the program's own exceptions: there is nothing to mend."""

UNSAFE_SIDE_EFFECT = "HOP: Unsafe side effect"
"""Dynamo's break type where an arm changes Python state outside itself."""


class Frame:
    """The attempts at one frame."""

    def __init__(
        self,
        mender: Mender,
        stock: Callable[..., Any],
        code: CodeType,
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> None:
        self.mender = mender
        self.stock = stock
        self.code = code
        self.call = attempt.Arguments(args, kwargs)
        self.plans = Plans(mender)
        self.turning = Turning()
        self.suggested: dict[Site, bool] = {}
        self.wants_errors = self.call.wants_errors
        broken = resumed(code)
        follows = broken is not None and Key.of(broken) in mender.mended
        self.follows = follows or mender.rewrites.is_rewritten(code)

    def compile(self) -> Any:
        if not self.plans.off:
            for _ in range(config.retrace_limit):
                compilation = self._compilation()
                with attempt.breaks_are_errors():
                    outcome = self._try(compilation, self.call.with_breaks)
                if not isinstance(outcome, Exception):
                    attempt.restore_error_setting(outcome)
                    if not self.wants_errors and attempt.is_empty(outcome):
                        break  # stock skips such frames, which only its own settings do
                    return self._commit(compilation, outcome)
                attempt.clean_up(outcome)
                try:
                    if self._learn(compilation, outcome) or self._turn(compilation, outcome):
                        continue
                except Exception as failure:
                    log.exception("graphmend_bc could not place a break of %s.", self.code)
                    outcome = failure
                else:
                    if attempt.is_break(outcome):
                        if self.wants_errors:
                            settle(self.mender, self.plans, self.code, compilation.trace, {})
                            self._explain(outcome)
                            try:
                                raise outcome
                            finally:
                                del outcome  # its traceback holds this frame
                        break
                    if self._stops_guessing(compilation, outcome):
                        continue
                return self._compile_unmended(outcome)
        return self._compile_as_stock()

    def _try(self, compilation: Compilation, call: attempt.Arguments) -> Any:
        """One attempt by Dynamo's own `compile_frame`: what it returns, or the error it raises."""
        code = self.plans.code_for(self.code)
        try:
            with running(compilation), attempt.capturing(compilation.captures):
                return self.stock(code, *call.args, **call.kwargs)
        except Exception as error:
            return error

    def _compile_unmended(self, error: Exception) -> Any:
        """Nothing of ours takes part; if anything did before, the error may have been ours.

        The program raises it as well if it is about an operator, and where eager Python does.
        """
        rewritten, site = self.plans.rewrites(), site_of(self.code, 0)
        can_leave = self._takes_part() and eager_call.can_leave(error)
        if can_leave and self.mender.leaves_call(self.code):
            log.info("%s runs without compilation in this call. It raises %r.", site, error)
            raise eager_call.RunsEagerly from error
        self.plans.off = True
        if rewritten:
            log.warning(
                "graphmend_bc leaves %s as it is, because tracing its rewritten code failed: %r",
                site,
                error,
            )
        return self._compile_as_stock()

    def _takes_part(self) -> bool:
        """Whether stock might have met no error, having skipped the frame in another call."""
        known = self.follows or Key.of(self.code) in self.mender.mended
        return not self.plans.off and (known or self.plans.rewrites())

    def _compile_as_stock(self) -> Any:
        """The attempt with the caller's settings: breaks that are left are Dynamo's to handle."""
        for site in self.plans.unmet:
            self.plans.take_out(site)
        compilation = self._compilation()
        outcome = self._try(compilation, self.call)
        if not isinstance(outcome, Exception):
            return self._commit(compilation, outcome)
        if isinstance(outcome, Prepared) or self._gives_up(outcome):
            return self._compile_as_stock()
        if attempt.is_failure(outcome) and self._takes_part():
            attempt.clean_up(outcome)
            return self._compile_unmended(outcome)
        settle(self.mender, self.plans, self.code, compilation.trace, {})
        self._tell(compilation, outcome)
        try:
            raise outcome
        finally:
            del outcome

    def _gives_up(self, error: Exception) -> bool:
        """Change a plan after the last attempt failed; False if it was not for a plan."""
        if isinstance(error, SiteRefused):
            if self.plans.stop_capturing(error.refused, error.sites or None):
                return True
            if self.plans.declined.keys() >= set(error.sites):
                return False
            for site in error.sites:
                self.plans.drop(site, error.refused)
            return True
        if attempt.is_break(error):
            return False
        if self.plans.stop_capturing(Refused("capture-fails", first_line(error))):
            attempt.clean_up(error)
            return True
        return False

    def _commit(self, compilation: Compilation, result: Any) -> Any:
        """Accept an attempt."""
        trace = compilation.trace
        if trace.whole and not trace.proven:  # without a graph nothing has happened yet
            trace.ahead.can_miss = True
        if (
            trace.ahead.can_miss
            or trace.undo is not None
            or trace.apart is not None
            or trace.functional
            or trace.drawing is not None
        ):
            give_way_back(result, self.code, self.call.module_globals, trace.drawing)
        self.turning.remember(self.mender.history)
        if trace.used or self.follows:
            self.mender.mended |= {Key.of(self.code), Key.of(self.plans.code_for(self.code))}
        if trace.tally is not None:
            self.mender.remember_tally(trace.tally)
        used = dict.fromkeys(trace.captured, "capture") | trace.used
        settle(self.mender, self.plans, self.code, trace, used)
        self._tell(compilation, result)
        return result

    def _compilation(self) -> Compilation:
        return Compilation(
            code_for=self.plans.code_for,
            may_mend=not self.plans.off,
            likely=self._likely,
            follows=self.follows,
            missed=partial(self.mender.missed, self.code),
            draw_missed=partial(self.mender.draw_missed, self.code),
            declined=self.plans.declined,
            rewrites=self.plans.rewrites,
            captures=any(plan.captures for plan in self.plans.by_code.values()),
            note_capture=self.plans.note_capture,
        )

    def _learn(self, compilation: Compilation, error: Exception) -> bool:
        """Change a plan after a failed attempt; False if nothing can be done about it."""
        trace, plans = compilation.trace, self.plans
        plans.unmet -= {*trace.used, *trace.refused}
        plans.gb_types |= trace.gb_types
        if isinstance(error, Prepared):
            return True
        if isinstance(error, SiteRefused):
            known = len(plans.declined)
            # A number of an input is a symbol that is made nowhere in the program.
            if plans.stop_capturing(error.refused, error.sites or None):
                return True
            # A resume function holds sites that no plan has; declined, they mean nothing.
            climbed = plans.climb_all(error.sites, error.refused)
            return climbed or len(plans.declined) > known
        found = break_of(error)
        if found is not None and found.gb_type in PROGRAM_ERRORS:
            return False
        stops = attempt.is_break(error) or self._asks_symbol(error, found)
        if not stops:
            if trace.functional and not trace.arms:
                refused = Refused("backend-refuses", first_line(error))
                return plans.climb_all(dict.fromkeys(trace.functional.values()), refused)
            if plans.stop_capturing(Refused("capture-fails", first_line(error))):
                return True
        if found is None or not stops:
            in_arm = bool(trace.arms) and attempt.is_dynamos(error)
            refused = Refused("arm-does-not-trace", first_line(error))
            return in_arm and plans.climb(trace.arms[-1], refused)
        return self._learn_break(compilation, found)

    def _asks_symbol(self, error: Exception, found: Break | None) -> bool:
        """True if a condition of the user's asks a number that is known only at run time."""
        if found is None or not attempt.asks_symbol(error):
            return False
        original, offset = self.mender.rewrites.original(found.code, found.offset)
        return offset >= 0 and Met(original, offset).is_condition

    def _learn_break(self, compilation: Compilation, found: Break) -> bool:
        """Change a plan after a graph break; False if nothing can be done about it."""
        trace, plans = compilation.trace, self.plans
        original, offset = self.mender.rewrites.original(found.code, found.offset)
        if offset < 0:
            return False
        site = site_of(original, offset)
        if trace.arms and found.gb_type == UNSAFE_SIDE_EFFECT:
            refused = Refused("arm-changes-state", f"It does so at {site}.")
            return plans.climb(trace.arms[-1], refused)
        plans.breaks.setdefault(site, found)
        if plans.is_planned(site):
            if site in plans.captured_sites() and not compilation.captures:
                return True  # the plan was found when the trace had begun
            code = "call-not-traced" if site.opname in CALLS else "arm-does-not-trace"
            return plans.climb(site, trace.refused.get(site) or Refused(code))
        if plans.start(original, site):
            return True
        because = "".join(f" ({r.reason.code})" for r in plans.passed_over.get(site, ()))
        stopped = Refused("capture-fails", f"Tracing stopped at {site}{because}.")
        if plans.stop_capturing(stopped):
            plans.declined.pop(site, None)
            return True
        if trace.arms:
            refused = Refused("arm-does-not-trace", f"It breaks at {site}.")
            return plans.climb(trace.arms[-1], refused)
        return False

    def _turn(self, compilation: Compilation, error: Exception) -> bool:
        """Guess otherwise, if the way that was taken for granted does not trace."""
        guesses = [guessed for guessed, _ in compilation.trace.guesses]
        found = break_of(error)
        if found is not None and found.gb_type in PROGRAM_ERRORS and attempt.is_break(error):
            return False
        stopped = str(error) if found is None else f"{found.code.co_qualname} {found.offset}"
        return self.turning.turn(guesses, stopped)

    def _stops_guessing(self, compilation: Compilation, error: Exception) -> bool:
        """Take guesses out if the ways they lead keep raising: calls may never go there."""
        if self.mender.eager_calls[self.code] < config.turn_limit:
            return False
        sites = dict.fromkeys(guessed.site for guessed, _ in compilation.trace.guesses)
        return self.plans.climb_all(sites, Refused("arm-does-not-trace", first_line(error)))

    def _likely(self, site: Site, occurrence: int, suggestion: Callable[[], bool]) -> bool:
        known = self.mender.likely(site, occurrence)
        if known is None:
            if site not in self.suggested:
                self.suggested[site] = suggestion()
            known = self.suggested[site]
        return self.turning.likely(site, occurrence, known)

    # Telling

    def _tell(self, compilation: Compilation, outcome: Any) -> None:
        result = FrameResult(
            graphs=compilation.graphs,
            break_reason=attempt.break_reason(outcome),
            skipped=isinstance(outcome, Exception)
            and not self.wants_errors
            and attempt.is_break(outcome),
        )
        for listener in self.mender.on_frame:
            listener(result)

    def _explain(self, error: BaseException) -> None:
        """Add our reasons below Dynamo's own message."""
        for decline in self.plans.declined.values():
            error.add_note(f"graphmend_bc could not mend this break.\n{decline}")
