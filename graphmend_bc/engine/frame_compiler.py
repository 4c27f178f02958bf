"""The attempts at one frame: break met -> site found -> plan -> rewrite -> re-feed -> proof.

One call of Dynamo's `compile_frame` becomes a few attempts. Each traces the frame to its end or to
the first break; a break that can be mended changes the plan of the code object it is in, and the
next attempt traces the rewritten code. The last attempt is Dynamo's own, with the caller's
settings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from types import CodeType
from typing import Any

from graphmend_bc import config
from graphmend_bc.dynamo.corrections.finalisers import FrameLeft
from graphmend_bc.dynamo.rollback import eager_fallback
from graphmend_bc.dynamo.rollback.cache_entries import forget_compiled
from graphmend_bc.dynamo.rollback.deopt_wrapper import add_deoptimisation
from graphmend_bc.dynamo.rollback.rollback_analysis import Rollback
from graphmend_bc.dynamo.speculation.guarded_truth import GuardedTruths
from graphmend_bc.dynamo.speculation.survey import Survey, Surveyed
from graphmend_bc.dynamo.substitutes.first_use import Prepared
from graphmend_bc.dynamo.symbols.stored_integers import StoredIntegers, as_symbols
from graphmend_bc.dynamo.trace import attempt
from graphmend_bc.dynamo.trace.assertions import Assertions
from graphmend_bc.dynamo.trace.context import Compilation, running
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.generated_code import OURS
from graphmend_bc.dynamo.trace.internal_errors import InternalError, is_internal
from graphmend_bc.engine.commit import keep, settle
from graphmend_bc.engine.failures import report_failure
from graphmend_bc.engine.governor import Recompiled, leaves_frame
from graphmend_bc.engine.recompilations import charge_compilation, charge_version
from graphmend_bc.engine.retry_policy import Lessons
from graphmend_bc.engine.rewrite_cache import site_of
from graphmend_bc.engine.site_plans import Plans
from graphmend_bc.engine.speculation_flips import SpeculationFlips
from graphmend_bc.engine.state import MendingState
from graphmend_bc.engine.survey_policy import Surveys
from graphmend_bc.reporting.report import Decline, FrameResult
from graphmend_bc.rewriting.plan import Capture
from graphmend_bc.rules import drawn
from graphmend_bc.rules.registry import handlers, is_on
from graphmend_bc.runtime import Site, identity_of
from graphmend_bc.runtime.signal_handlers import pass_on

log = logging.getLogger("graphmend_bc")

_SUSPENDS = CO_COROUTINE | CO_GENERATOR | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR


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
        Exception: what Dynamo's own raises.
    """
    charge_compilation(state, code)
    frame = Frame(state, stock, code, args, kwargs)
    try:
        state.forget_dead()
        outcome = frame.compile()
    except Exception as error:
        pass_on(error)
        outcome = frame.compile_without_us(InternalError(error))
    if not isinstance(outcome, Exception):
        return outcome
    try:
        # Stock could not do without us either: the user sees what was raised.
        raise outcome if not isinstance(outcome, InternalError) else outcome.failure
    finally:
        del outcome  # its traceback holds this frame


class Frame:
    """The attempts at one frame."""

    def __init__(
        self,
        state: MendingState,
        stock: Callable[..., Any],
        code: CodeType,
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> None:
        self.state = state
        self.stock = stock
        self.code = code
        self.call = attempt.Arguments(args, kwargs)
        self.wants_errors = self.call.wants_errors
        self._begin()
        self.seen: dict[Site, bool | None] = {}
        self.failed: list[str] = []
        counts = state.frames.get(identity_of(code))
        self.stored = frozenset[str]() if counts is None else counts.stored
        function = state.function_of(code)
        self.function = identity_of(function)
        # What goes on after a break of a frame that is left is left too.
        self.plans.off |= not state.unfit.isdisjoint({identity_of(code), self.function})
        self.follows = (
            (function is not code and self.function in state.mended)
            or state.rewrites.is_rewritten(code)
            or function.co_filename.startswith(OURS)  # a primitive, around an arm with a break
        )

    def _begin(self, suggests: bool = True) -> None:
        """Nothing was tried yet; plans of other processes may be tried first."""
        self.plans = Plans(self.state, bool(self.code.co_flags & _SUSPENDS), suggests)
        self.surveys = Surveys(self.plans)
        self.flips = SpeculationFlips()
        self.lessons = Lessons(self.state, self.plans, self.surveys, self.flips, self.wants_errors)

    def compile(self) -> Any:
        """What Dynamo's own function returns, or what it raises."""
        self._leave_if_mending_does_not_pay()
        outcome: Any = None
        try:
            if not self.plans.off:
                for _ in range(config.retrace_limit):
                    compilation = self._compilation(surveys=self.plans.exact_asserts)
                    with attempt.breaks_are_errors():
                        outcome = self._try(compilation, self.call.with_breaks)
                    if not isinstance(outcome, Exception):
                        attempt.restore_error_setting(outcome)
                        if not self.wants_errors and attempt.is_empty(outcome):
                            break  # stock skips such frames, which only its own settings do
                        return self._commit(compilation, outcome)
                    attempt.clean_up(outcome)
                    self._note_failed(compilation, outcome)
                    if isinstance(outcome, FrameLeft):
                        return self._leave(compilation, outcome)
                    if self._goes_on(compilation, outcome):
                        continue
                    if not attempt.is_break(outcome):
                        return self._compile_unmended(outcome)
                    if (whole := self._compile_whole_as_stock(compilation)) is not None:
                        return whole
                    if self.wants_errors:
                        settle(self.state, self.plans, self.code, compilation.trace, {})
                        self._explain(outcome)
                        return outcome
                    break
            return self._compile_as_stock()
        finally:
            del outcome  # the traceback of an error holds this frame

    def compile_without_us(self, error: InternalError) -> Any:
        """As `compile`, where we failed outside of an attempt: nothing is mended or remembered."""
        self._report(error)
        self.plans.off = True
        return self._try(self._compilation(), self.call)

    def _note_failed(self, compilation: Compilation, error: Exception) -> None:
        self.failed.append(self.lessons.told(compilation.trace, error))
        if log.isEnabledFor(logging.DEBUG):
            site, number = site_of(self.code, 0), len(self.failed)
            log.debug("Attempt %d at %s failed: %s.", number, site, self.failed[-1])

    def _goes_on(self, compilation: Compilation, error: Exception) -> bool:
        """Whether there is another attempt: the usual one if plans from disk were no good."""
        if isinstance(error, InternalError):
            return False
        learned = self.lessons.after(compilation, error)
        if self.lessons.drops_suggestions(error, learned):
            self._begin(suggests=False)
            return True
        if learned or attempt.is_break(error):
            return learned
        return self.lessons.stops_speculating(compilation, self.code, error)

    def _leave_if_mending_does_not_pay(self) -> None:
        """Mend nothing if stock's pieces are compiled less often. They get an empty cache."""
        counts = self.state.frames.get(identity_of(self.code))
        if self.plans.off or counts is None or not counts.compiled or attempt.keeps_compiled():
            return
        entries = eager_fallback.counted_versions(self.code)
        limit = attempt.recompile_limit()
        known = Recompiled(entries, limit, self.wants_errors, counts.asserts)
        if not leaves_frame(known):
            return
        forget_compiled(self.code)
        self.plans.off = True
        self.state.leave_frame(self.code, f"It was compiled {counts.compiled} times.")

    def _try(self, compilation: Compilation, call: attempt.Arguments) -> Any:
        """One attempt by Dynamo's own `compile_frame`: what it returns, or the error it raises."""
        # No local holds it: the traceback of an error holds this frame.
        return _known_as_ours(compilation, self._outcome(compilation, call))

    def _outcome(self, compilation: Compilation, call: attempt.Arguments) -> Any:
        try:
            code = self.plans.code_for(self.code)
            with (
                running(compilation),
                attempt.capturing(compilation.captures),
                attempt.guarding_defaults() if compilation.may_mend else nullcontext(),
                as_symbols(frozenset() if self.plans.off else self.stored),
            ):
                result = self.stock(code, *call.args, **call.kwargs)
            # What a survey traced must not be used, whatever Dynamo made of it.
            return result if compilation.trace.known(Survey) is None else Surveyed()
        except Exception as error:
            pass_on(error)
            return error

    def _compile_unmended(self, error: Exception) -> Any:
        """Nothing of ours takes part; if anything did before, the error may have been ours.

        The program raises it as well if it is about an operator, and where eager Python does.
        """
        rewritten, site = self.plans.rewrites(), site_of(self.code, 0)
        can_leave = self._takes_part() and eager_fallback.can_leave(error)
        if can_leave and self.state.leaves_call(self.code):
            log.info("%s runs without compilation in this call. It raises %r.", site, error)
            left = eager_fallback.RunsEagerly()
            left.__cause__ = error
            return left
        self.plans.off = True
        if rewritten or isinstance(error, InternalError):
            self._report(error)
        return self._compile_as_stock()

    def _report(self, error: Exception) -> None:
        report_failure(self.state, site_of(self.code, 0), error, self.lessons.place_of(error))

    def _leave(self, compilation: Compilation, left: FrameLeft) -> Exception:
        """Compiled, it is not what eager Python does. Compiled callees keep what they are given."""
        place = self.lessons.place_of(left) or site_of(self.code, 0)
        self.state.note_decline(Decline.of(left.refused, place))
        self._tell(compilation, left)
        return eager_fallback.RunsEagerly(always=True)

    def _compile_whole_as_stock(self, broken: Compilation) -> Any:
        """What stock makes of a frame that is one graph unless we take part; None if it is not.

        Args:
            broken: the attempt that ended with a break for which nothing is left to try.
        """
        asks = self.wants_errors or (self.plans.exact_texts and not broken.trace.used)
        if self.plans.off or not asks:
            return None
        self.plans.off = True
        compilation = self._compilation(as_stock=True)
        with attempt.breaks_are_errors():
            outcome = self._try(compilation, self.call)
        if not isinstance(outcome, Exception):
            attempt.restore_error_setting(outcome)
            if self.wants_errors or not attempt.is_empty(outcome):
                return self._commit(compilation, outcome)
        else:
            attempt.clean_up(outcome)
            del outcome  # its traceback holds this frame
        self.plans.off = False
        return None

    def _takes_part(self) -> bool:
        """Whether stock might have met no error, having skipped the frame in another call."""
        known = self.follows or self.function in self.state.mended
        return not self.plans.off and (known or self.plans.rewrites())

    def _compile_as_stock(self) -> Any:
        """The attempt with the caller's settings: breaks that are left are Dynamo's to handle."""
        for site in self.plans.unmet:
            self.plans.take_out(site)
        compilation = self._compilation()
        outcome = self._try(compilation, self.call)
        try:
            if not isinstance(outcome, Exception):
                return self._commit(compilation, outcome)
            self._note_failed(compilation, outcome)
            if isinstance(outcome, Prepared) or self.lessons.after_the_last(outcome):
                return self._compile_as_stock()
            is_internal = isinstance(outcome, InternalError) and not self.plans.off
            if is_internal or (attempt.is_failure(outcome) and self._takes_part()):
                attempt.clean_up(outcome)
                return self._compile_unmended(outcome)
            if isinstance(outcome, FrameLeft):
                return self._leave(compilation, outcome)
            breaks = self.wants_errors and attempt.is_break(outcome)
            if breaks and (whole := self._compile_whole_as_stock(compilation)) is not None:
                return whole
            settle(self.state, self.plans, self.code, compilation.trace, {})
            self._tell(compilation, outcome)
            return outcome
        finally:
            del outcome  # the traceback of an error holds this frame

    def _commit(self, compilation: Compilation, result: Any) -> Any:
        """Accept an attempt."""
        trace = compilation.trace
        used: dict[Site, str] = {}
        may_leave, roll_back = False, None
        for feature in trace.obliged(Feature.mended):
            used |= feature.mended()
        for feature in trace.obliged(Feature.on_commit):
            may_leave |= feature.on_commit(compilation)
        for feature in trace.obliged(Feature.roll_back):
            roll_back = roll_back or feature.roll_back()
        if may_leave:
            add_deoptimisation(result, self.code, self.call.module_globals, roll_back)
        self.state.remember_flips(self.flips)
        # Where rewritten code breaks, Python goes on in another code object than under stock.
        rewritten = not self.plans.off and bool(self.plans.by_code.get(self.function))
        if trace.used or self.follows or rewritten:
            self.state.note_mended(self.function)
        if trace.used:
            eager_fallback.note_mended(self.code)
            asserts = trace.known(Assertions)
            met = asserts is not None and bool(asserts.met)
            stored = trace.of(StoredIntegers).names
            self.state.counts_of(self.code).note_compiled(asserts=met, stored=stored)
        if (truths := trace.known(GuardedTruths)) is not None:
            charge_version(self.state, self.code, truths.values)
        rollback = trace.known(Rollback)
        if rollback is not None and rollback.tally is not None:
            self.state.remember_tally(rollback.tally)
        settle(self.state, self.plans, self.code, trace, used | trace.used)
        keep(self.plans)
        self._tell(compilation, result)
        return result

    def _compilation(self, surveys: bool = False, as_stock: bool = False) -> Compilation:
        return Compilation(
            code=self.code,
            code_for=self.plans.code_for,
            may_mend=not (self.plans.off or self.plans.suspends),
            likely=self._likely,
            follows=self.follows,
            was_mended=self.function in self.state.mended,
            graph_failed=partial(self.state.graph_failed, self.code),
            draw_mismatched=partial(self.state.draw_mismatched, self.code),
            declined=self.plans.declined,
            rewrites=self.plans.rewrites,
            captures=any(plan.of_kind(Capture) for plan in self.plans.by_code.values()),
            note_capture=self.plans.note_capture,
            site_at=self.plans.site_at,
            given_up=self.state.given_up,
            guarded=self.state.guarded,
            handlers=handlers(),
            draws=is_on(drawn.RULE, self.state.lost) and not self.plans.suspends,
            leaves=not self.wants_errors and eager_fallback.is_called(),
            as_stock=as_stock,
            exact_asserts=self.plans.exact_asserts,
            exact_texts=self.plans.exact_texts,
            survey_at=self.surveys.way_at if surveys else None,
            falls_back=self.surveys.way_after if surveys else None,
        )

    def _likely(
        self, site: Site, occurrence: int, seen: Callable[[], bool | None], suggested: bool
    ) -> bool:
        known = self.state.likely(site, occurrence)
        if known is None:
            if site not in self.seen:
                self.seen[site] = seen()
            known = self.seen[site]
        if known is None:
            self.flips.blind.add(site)
            known = suggested
        return self.flips.likely(site, occurrence, known)

    # Telling

    def _tell(self, compilation: Compilation, outcome: Any) -> None:
        result = FrameResult(
            graphs=compilation.graphs,
            break_reason=attempt.break_reason(outcome),
            skipped=isinstance(outcome, FrameLeft)
            or (
                isinstance(outcome, Exception)
                and not self.wants_errors
                and attempt.is_break(outcome)
            ),
            attempts=tuple(self.failed),
        )
        self.state.note_compiled(self.code)
        self.state.report.compiled.note(result)
        for listener in self.state.on_frame:
            listener(result)

    def _explain(self, error: BaseException) -> None:
        """Add our reasons below Dynamo's own message."""
        for decline in self.plans.declined.values():
            error.add_note(f"graphmend_bc could not mend this break.\n{decline}")


def _known_as_ours(compilation: Compilation, outcome: Any) -> Any:
    """What came of an attempt, as an error of ours if it is one."""
    error = outcome if isinstance(outcome, Exception) else None
    failure = compilation.trace.failure
    if failure is None and error is not None and is_internal(error):
        failure = error
    if failure is None:
        return outcome
    if error is not None:
        attempt.clean_up(error)
    return InternalError(failure, error)
