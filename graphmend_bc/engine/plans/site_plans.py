"""The plans of one frame: which rule is tried at which site, and why others are left."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from types import CodeType

from graphmend_bc import config
from graphmend_bc.catalog.observers import observer_names
from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.dynamo.frames import code_notes
from graphmend_bc.dynamo.frames.breaks import Break, gb_id_of
from graphmend_bc.dynamo.frames.internal_errors import InternalError
from graphmend_bc.dynamo.trace.compilation import RegionBreaks, TextsMoved, TracedAnew
from graphmend_bc.engine.decisions.suggestions import Suggestions
from graphmend_bc.engine.outcomes.failures import report_failure
from graphmend_bc.engine.plans.expected_sites import expected, is_expected
from graphmend_bc.engine.plans.frame_breaks import FrameBreaks
from graphmend_bc.engine.plans.remaining_rules import (
    planned_ahead,
    remaining_rules,
    without_symbols_first,
)
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.plans.specific_reasons import most_specific
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.references import with_references
from graphmend_bc.reporting.report import Decline
from graphmend_bc.rewriting import Plan
from graphmend_bc.rewriting.operands import is_subscript
from graphmend_bc.rewriting.plan import (
    Capture,
    LiftBranch,
    LiftLoop,
    LiftRound,
    MarkCallee,
    Rewrite,
)
from graphmend_bc.rules.deferred_calls import DEFER
from graphmend_bc.rules.hoisting import HOIST
from graphmend_bc.rules.registry import candidates_at, is_on
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Candidate
from graphmend_bc.rules.scalar_reads import CAPTURE
from graphmend_bc.runtime import CodeId, Site, identity_of
from graphmend_bc.runtime.left_places import left_by
from graphmend_bc.runtime.signal_handlers import pass_on

log = logging.getLogger("graphmend_bc")

_MOST_CAPTURES = 3
"""Attempts at capturing: where one fails, its sites may be hoisted, and later ones captured."""


class Plans:
    """What is to be rewritten in the code objects of one frame, as its attempts find it out.

    Attributes:
        by_code: the plan of each code object met.
        codes: these code objects.
        breaks: the break at a site, as Dynamo told it.
        gb_types: what Dynamo would have called the break at sites mended before it met them.
        declined: sites that are left as they are.
        passed_over: why no cheaper rule mends a site.
        unmet: sites planned ahead that no trace has met so far.
        captures_failed: how often capture did not carry the frame.
        unbounded: loops whose rounds depended on what was captured.
        uncaptured: sites that were planned to be captured then.
        captured: sites at which Dynamo made a symbol.
        marked: calls that only observe, marked where Dynamo is about to make them.
        tried_as_input: sites whose value was to be an input of a frame between.
        called_as: names under which such functions are called.
        exact_asserts: True if an `assert` on a tensor is a branch like any other.
        exact_texts: True if texts of objects must be made where the program makes them.
        takes_part: True if all is traced as eager Python has it, before anything is mended too.
        regions_broken: regions that were to be compiled once and broke the graph of an attempt.
        off: True if nothing is rewritten.
        suggestions: the plans that were read from disk.
        suspends: whether the frame is that of a coroutine or a generator, which cannot deoptimise:
            what is called there gives an object that is still to be run.
        cuda_graphs: whether the backend records CUDA graphs of the frame, which a symbol splits.
        left: what is known of breaks that were left to stock.
    """

    def __init__(
        self, state: MendingState, frame: CodeId, suspends: bool = False, suggests: bool = True
    ) -> None:
        self.state = state
        self.by_code: dict[CodeId, Plan] = {}
        self.codes: dict[CodeId, CodeType] = {}
        self.breaks: dict[Site, Break] = {}
        self.gb_types: dict[Site, str] = {}
        self.declined: dict[Site, Decline] = {}
        self.passed_over: dict[Site, list[Refused]] = {}
        self.unmet: set[Site] = set()
        self.captures_failed = 0
        self.unbounded: set[Site] = set()
        self.uncaptured: set[Site] = set()
        self.captured: set[Site] = set()
        self.marked: set[Site] = set()
        self.tried_as_input: set[Site] = set()
        self.postponed: set[tuple[Site, Rewrite | None]] = set()
        effects = {getattr(effect, "__name__", "") for effect in config.effects}
        self.called_as = observer_names() | effects
        self.defers = is_on(DEFER, state.lost)
        self.exact_asserts = True
        self.exact_texts = False
        self.takes_part = False
        self.regions_broken = 0
        self.off = not state.mends
        self.suggestions = Suggestions(state, suggests)
        self.suspends = suspends
        self.cuda_graphs = False
        self.left = FrameBreaks(state, frame)

    def code_for(self, code: CodeType) -> CodeType:
        """The code object to trace in place of `code`."""
        state = self.state
        if (
            self.off
            or self.suspends
            or state.rewrites.is_rewritten(code)
            or state.leaves_alone(code)
        ):
            return code
        key = identity_of(code)
        try:
            if key not in self.by_code:
                known = self._with_expected(code, self._known_plan(code))
                self._set(code, state.without_given_up(key, known))
                self._plan_as_inputs(code)
                self._set(code, _without_left(code, self.by_code[key]))
            rewritten = state.rewrites.rewritten(code, self.by_code[key])
            code_notes.carry_notes_over(code, rewritten)
            return rewritten
        except Refused as refused:
            log.debug("graphmend_bc leaves %s alone: %s", code, with_references(refused))
        except Exception as error:
            pass_on(error)
            report_failure(state, site_of(code, 0), InternalError(error))
        self._set(code, Plan())
        return code

    def _set(self, code: CodeType, plan: Plan) -> None:
        key = identity_of(code)
        self.by_code[key] = plan
        self.codes[key] = code

    def rewrites(self) -> bool:
        """True if some code object is traced in another form than the user's."""
        return not self.off and (self.takes_part or any(self.by_code.values()))

    def rewritten_codes(self) -> list[CodeType]:
        """The code objects that are traced in place of the program's."""
        known = [(code, self.code_for(code)) for code in [*self.codes.values()]]
        return [rewritten for code, rewritten in known if rewritten is not code]

    def _known_plan(self, code: CodeType) -> Plan:
        """What worked before, with the names of the breaks: rules want to know them."""
        key, state = identity_of(code), self.state
        proven = state.proven.get(key) if state.remember else None
        if proven is None:
            if (cut := self.left.cut_plan(key)) is not None:
                self.gb_types = {**cut.gb_types, **self.gb_types}
                for site, why in cut.passed_over.items():
                    self.passed_over.setdefault(site, [*why])
                return cut.plan
            proven = self.suggestions.plan_for(code)
            if proven is None:
                return Plan()
        self.gb_types = {**proven.gb_types, **self.gb_types}
        for site, reasons in proven.refused.items():
            self.passed_over.setdefault(site, [Refused(reason) for reason in reasons])
        return proven.plan

    def _with_expected(self, code: CodeType, plan: Plan) -> Plan:
        """A plan with what is known to help although nothing breaks there."""
        try:
            wider = plan.with_all(expected(code, self.state.unexpected, self.state.lost))
            self.state.rewrites.rewritten(code, wider)
        except Refused:
            return plan
        return wider

    def _stop_expecting(self, site: Site) -> bool:
        """Leave such a site as it is, here and in other frames; False if it is none."""
        if not is_expected(self.rewrite_at(site)):
            return False
        self.state.unexpected.add(site)
        self.take_out(site)
        return True

    def marks_calls_in(self, code: CodeType) -> bool:
        """Whether calls that only observe are marked where a code object makes them."""
        if self.off or self.suspends or not self.defers:
            return False
        known = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
        return not self.called_as.isdisjoint(known) and not self.state.leaves_alone(code)

    def note_mark(self, site: Site) -> bool:
        """A call that only observes is about to be made; False if it is planned already."""
        if site in self.state.given_up or self.rewrite_at(site) is not None:
            return False
        code = self.codes.get(site.code)
        if code is not None and self.left.known(code, site) is not None:
            return False
        self.marked.add(site)
        return True

    def trace_anew(self, error: TracedAnew) -> None:
        """The next attempt traces as eager Python from its start what the last one did not."""
        if isinstance(error, RegionBreaks):
            self.regions_broken += 1
            with self.state.lock:
                self.state.inlined.add(identity_of(error.code))
        elif isinstance(error, TextsMoved):
            self.exact_texts = True
        else:
            self.takes_part = True

    def note_capture(self, code: CodeType, offset: int) -> Site:
        """The user's instruction at which Dynamo made a symbol."""
        site = self.site_at(code, offset)
        self.captured.add(site)
        return site

    def site_at(self, code: CodeType, offset: int) -> Site:
        """The user's instruction for one of a code object that is traced."""
        original, place = self.state.rewrites.original(code, offset)
        self.codes.setdefault(identity_of(original), original)
        return site_of(original, max(place, 0))

    def captured_sites(self) -> list[Site]:
        """The sites that are planned to be captured, and branches whose number is selected."""
        planned = [
            site_of(self.codes[key], offset)
            for key, plan in self.by_code.items()
            for offset in plan.of_kind(Capture)
        ]
        selected = self.state.selected & self.captured
        return [*planned, *(site for site in selected if self.is_lifted(site))]

    def stop_capturing(
        self, refused: Refused, sites: Iterable[Site] | None = None, loop: Site | None = None
    ) -> bool:
        """Capture none of the sites that are planned to be.

        Args:
            refused: why it does not work.
            sites: where it does not; None for all.
            loop: the loop whose rounds depend on what was captured. The second time that it is the
                same, nothing is captured any more.

        Returns:
            False if nothing was captured there.
        """
        planned = self.captured_sites()
        if not planned or (sites is not None and self.captured.isdisjoint(sites)):
            return False
        self.captures_failed += 1
        if loop in self.unbounded:
            self.captures_failed = _MOST_CAPTURES
        elif loop is not None:
            self.unbounded.add(loop)
        self.uncaptured.update(planned)
        return self.climb_all(planned, refused)

    def is_planned(self, site: Site) -> bool:
        return site in self.marked or self.rewrite_at(site) is not None

    def rewrite_at(self, site: Site) -> Rewrite | None:
        """What is planned for the instruction of a site."""
        return self.by_code.get(site.code, Plan()).get(site.offset)

    def breaks_as_stock(self, site: Site) -> bool:
        """Whether a break at a site is Dynamo's own, not a refusal of what stands for the site."""
        planned = self.rewrite_at(site)
        return planned is None or isinstance(planned, (MarkCallee, Capture))

    def is_lifted(self, site: Site) -> bool:
        """Whether a branch or loop is planned to be made functions that are called."""
        return isinstance(self.rewrite_at(site), (LiftBranch, LiftLoop, LiftRound))

    def note_break(self, site: Site, found: Break) -> None:
        """Dynamo has told of a break; what was only expected there has no text of Dynamo's."""
        known = self.breaks.setdefault(site, found)
        if not known.text:
            self.breaks[site] = replace(found, gb_type=known.gb_type, gb_id=known.gb_id)

    def start(self, code: CodeType, site: Site) -> bool:
        """Plan the cheapest rule that carries a site; False if there is none."""
        try:
            if self.suspends:
                raise Refused("frame-suspends")
            if self.state.leaves_alone(code):
                raise Refused("left-alone")
            if (given_up := self.state.given_up.get(site)) is not None:
                raise given_up.again()
            if site in self.declined:
                return False
            self._try(code, site, self.candidates(code, site), None)
        except Refused as refused:
            self._decline(site, refused)
            return False
        self._plan_ahead(code, self.breaks[site])
        return True

    def _plan_ahead(self, code: CodeType, found: Break) -> None:
        """Plan the conditions of a code object that look like tensors, once one of them was.

        Each would cost an attempt to find. What no trace meets is taken out again.
        """
        key = identity_of(code)
        ahead = [
            (site, cheapest)
            for site, cheapest in planned_ahead(code, self.state.lost)
            if site.offset not in self.by_code[key]
            and site not in self.declined
            and site not in self.state.given_up
            and self.left.known(code, site) is None
        ]
        while ahead:
            plan = reduce(
                lambda plan, entry: plan.with_all(entry[1].rewrites), ahead, self.by_code[key]
            )
            try:
                self.state.rewrites.rewritten(code, plan)
            except Refused:
                ahead = ahead[: len(ahead) // 2]
                continue
            self.by_code[key] = plan
            if found.gb_type not in DATA_DEPENDENT:  # the call that broke is another matter
                gb_type = "Data-dependent branching"
                found = replace(found, gb_type=gb_type, gb_id=gb_id_of(gb_type), text="")
            for site, _ in ahead:
                self.breaks.setdefault(site, found)
                self.unmet.add(site)
            return

    def candidates(self, code: CodeType, site: Site) -> tuple[Candidate, ...]:
        """The rules for a site, without capture where that failed too often."""
        return self._without_failed(site, self._all_candidates(code, site))

    def remaining_rules(
        self, code: CodeType, site: Site, name: str, refused: Refused
    ) -> tuple[Candidate, ...]:
        """What is left to try at a site after a rule was refused, the cheapest first.

        Args:
            code: the code object of the site.
            site: it.
            name: the rule.
            refused: why it does not work.
        """
        if site in self.tried_as_input:
            return ()
        return self._without_failed(
            site, remaining_rules(self._all_candidates(code, site), name, refused)
        )

    def _all_candidates(self, code: CodeType, site: Site) -> tuple[Candidate, ...]:
        found = candidates_at(BreakSite(code, site.offset, self.gb_type(site)), self.state.lost)
        return without_symbols_first(found) if self.cuda_graphs else found

    def _without_failed(
        self, site: Site, candidates: tuple[Candidate, ...]
    ) -> tuple[Candidate, ...]:
        if self.captures_failed < _MOST_CAPTURES and site not in self.uncaptured:
            return candidates
        return tuple(candidate for candidate in candidates if candidate.rule is not CAPTURE)

    def gb_types_of(self, key: CodeId) -> dict[Site, str]:
        """What Dynamo calls the breaks at the planned sites of a code object."""
        known = [*self.breaks, *self.gb_types]
        return {s: self.gb_type(s) for s in known if s.code is key and self.is_planned(s)}

    def gb_type(self, site: Site) -> str:
        found = self.breaks.get(site)
        return found.gb_type if found else self.gb_types.get(site, "")

    def _try(
        self,
        code: CodeType,
        site: Site,
        candidates: tuple[Candidate, ...],
        refused: Refused | None,
    ) -> bool:
        """Plan the first of the rules that the bytecode allows; else decline."""
        plan = self.by_code.get(identity_of(code), Plan()).without(site.offset)
        for candidate in candidates:
            if refused is not None and not candidate.rule.helps(refused):
                continue
            try:
                wider = plan.with_all(candidate.rewrites)
                self.state.rewrites.rewritten(code, wider)
            except Refused as error:
                refused = error
                self._note_refusal(site, error)
                continue
            self._set(code, wider)
            return True
        self._set(code, plan)
        raise refused or Refused("unhandled-instruction")

    def is_left(self, site: Site, found: Break) -> bool:
        """Whether it is known of a break that no rule mends it; it is declined then."""
        code = self.codes.get(site.code)
        decline = None if code is None else self.left.decline_of(code, site, found)
        if decline is not None:
            self.declined.setdefault(site, decline)
        return decline is not None

    def start_as_input(self, code: CodeType, site: Site) -> bool:
        """Plan to read a value before the graph that an enclosing frame computes in its own.

        No other rule is tried again in the frames between; False if that is no use either.
        """
        known = self.left.known(code, site)
        if known is None or known.everywhere or site in self.tried_as_input:
            return False
        if site in self.state.given_up:
            return False
        self.tried_as_input.add(site)
        try:
            found = [c for c in self.candidates(code, site) if c.rule is HOIST]
            self._try(code, site, tuple(found), None)
        except Refused:
            return False
        self.declined.pop(site, None)
        return True

    def _plan_as_inputs(self, code: CodeType) -> None:
        """Do so ahead for subscripts, each of which would cost an attempt to meet.

        Calls are marked where they are met, without one.
        """
        for site, known in self.left.between(code):
            if is_subscript(graph_of(code).listing.at_offset(site.offset)):
                self.gb_types.setdefault(site, known.decline.gb_type)
                if self.start_as_input(code, site):
                    self.unmet.add(site)

    def note_postponed(self, site: Site | None) -> bool:
        """A plan was made where the trace could not go on with it; False if it was made before."""
        if site is None or (planned := (site, self.rewrite_at(site))) in self.postponed:
            return False
        self.postponed.add(planned)
        return True

    def take_out_declined(self) -> None:
        """Take out the marks that do nothing."""
        for site in self.declined:
            self.take_out(site)

    def note_cut(self) -> None:
        """The frame was compiled up to a break: what is planned and declined stays known."""
        self.take_out_declined()
        with self.state.lock:
            for key, plan in self.by_code.items():
                self.left.note_cut(key, plan, self.gb_types_of(key), self.passed_over)
            for site, decline in self.declined.items():
                found, code = self.breaks.get(site), self.codes.get(site.code)
                if found is not None and code is not None:
                    self.left.note_left(code, found, decline, self.passed_over.get(site, ()))

    def climb(self, site: Site, refused: Refused) -> bool:
        """Plan the next rule for a planned site, or take it out of its plan.

        Returns:
            False if the attempt need not be repeated: a mark that is declined does nothing.
        """
        if self._stop_expecting(site) or self._selects_instead(site, refused):
            return True
        self.state.stop_selecting(site)
        self._note_refusal(site, refused)
        if not self.is_planned(site):
            self._decline(site, refused)
            return False
        code, planned = self.codes[site.code], self.rewrite_at(site)
        was = self.by_code.get(site.code, Plan())
        self.marked.discard(site)
        try:
            name = DEFER.name if planned is None else planned.rule
            candidates = self.remaining_rules(code, site, name, refused)
        except Refused:
            candidates = ()
        try:
            return self._try(code, site, candidates, refused)
        except Refused as last:
            last.with_traceback(None).__context__ = None  # frames that they hold, hold them
            is_mark = planned is None or isinstance(planned, MarkCallee)
            if is_mark:
                self._set(code, was)
            else:
                self.take_out(site)
            self._decline(site, last)
            return not is_mark

    def _selects_instead(self, site: Site, refused: Refused) -> bool:
        """Have the graph select the number that a branch gives, where random numbers decide it."""
        if refused.reason.code != "decided-by-chance" or not self.state.select(site):
            return False
        self.take_out(site)
        return True

    def climb_all(self, sites: Iterable[Site], refused: Refused) -> bool:
        changed = [self.climb(site, refused) for site in sites]
        return any(changed)

    def _note_refusal(self, site: Site, refused: Refused) -> None:
        self.passed_over.setdefault(site, []).append(refused)

    def _decline(self, site: Site, refused: Refused) -> None:
        gb_type, before = self.gb_type(site), self.passed_over.get(site, [])
        if (code := self.codes.get(site.code)) is not None:
            refused, before = most_specific(refused, before, site, self.breaks.get(site), code)
        decline = Decline.of(refused, site, gb_type, gb_id_of(gb_type), tuple(map(str, before)))
        self.declined.setdefault(site, decline)

    def take_out(self, site: Site) -> None:
        """Take a site out of its plan."""
        self.marked.discard(site)
        if self.is_planned(site):
            self.by_code[site.code] = self.by_code[site.code].without(site.offset)

    def take_out_unmet(self) -> bool:
        """Take out what was planned ahead and no trace has met; False if there is nothing."""
        unmet, self.unmet = self.unmet, set()
        for site in unmet:
            self.take_out(site)
        return bool(unmet)

    def drop(self, site: Site, refused: Refused) -> None:
        """Decline a site."""
        if not self._stop_expecting(site):
            self._decline(site, refused)
            self.take_out(site)


def _without_left(code: CodeType, plan: Plan) -> Plan:
    """A plan without the lines that settings leave as they are."""
    sites = (site_of(code, offset) for offset in plan)
    left = [site.offset for site in sites if left_by(site.filename, site.lineno)]
    return reduce(Plan.without, left, plan)
