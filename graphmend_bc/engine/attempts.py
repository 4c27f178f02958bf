"""One attempt at a frame by Dynamo's own `compile_frame`: what it is given, and what came of it."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE
from types import CodeType
from typing import Any

from graphmend_bc.dynamo.corrections.finalisers import FrameLeft
from graphmend_bc.dynamo.frames import attempt
from graphmend_bc.dynamo.frames.generated_code import OURS
from graphmend_bc.dynamo.frames.internal_errors import InternalError, is_internal, is_too_deep
from graphmend_bc.dynamo.graph.cuda_graphs import frame_records_cuda_graphs
from graphmend_bc.dynamo.host_values.host_value import refused_constant
from graphmend_bc.dynamo.rollback import eager_fallback
from graphmend_bc.dynamo.speculation.survey import Survey, Surveyed
from graphmend_bc.dynamo.symbols.stored_integers import as_symbols
from graphmend_bc.dynamo.trace.break_decisions import BreakTakenUp
from graphmend_bc.dynamo.trace.compilation import Compilation, running
from graphmend_bc.engine.frame_planner import FrameOutcomes, FramePlanner
from graphmend_bc.engine.outcomes.speculation_flips import SpeculationFlips
from graphmend_bc.engine.plans.call_plans import CallPlans
from graphmend_bc.engine.plans.jump_plans import JumpPlans
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.plans.site_plans import Plans
from graphmend_bc.engine.plans.survey_policy import Surveys
from graphmend_bc.engine.retry_policy import RetryPolicy
from graphmend_bc.engine.state import MendingState
from graphmend_bc.engine.traced import Failed, Outcome, Traced
from graphmend_bc.reporting.code_text import Rewritten
from graphmend_bc.reporting.compilations import Attempt, CompiledFrame, FrameResult
from graphmend_bc.reporting.references import references, with_references
from graphmend_bc.rewriting.plan import Capture, Plan
from graphmend_bc.rules.random_draws import DRAWN
from graphmend_bc.rules.registry import handlers, is_on
from graphmend_bc.runtime import Site, identity_of
from graphmend_bc.runtime.signal_handlers import pass_on

log = logging.getLogger("graphmend_bc")

_MOST_FLAGGED = 1
"""How often a frame is compiled for flags that the program has taken back since."""

_SUSPENDS = CO_COROUTINE | CO_GENERATOR | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR


class Attempts:
    """What the attempts at one frame have in common.

    Args:
        state: what is known across frames.
        stock: Dynamo's own `compile_frame`.
        code: the frame's own code object.
        args, kwargs: what Dynamo passes after `code`.
    """

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
        self.call = attempt.AttemptArguments(args, kwargs)
        self.wants_errors = self.call.wants_errors
        self.seen: dict[tuple[Site, int], bool | None] = {}
        self._begin()
        self.failed: list[str] = []
        self.tried: list[Attempt] = []
        self.taken_up = False
        self.has_reported = False
        counts = state.frames.get(identity_of(code))
        self.stored = frozenset[str]() if counts is None else counts.stored
        function = state.function_of(code)
        self.function = identity_of(function)
        if not self.plans.off and function is code and self.function not in state.frames:
            self.plans.suggestions.begin_with(code)
        # What goes on after a break of a frame that is left is left too.
        self.is_left = not state.left_to_stock.isdisjoint({identity_of(code), self.function})
        self.plans.off |= self.is_left
        self.follows = (
            (function is not code and self.function in state.mended)
            or state.rewrites.is_rewritten(code)
            or function.co_filename.startswith(OURS)  # a primitive, around an arm with a break
        )

    def _begin(self, suggests: bool = True) -> None:
        """Nothing was tried yet; plans of other processes may be tried first."""
        suspends = bool(self.code.co_flags & _SUSPENDS)
        self.plans = Plans(self.state, identity_of(self.code), suspends, suggests)
        self.plans.cuda_graphs = frame_records_cuda_graphs(
            self.call.compiler_fn, self.call.locals.values()
        )
        self.surveys = Surveys(self.plans)
        self.flips = SpeculationFlips()
        self.planner = FramePlanner(
            self.plans,
            self.surveys,
            JumpPlans(self.plans),
            CallPlans(self.plans),
            self.flips,
            self.seen,
        )
        self.retries = RetryPolicy(
            self.state, self.plans, self.surveys, self.flips, self.wants_errors
        )

    def _note_failed(self, compilation: Compilation, failed: Failed) -> None:
        self.failed.append(self.retries.describe(compilation.trace, failed))
        self.tried[-1] = replace(self.tried[-1], failed_at=self.failed[-1])
        if log.isEnabledFor(logging.DEBUG):
            site, number = site_of(self.code, 0), len(self.failed)
            why = with_references(self.failed[-1])
            log.debug("Attempt %d at %s failed: %s.", number, site, why)

    def _takes_part(self) -> bool:
        """Whether stock might have met no error, having skipped the frame in another call."""
        known = self.follows or self.function in self.state.mended
        return not self.plans.off and (known or self.plans.rewrites())

    def _try(self, compilation: Compilation, call: attempt.AttemptArguments) -> Outcome:
        """One attempt by Dynamo's own `compile_frame`."""
        begun = time.perf_counter_ns()
        try:
            # No local holds it: the traceback of an error holds this frame.
            return _known_as_ours(compilation, self._outcome(compilation, call))
        finally:
            self.tried.append(Attempt("", begun, time.perf_counter_ns() - begun))

    def _attempt(self, compilation: Compilation) -> Outcome:
        """One attempt that ends at a break which another one may mend."""
        if compilation.takes_up is not None:
            return self._try(compilation, self.call)
        return self._try_whole(compilation, self.call.with_breaks)

    def _try_whole(self, compilation: Compilation, call: attempt.AttemptArguments) -> Outcome:
        """As `_try`; a graph break is an error."""
        with attempt.breaks_are_errors():
            outcome = self._try(compilation, call)
        if isinstance(outcome, Traced):
            attempt.restore_error_setting(outcome.result)
        return outcome

    def _outcome(self, compilation: Compilation, call: attempt.AttemptArguments) -> Outcome:
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
            surveyed = compilation.trace.known(Survey) is not None
            return Failed(Surveyed()) if surveyed else Traced(result)
        except BreakTakenUp as taken_up:
            attempt.clean_up(taken_up)
            return Failed(taken_up.error)
        except Exception as error:
            pass_on(error)
            return Failed(refused_constant(error))

    def _compilation(
        self,
        goes_on: bool = False,
        as_stock: bool = False,
        takes_up: Callable[[Compilation, Exception], bool] | None = None,
    ) -> Compilation:
        return Compilation(
            code=self.code,
            planner=self.planner,
            outcomes=FrameOutcomes(self.state, self.code),
            may_mend=not (self.plans.off or self.plans.suspends),
            goes_on=goes_on,
            follows=self.follows,
            was_mended=self.function in self.state.mended,
            captures=any(plan.of_kind(Capture) for plan in self.plans.by_code.values()),
            given_up=self.state.given_up,
            guarded=self.state.guarded,
            handlers=handlers(),
            draws=is_on(DRAWN, self.state.lost) and not self.plans.suspends,
            one_graph=self.wants_errors,
            leaves=not self.wants_errors and eager_fallback.is_called(),
            sets_flags=self._sets_flags(),
            is_saved=not (self.call.exports or eager_fallback.is_called()),
            as_stock=as_stock,
            takes_up=takes_up,
            exact_asserts=self.plans.exact_asserts,
            exact_texts=self.plans.exact_texts,
        )

    def _sets_flags(self) -> bool:
        counts = self.state.frames.get(identity_of(self.code))
        return eager_fallback.is_called() and (counts is None or counts.flagged < _MOST_FLAGGED)

    # Telling

    def _rewritten(self, mended: Iterable[Site]) -> list[Rewritten]:
        """The code that was rewritten for an attempt, which may be planned otherwise after it.

        Also what was mended as it is: calls that are deferred, numbers that are captured.
        """
        plans, codes = self.plans, self.state.rewrites.codes
        named = {site.code for site in mended}
        known = [(code, plans.by_code.get(key, Plan())) for key, code in [*plans.codes.items()]]
        return [
            Rewritten(identity_of(code), partial(codes, weakref.ref(code), plan))
            for code, plan in known
            if plan.changes_code or identity_of(code) in named
        ]

    def _tell(
        self,
        compilation: Compilation,
        outcome: Outcome,
        mended: Iterable[Site] = (),
        rewritten: Sequence[Rewritten] = (),
    ) -> None:
        error = outcome.error if isinstance(outcome, Failed) else None
        is_broken = error is not None and not self.wants_errors and attempt.is_break(error)
        result = FrameResult(
            graphs=compilation.graphs,
            break_reason=_break_reason(outcome),
            skipped=isinstance(error, FrameLeft) or is_broken,
            attempts=tuple(self.failed),
        )
        frame = CompiledFrame(
            site=site_of(self.state.rewrites.original(self.code, 0)[0], 0),
            function=self.function,
            attempts=tuple(self.tried),
            operators=tuple(compilation.operators),
            break_reason=result.break_reason,
            break_at=self._break_place(outcome),
            skipped=result.skipped,
            mended=tuple(mended),
            left=tuple(self.plans.declined),
        )
        self.state.note_frame(self.code, result, frame, rewritten)
        for listener in self.state.on_frame:
            listener(result)

    def _break_place(self, outcome: Outcome) -> tuple[str, int] | None:
        if isinstance(outcome, Traced):
            return attempt.break_place(outcome.result)
        site = self.retries.place_of(outcome)
        return None if site is None else (site.filename, site.lineno)

    def _explain(self, error: BaseException) -> None:
        """Add our reasons below Dynamo's own message."""
        lines = []
        for decline in self.plans.declined.values():
            lines += ["graphmend_bc could not mend this break.", *decline.lines]
        if lines:
            error.add_note("\n".join([*lines, *references(lines)]))


def _break_reason(outcome: Outcome) -> str:
    """Why a frame's graph ended before the frame did, in Dynamo's words; empty if it did not."""
    return attempt.break_reason(outcome.error if isinstance(outcome, Failed) else outcome.result)


def _known_as_ours(compilation: Compilation, outcome: Outcome) -> Outcome:
    """What came of an attempt, as an error of ours if it is one."""
    error = outcome.error if isinstance(outcome, Failed) else None
    failure = compilation.trace.failure
    if failure is None and error is not None and (is_internal(error) or is_too_deep(error)):
        failure = error
    if failure is None:
        return outcome
    if error is not None:
        attempt.clean_up(error)
    return Failed(InternalError(failure, error))
