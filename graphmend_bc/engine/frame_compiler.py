"""The attempts at one frame: break met -> site found -> plan -> rewrite -> re-feed -> proof.

One call of Dynamo's `compile_frame` becomes a few attempts. Each traces the frame to its end or to
the first break; a break that can be mended changes the plan of the code object it is in, and the
next attempt traces the rewritten code. The last attempt is Dynamo's own, with the caller's
settings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto
from types import CodeType
from typing import Any

from graphmend_bc import config
from graphmend_bc.code.unused_constants import without_unused_constants
from graphmend_bc.dynamo.before_graph.kept_flags import call_left
from graphmend_bc.dynamo.calls.assertions import Assertions
from graphmend_bc.dynamo.corrections.finalisers import FrameLeft
from graphmend_bc.dynamo.frames import attempt
from graphmend_bc.dynamo.frames.internal_errors import InternalError, is_internal
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.dynamo.rollback import eager_fallback
from graphmend_bc.dynamo.rollback.cache_entries import forget_entries
from graphmend_bc.dynamo.rollback.deopt_wrapper import add_deopt_wrapper
from graphmend_bc.dynamo.rollback.rollback_analysis import Rollback
from graphmend_bc.dynamo.rollback.saved_frames import make_savable
from graphmend_bc.dynamo.speculation.guarded_truth import GuardedTruths
from graphmend_bc.dynamo.symbols.stored_integers import StoredIntegers
from graphmend_bc.dynamo.trace.compilation import CallLeft, Compilation, RegionBreaks, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.engine import compile_time
from graphmend_bc.engine.attempts import Attempts
from graphmend_bc.engine.outcomes.failure_policy import Recompiled, leaves_frame
from graphmend_bc.engine.outcomes.failures import report_failure
from graphmend_bc.engine.outcomes.given_up import carry_over
from graphmend_bc.engine.outcomes.recompile_charges import charge_recompilation, charge_version
from graphmend_bc.engine.outcomes.results import report_result, save_decisions
from graphmend_bc.engine.outcomes.verifying import verify
from graphmend_bc.engine.plans.expected_sites import is_expected
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.state import MendingState
from graphmend_bc.engine.traced import Failed, Outcome, Traced
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.report import Decline
from graphmend_bc.rules.standard_library import Prepared
from graphmend_bc.runtime import identity_of
from graphmend_bc.runtime.signal_handlers import pass_on

log = logging.getLogger("graphmend_bc")


def compile_frame(
    state: MendingState,
    stock: Callable[..., Any],
    code: CodeType,
    args: list[Any],
    kwargs: dict[str, Any],
) -> Any:
    """Compile one frame, mended where that is exact.

    Args:
        state: what is known across frames.
        stock: Dynamo's own `compile_frame`.
        code: the frame's own code object.
        args, kwargs: what Dynamo passes after `code`.

    Returns:
        What Dynamo's own function returns.

    Raises:
        InternalError: stock has to do without us altogether; that was told already.
        Exception: what Dynamo's own raises.
    """
    ended = compile_time.begin(state, code)
    try:
        return _compile_frame(state, stock, code, args, kwargs)
    finally:
        ended()


def _compile_frame(
    state: MendingState,
    stock: Callable[..., Any],
    code: CodeType,
    args: list[Any],
    kwargs: dict[str, Any],
) -> Any:
    charge_recompilation(state, code)
    carry_over(state, code)
    frame = Frame(state, stock, code, args, kwargs)
    try:
        state.forget_dead()
        outcome = frame.compile()
    except Exception as error:
        pass_on(error)
        outcome = frame.compile_without_us(InternalError(error))
    if isinstance(outcome, Traced):
        return outcome.result
    try:
        if isinstance(outcome.error, InternalError) and not frame.has_reported:
            frame.report(outcome)
        raise outcome.error
    finally:
        del outcome  # the traceback holds this frame


_MOST_LEFT = 2
"""Calls of a frame that run as they are because they change what later ones are compiled for."""


class Next(Enum):
    """What follows an attempt that failed."""

    ATTEMPT = auto()
    STOCK = auto()


class Frame(Attempts):
    """The attempts at one frame, in their order."""

    def compile(self) -> Outcome:
        """What Dynamo's own function returns, or what it raises."""
        self._leave_if_mending_does_not_pay()
        if self._varies_as_before():
            log.info("%s is not compiled any more: stock is past its limit.", site_of(self.code, 0))
            return Failed(eager_fallback.EagerFallback(always=True, uses_compiled=True))
        for _ in range(0 if self.plans.off else config.attempt_limit):
            after: Outcome | Next = Next.ATTEMPT
            try:
                after = self._next_attempt()
                if isinstance(after, (Traced, Failed)):
                    return after
                if after is Next.STOCK:
                    break
            finally:
                del after  # the traceback of an error holds this frame
        return self._compile_as_stock()

    def _next_attempt(self) -> Outcome | Next:
        """One attempt: what `compile` returns after it, or what it does next."""
        self.taken_up = False
        decides = not self.wants_errors and capabilities.DECIDING not in self.state.lost
        takes_up = self._takes_up if decides else None
        compilation = self._compilation(self.plans.exact_asserts, takes_up=takes_up)
        outcome = self._attempt(compilation)
        try:
            if isinstance(outcome, Failed):
                return self._after_failure(compilation, outcome)
            is_empty = takes_up is None and attempt.is_empty(outcome.result)
            if is_empty and not self.wants_errors:
                return Next.STOCK  # skips such frames, which only its own settings do
            return self._commit(compilation, outcome)
        finally:
            del outcome

    def _after_failure(self, compilation: Compilation, failed: Failed) -> Outcome | Next:
        """What follows an attempt that failed."""
        error = failed.error
        attempt.clean_up(error)
        self._note_failed(compilation, failed)
        if isinstance(error, FrameLeft):
            return self._leave(compilation, error)
        if (left := call_left(compilation, error)) is not None:
            return self._leave_call(left) or Next.ATTEMPT
        is_left = compilation.left_break and attempt.is_break(error)
        if is_left or (compilation.takes_up is not None and attempt.is_skip(error)):
            return self._end(compilation, failed)
        if self.taken_up or self._goes_on(compilation, failed):
            return Next.ATTEMPT
        if not attempt.is_break(error):
            return self._compile_unmended(failed)
        if (whole := self._compile_whole_as_stock(compilation)) is not None:
            return whole
        if not self.wants_errors:
            return Next.STOCK
        report_result(self.state, self.plans, self.code, compilation.trace, {})
        self._explain(error)
        return failed

    def _takes_up(self, compilation: Compilation, error: Exception) -> bool:
        """Whether an attempt ends at a break, because another one may do something about it."""
        tried = dict(self.flips.values)
        if is_internal(error) or compilation.trace.has_failed:
            return True
        self.taken_up = (
            self._goes_on(compilation, Failed(error))
            or self.flips.values != tried
            or (not compilation.trace.used and self.plans.take_out_unmet())
            # Dynamo would trace the frame again up to here, and break where the site was met first.
            or self._met_before(compilation, error)
        )
        return self.taken_up or self._may_be_whole_as_stock(compilation)

    def _met_before(self, compilation: Compilation, error: Exception) -> bool:
        """Whether chance decides at a site that is given up and was mended earlier in the trace."""
        site = self.retries.place_of(Failed(error))
        if site is None or site not in compilation.trace.used:
            return False
        decline = self.plans.declined.get(site)
        return decline is not None and decline.reason == "decided-by-chance"

    def compile_without_us(self, error: InternalError) -> Outcome:
        """As `compile`, where we failed outside of an attempt: nothing is mended or remembered."""
        self.report(Failed(error))
        self.plans.off = True
        if not eager_fallback.counted_versions(self.code):  # what was told was not yet in use
            self.state.withdraw_mends(self.code)
        outcome = self._try(self._compilation(), self.call)
        while isinstance(outcome, Failed) and isinstance(outcome.error, RegionBreaks):
            self.plans.trace_anew(outcome.error)
            outcome = self._try(self._compilation(), self.call)
        return outcome

    def _goes_on(self, compilation: Compilation, failed: Failed) -> bool:
        """Whether there is another attempt: the usual one if plans from disk were no good."""
        if isinstance(failed.error, InternalError):
            return False
        learned = self.retries.after(compilation, failed)
        if self.retries.drops_suggestions(failed, learned):
            self._begin(suggests=False)
            return True
        if learned or attempt.is_break(failed.error):
            return learned
        return self.retries.stops_speculating(compilation, self.code, failed.error)

    def _leave_if_mending_does_not_pay(self) -> None:
        """Mend nothing if stock's pieces are compiled less often. They get an empty cache."""
        counts = self.state.frames.get(identity_of(self.code))
        if self.plans.off or counts is None or not counts.compiled or attempt.keeps_compiled():
            return
        entries = eager_fallback.counted_versions(self.code)
        limit = attempt.recompile_limit()
        known = Recompiled(
            entries,
            limit,
            one_graph=self.wants_errors,
            asserts=counts.asserts,
            breaks=counts.breaks,
            varies=self._follows_what_varies(),
        )
        if not leaves_frame(known):
            return
        counts.varying = eager_fallback.varying_guards(self.code)
        forget_entries(self.code)
        self.plans.off = True
        self.state.leave_frame(self.code, f"It was compiled {many(counts.compiled, 'time')}.")

    def _varies_as_before(self) -> bool:
        """Whether stock's first piece of a frame that was left varies as the whole did.

        Dynamo would have compiled it as often as its limit allows by now.
        """
        counts = self.state.frames.get(identity_of(self.code))
        if not self.is_left or counts is None or not counts.varying or self.wants_errors:
            return False
        varying = eager_fallback.varying_guards(self.code)
        return not attempt.keeps_compiled() and bool(counts.varying & varying)

    def _follows_what_varies(self) -> bool:
        function = self.state.frames.get(self.function)
        is_later = self.function != identity_of(self.code)
        return is_later and function is not None and function.varies

    def _compile_unmended(self, failed: Failed) -> Outcome:
        """Nothing of ours takes part; if anything did before, the error may have been ours.

        The program raises it as well if it is about an operator, and where eager Python does.
        """
        rewritten, takes_part = self.plans.rewrites(), self._takes_part()
        if takes_part and (left := self._left_in_this_call(failed)) is not None:
            return left
        self.plans.off = True
        if rewritten or isinstance(failed.error, InternalError):
            self.report(failed)
        return self._compile_as_stock()

    def _left_in_this_call(self, failed: Failed) -> Failed | None:
        """The call runs as it is, if what it raises may be due to when the frame is compiled."""
        if not (eager_fallback.can_leave(failed.error) and self.state.leaves_call(self.code)):
            return None
        site = site_of(self.code, 0)
        log.info("%s runs without compilation in this call. It raises %r.", site, failed.error)
        left = eager_fallback.EagerFallback()
        left.__cause__ = failed.error
        return Failed(left)

    def _leave_call(self, left: CallLeft) -> Failed | None:
        """This call runs as it is; None if calls were left too often: it breaks as in stock."""
        if self.state.leaves_call(self.code, most=_MOST_LEFT):
            log.info("%s runs without compilation in this call. %s", site_of(self.code, 0), left)
            return Failed(eager_fallback.EagerFallback())
        self.plans.drop(left.site, Refused("call-not-traced", str(left)))
        return None

    def report(self, failed: Failed) -> None:
        """Tell why stock compiles the frame."""
        self.has_reported = True
        place = self.retries.place_of(failed)
        report_failure(self.state, site_of(self.code, 0), failed.error, place)

    def _leave(self, compilation: Compilation, left: FrameLeft) -> Failed:
        """Compiled, it is not what eager Python does. Compiled callees keep what they are given."""
        failed = Failed(left)
        place = self.retries.place_of(failed) or site_of(self.code, 0)
        self.state.note_decline(Decline.of(left.refused, place))
        self._tell(compilation, failed)
        return Failed(eager_fallback.EagerFallback(always=True))

    def _compile_whole_as_stock(self, broken: Compilation) -> Outcome | None:
        """What stock makes of a frame that is one graph unless we take part; None if it is not.

        Args:
            broken: the attempt that ended with a break for which nothing is left to try.
        """
        if not self._may_be_whole_as_stock(broken):
            return None
        self.plans.off = True
        compilation = self._compilation(as_stock=True)
        outcome = self._try_whole(compilation, self.call)
        if isinstance(outcome, Traced):
            if self.wants_errors or not attempt.is_empty(outcome.result):
                return self._commit(compilation, outcome)
        else:
            attempt.clean_up(outcome.error)
            del outcome  # the traceback holds this frame
        self.plans.off = False
        return None

    def _may_be_whole_as_stock(self, broken: Compilation) -> bool:
        asks = self.wants_errors or (self.plans.exact_texts and not broken.trace.used)
        return asks and not self.plans.off

    def _compile_as_stock(self) -> Outcome:
        """The attempt with the caller's settings: breaks that are left are Dynamo's to handle."""
        self.plans.take_out_unmet()
        compilation = self._compilation()
        outcome = self._try(compilation, self.call)
        try:
            if isinstance(outcome, Traced):
                return self._commit(compilation, outcome)
            return self._after_the_last(compilation, outcome)
        finally:
            del outcome  # the traceback of an error holds this frame

    def _after_the_last(self, compilation: Compilation, failed: Failed) -> Outcome:
        """What follows the attempt with the caller's settings, if it failed."""
        error = failed.error
        try:
            self._note_failed(compilation, failed)
            if isinstance(error, Prepared) or self.retries.after_the_last(error):
                return self._compile_as_stock()
            is_internal = isinstance(error, InternalError) and not self.plans.off
            if is_internal or (attempt.is_failure(error) and self._takes_part()):
                attempt.clean_up(error)
                return self._compile_unmended(failed)
            if isinstance(error, FrameLeft):
                return self._leave(compilation, error)
            if (left := call_left(compilation, error)) is not None:
                return self._leave_call(left) or self._compile_as_stock()
            if self.is_left and (eager := self._left_in_this_call(failed)) is not None:
                attempt.clean_up(error)
                return eager
            breaks = self.wants_errors and attempt.is_break(error)
            if breaks and (whole := self._compile_whole_as_stock(compilation)) is not None:
                return whole
            return self._end(compilation, failed)
        finally:
            del error, failed  # the traceback of a later error holds this frame

    def _end(self, compilation: Compilation, failed: Failed) -> Failed:
        """Accept that Dynamo does not compile the frame."""
        self._note_cut(bool(attempt.break_reason(failed.error)))
        report_result(self.state, self.plans, self.code, compilation.trace, {})
        save_decisions(self.plans, self.state.function_of(self.code))
        self._tell(compilation, failed)
        return failed

    def _note_cut(self, cut: bool) -> None:
        if cut and not self.plans.off:
            self.plans.note_cut()

    def _commit(self, compilation: Compilation, traced: Traced) -> Traced:
        """Accept an attempt."""
        trace, result = compilation.trace, traced.result
        may_leave = False
        for feature in trace.obliged(Feature.on_commit):
            may_leave |= feature.on_commit(compilation)
        undone = [feature.roll_back() for feature in trace.obliged(Feature.roll_back)]
        roll_back = [undo for undo in undone if undo is not None]
        if compilation.is_saved:
            make_savable(result, compilation, self.call.module_globals, may_leave=may_leave)
            # What marked the code that was traced cannot be saved.
            result.bytecode = without_unused_constants(result.bytecode)
        elif may_leave:
            add_deopt_wrapper(result, self.code, self.call.module_globals, roll_back)
        self.state.remember_flips(self.flips)
        # Where rewritten code breaks, Python goes on in another code object than under stock.
        rewritten = not self.plans.off and bool(self.plans.by_code.get(self.function))
        if trace.used or self.follows or rewritten:
            self.state.note_mended(self.function)
        if trace.used:
            eager_fallback.note_mended(self.code)
            asserts = trace.known(Assertions)
            met = asserts is not None and bool(asserts.met)
            breaks = not all(is_expected(self.plans.rewrite_at(site)) for site in trace.used)
            counts = self.state.counts_of(self.code)
            counts.note_compiled(breaks=breaks, asserts=met)
        stored = trace.known(StoredIntegers)
        # CUDA graphs are recorded anew for each value of a symbol.
        pays = bool(trace.used) or not self.plans.cuda_graphs
        if stored is not None and stored.names and pays and not self.plans.off:
            self.state.counts_of(self.code).stored |= stored.names
        if (truths := trace.known(GuardedTruths)) is not None:
            charge_version(self.state, self.code, truths.values)
        rollback = trace.known(Rollback)
        if rollback is not None and rollback.tally is not None:
            self.state.remember_tally(self.code, rollback.tally)
        cut = bool(attempt.break_reason(result))
        mends = trace.mended
        told = self._rewritten(mends) if mends else []
        verify(self.state, compilation, result, mends, self.call.module_globals, cut=cut)
        report_result(self.state, self.plans, self.code, trace, mends, cut=cut)
        self._note_cut(cut)
        save_decisions(self.plans, self.state.function_of(self.code))
        self._tell(compilation, traced, mends, told)
        self._prepare_call(trace)
        return traced

    def _prepare_call(self, trace: Trace) -> None:
        """What the call finds that the frame is compiled for, and its guards."""
        if changes := trace.obliged(Feature.before_guards):
            self.state.counts_of(self.code).flagged += 1
        for feature in changes:
            eager_fallback.note_undo(feature.before_guards())
