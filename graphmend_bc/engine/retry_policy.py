"""What a failed attempt teaches: which plan is changed before the next one."""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType

from graphmend_bc import config
from graphmend_bc.dynamo.calls.assertions import Assertions
from graphmend_bc.dynamo.calls.backward_pass import BackwardPasses
from graphmend_bc.dynamo.calls.higher_order import HigherOrder
from graphmend_bc.dynamo.calls.inner_passes import InnerPasses
from graphmend_bc.dynamo.deferral.accumulated_state import AccumulatedState
from graphmend_bc.dynamo.frames import attempt
from graphmend_bc.dynamo.frames.breaks import (
    UNSAFE_SIDE_EFFECT,
    Break,
    first_line,
    offset_of,
)
from graphmend_bc.dynamo.frames.inlined_frames import frames_at, is_passed_anyway
from graphmend_bc.dynamo.frames.on_stack_replacement import NotReplaceable
from graphmend_bc.dynamo.speculation.checks import Checks
from graphmend_bc.dynamo.speculation.survey import Survey
from graphmend_bc.dynamo.symbols.captures import captured_in
from graphmend_bc.dynamo.trace.compilation import (
    Compilation,
    SiteRefused,
    Trace,
    TracedAnew,
)
from graphmend_bc.engine.outcomes.speculation_flips import SpeculationFlips
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.plans.site_plans import Plans
from graphmend_bc.engine.plans.survey_policy import Surveys
from graphmend_bc.engine.state import MendingState
from graphmend_bc.engine.traced import Failed
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.speculation_stats import Speculation
from graphmend_bc.rewriting.mark_callee import CALLS
from graphmend_bc.rules.rule import BreakSite
from graphmend_bc.rules.standard_library import Prepared
from graphmend_bc.runtime import Site, identity_of

_PROGRAM_ERRORS = frozenset({"Observed exception"})
"""Break types that are the program's own exceptions: there is nothing to mend."""


_OF_CALLEES = frozenset({"Unsupported method call", "Failed to trace builtin operator"})
"""Break types that tell the kinds of the arguments, numbers known only at run time among them."""

_OF_NO_NUMBERS = frozenset(
    {
        "Attempted to copy.deepcopy a tensor",
        "Import failure",
        "Unsupported Tensor.backward() call",
        "Unsupported Tensor.requires_grad_() call",
    }
)
"""Break types to which numbers known only at run time do not lead."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Changes the plans of one frame.

    Attributes:
        state: what is known across frames.
        plans: of the frame.
        surveys: of the frame.
        flips: its speculations that were tried the other way.
        wants_errors: whether a graph break of the frame is an error.
    """

    state: MendingState
    plans: Plans
    surveys: Surveys
    flips: SpeculationFlips
    wants_errors: bool

    def after(self, compilation: Compilation, failed: Failed) -> bool:
        """Change a plan or a speculation after a failed attempt; False if nothing is left to try.

        Args:
            compilation: the attempt.
            failed: what it ended with.
        """
        return (
            self._learn(compilation, failed)
            or self._flip(compilation, failed)
            or self._leave_asserts(compilation, failed)
        )

    def describe(self, trace: Trace, failed: Failed) -> str:
        """What an attempt failed at, in a few words.

        Args:
            trace: the attempt.
            failed: what it ended with.
        """
        error = failed.error
        if (survey := trace.known(Survey)) is not None:
            refused = [f"{why.reason.code} at {site}" for site, why in survey.refused.items()]
            return ", ".join([*refused, *(self._described(found) for found in survey.found)])
        if isinstance(error, SiteRefused):
            return f"{error.refused.reason.code} at {', '.join(map(str, error.sites))}"
        if (found := failed.found) is None:
            return type(error).__name__
        if isinstance(error, NotReplaceable):
            return f"A plan for the next attempt at {self._site(found)}"
        return self._described(found)

    def _described(self, found: Break) -> str:
        return f"{found.gb_type} at {self._site(found)}"

    def _site(self, found: Break) -> Site:
        original, offset = self.state.rewrites.original(found.code, found.offset)
        return site_of(original, max(offset, 0))

    def place_of(self, failed: Failed) -> Site | None:
        """The user's instruction at which an attempt ended; None if it was in none.

        Args:
            failed: what it ended with.
        """
        return None if failed.found is None else self._site(failed.found)

    def stops_speculating(self, compilation: Compilation, code: CodeType, error: Exception) -> bool:
        """Take speculations out if the paths they choose keep raising: calls may never go there.

        Args:
            compilation: the attempt.
            code: the frame's own.
            error: what it ended with.
        """
        if self.state.eager_calls[identity_of(code)] < config.flip_limit:
            return False
        sites = dict.fromkeys(speculation.site for speculation, _ in compilation.trace.speculations)
        return self.plans.climb_all(sites, Refused("arm-does-not-trace", first_line(error)))

    def drops_suggestions(self, failed: Failed, learned: bool) -> bool:
        """True if plans that were read from disk did not carry the frame: they are gone then.

        They are not to blame for a break somewhere else.

        Args:
            failed: what an attempt with them ended with.
            learned: whether a plan or a speculation was changed after it.
        """
        suggestions, found = self.plans.suggestions, failed.found
        raised = found is not None and found.gb_type in _PROGRAM_ERRORS
        elsewhere = learned or (attempt.is_break(failed.error) and not raised)
        if not suggestions.tried or (elsewhere and not suggestions.are_changed(self.plans.by_code)):
            return False
        suggestions.drop()
        return True

    def after_the_last(self, error: Exception) -> bool:
        """Change a plan after the last attempt failed; False if that was not for a plan.

        Args:
            error: what it ended with.
        """
        if isinstance(error, TracedAnew):
            self.plans.trace_anew(error)
            return True
        if isinstance(error, SiteRefused):
            if self.plans.stop_capturing(error.refused, error.sites or None):
                return True
            if self.plans.declined.keys() >= set(error.sites):
                return False
            for site in error.sites:
                self.plans.drop(site, error.refused)
            return True
        failed = Refused("capture-fails", first_line(error))
        if attempt.is_break(error) or not self.plans.stop_capturing(failed):
            return False
        attempt.clean_up(error)
        return True

    def _learn(self, compilation: Compilation, failed: Failed) -> bool:
        trace, plans = compilation.trace, self.plans
        error = failed.error
        plans.unmet -= {*trace.used, *trace.refused}
        plans.gb_types |= trace.gb_types
        if (survey := trace.known(Survey)) is not None:
            self.surveys.learn(survey)
            return True
        if isinstance(error, (Prepared, NotReplaceable)):
            return isinstance(error, Prepared) or plans.note_postponed(self.place_of(failed))
        if isinstance(error, TracedAnew):
            plans.trace_anew(error)
            return True
        if isinstance(error, SiteRefused):
            known = len(plans.declined)
            # A number of an input is a symbol that is made nowhere in the program.
            if plans.stop_capturing(error.refused, error.sites or None):
                return True
            # A resume function holds sites that no plan has; declined, they mean nothing.
            climbed = plans.climb_all(error.sites, error.refused)
            return climbed or len(plans.declined) > known
        found = failed.found
        if found is not None and found.gb_type in _PROGRAM_ERRORS:
            return self._stops_adding(trace, error)
        stops = attempt.is_break(error) or self._asks_symbol(error, found)
        if not stops and (learned := self._learn_failure(trace, first_line(error))) is not None:
            return learned
        if found is None or not stops:
            in_arm = bool(trace.arms) and attempt.is_dynamos(error)
            refused = Refused("arm-does-not-trace", first_line(error))
            return in_arm and plans.climb(trace.arms[-1], refused)
        return self._learn_break(compilation, error, found)

    def _stops_adding(self, trace: Trace, error: Exception) -> bool:
        """Add to nothing that the program has looked into before it raised: it saw an old value."""
        added = trace.known(AccumulatedState)
        if added is None or not (frames := frames_at(error)):
            return False
        effects = frames[0][0].output.side_effects
        refused = Refused("state-used", "It is read before the exception that is raised.")
        return self.plans.climb_all(added.looked_into(effects), refused)

    def _learn_failure(self, trace: Trace, said: str) -> bool | None:
        """Do without what may have made tracing raise; None if nothing was there that may."""
        plans, operators = self.plans, trace.known(HigherOrder)
        if operators is not None and operators.functional and not trace.arms:
            refused = Refused("backend-refuses", said)
            return plans.climb_all(dict.fromkeys(operators.functional.values()), refused)
        if plans.stop_capturing(Refused("capture-fails", said)):
            return True
        passes, inner = trace.known(BackwardPasses), trace.known(InnerPasses)
        if sites := [site for known in (passes, inner) if known for site in known.sites]:
            return plans.climb_all(sites, Refused("backward-noticed", said))
        return None

    def _asks_symbol(self, error: Exception, found: Break | None) -> bool:
        """True if a condition of the user's asks a number that is known only at run time."""
        if found is None or not attempt.asks_symbol(error):
            return False
        original, offset = self.state.rewrites.original(found.code, found.offset)
        return offset >= 0 and BreakSite(original, offset).is_condition

    def _learn_break(self, compilation: Compilation, error: Exception, found: Break) -> bool:
        """Change a plan after a graph break; False if nothing can be done about it."""
        trace, plans = compilation.trace, self.plans
        original, offset = self.state.rewrites.original(found.code, found.offset)
        if offset < 0:
            return False
        site = site_of(original, offset)
        if trace.arms and found.gb_type == UNSAFE_SIDE_EFFECT:
            refused = Refused("arm-changes-state", f"It does so at {site}.")
            return plans.climb(trace.arms[-1], refused)
        if plans.breaks_as_stock(site):
            plans.note_break(site, found)
        if plans.is_planned(site) and site not in plans.declined:
            if site in plans.captured_sites() and not compilation.captures:
                return True  # the plan was found when the trace had begun
            code = "call-not-traced" if site.opname in CALLS else "arm-does-not-trace"
            if plans.climb(site, trace.refused.get(site) or Refused(code)):
                return True
        if plans.is_left(site, found):
            if plans.start_as_input(original, site):
                return True
        elif plans.start(original, site) or self._blames_another(compilation, error, site, found):
            return True
        around = trace.arms[-1] if trace.arms else self._lifted_around(error)
        if around is not None:
            return plans.climb(around, Refused("arm-does-not-trace", f"It breaks at {site}."))
        return False

    def _lifted_around(self, error: Exception) -> Site | None:
        """The innermost branch or loop that was made a call and in which an attempt ended."""
        for translator, (_, instruction) in reversed(frames_at(error)[:-1]):
            offset = offset_of(translator, instruction)
            if offset is not None and self.state.rewrites.is_rewritten(translator.f_code):
                site = self.plans.site_at(translator.f_code, offset)
                if self.plans.is_lifted(site):
                    return site
        return None

    def _blames_another(
        self, compilation: Compilation, error: Exception, site: Site, found: Break
    ) -> bool:
        """Change what may have led to a break that no rule mends; False if there is nothing."""
        # Where a number is needed that the graph computes, no other way to get there helps.
        changed = attempt.asks_symbol(error) and self._captures_less(compilation.trace, site, found)
        changed = changed or self._flip_blind(compilation, error, found)
        # Where chance decides in a function that is called, that one breaks by itself, whatever the
        # rest of the graph captures.
        by_chance = self.plans.declined[site].reason == "decided-by-chance"
        if not (changed or (by_chance and len(frames_at(error)) > 1)):
            changed = self._captures_less(compilation.trace, site, found)
        if changed:
            self.plans.declined.pop(site, None)
            self.plans.take_out(site)
        return changed

    def _captures_less(self, trace: Trace, site: Site, found: Break) -> bool:
        """Capture nothing any more, if numbers that were captured may have led to a break."""
        plans = self.plans
        if not captured_in(trace) or found.gb_type in _OF_NO_NUMBERS:
            return False
        no_numbers = found.gb_type in _OF_CALLEES and "SymNode" not in found.text
        if no_numbers and plans.declined[site].reason == "call-not-traced":
            return False
        because = "".join(f" ({r.reason.code})" for r in plans.passed_over.get(site, ()))
        refused = Refused("capture-fails", f"Tracing stopped at {site}{because}.")
        is_loop = plans.declined[site].reason == "loop-unbounded"
        return plans.stop_capturing(refused, loop=site if is_loop else None)

    def _leave_asserts(self, compilation: Compilation, failed: Failed) -> bool:
        """Leave assertions to Dynamo if tracing stopped at one: stock compiles them.

        Not if one failed too often, which stock's operator would tell by another exception, unless
        the frame must be one graph.
        """
        found = failed.found
        asserts = compilation.trace.known(Assertions)
        if found is None or asserts is None or (found.code, found.offset) not in asserts.met:
            return False
        original, offset = self.state.rewrites.original(found.code, found.offset)
        if site_of(original, offset) in self.state.given_up and not self.wants_errors:
            return False
        self.plans.exact_asserts = False
        return True

    def _flip_blind(self, compilation: Compilation, error: Exception, found: Break) -> bool:
        """Leave the way where tracing stopped, if only the bytecode spoke for it."""
        if found.gb_type in _PROGRAM_ERRORS:
            return False
        blind = [
            speculation
            for speculation in self._that_decide(compilation, error)
            if speculation.site in self.flips.blind
        ]
        return self.flips.flip(blind, self._place(found), last=False)

    def _flip(self, compilation: Compilation, failed: Failed) -> bool:
        """Speculate otherwise, if what was assumed cannot be traced."""
        error, found = failed.error, failed.found
        if found is not None and attempt.is_break(error):
            # The way of this very call: the other one would not be that of the graph's first call.
            return not self._is_final(found) and self._flip_blind(compilation, error, found)
        stopped = str(error) if found is None else self._place(found)
        return self.flips.flip(self._that_decide(compilation, error), stopped)

    def _that_decide(self, compilation: Compilation, error: Exception) -> list[Speculation]:
        """The speculations of an attempt without which it might not have ended where it did."""
        trace, end = compilation.trace, frames_at(error)
        checks = trace.known(Checks)
        if checks is None:
            return []
        return [
            speculation
            for (speculation, _), place in zip(trace.speculations, checks.places, strict=True)
            if not is_passed_anyway(place, end)
        ]

    def _is_final(self, found: Break) -> bool:
        """Whether nothing can be done about a break."""
        return found.gb_type in _PROGRAM_ERRORS or self.plans.is_left(self._site(found), found)

    def _place(self, found: Break) -> object:
        """Where tracing stopped: in which of the user's functions, at which offset of its code."""
        original, _ = self.state.rewrites.original(found.code, 0)
        return identity_of(original), found.offset
