"""What mending knows across frames: rewrites, plans that worked, the report."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from threading import RLock
from types import CodeType
from typing import Any, TypeVar

from graphmend_bc import config
from graphmend_bc.code.kept import forget_kept
from graphmend_bc.dynamo.frames.breaks import first_line
from graphmend_bc.dynamo.frames.generated_code import resumed
from graphmend_bc.dynamo.rollback.cache_entries import forget_entries
from graphmend_bc.engine.decisions.break_memory import BreakMemory
from graphmend_bc.engine.decisions.decision_cache import DecisionCache
from graphmend_bc.engine.decisions.proven_plan import Proven
from graphmend_bc.engine.outcomes.failed_checks import change_after_failed_check
from graphmend_bc.engine.outcomes.frame_counts import FrameCounts
from graphmend_bc.engine.outcomes.speculation_flips import SpeculationFlips
from graphmend_bc.engine.plans.rewrite_cache import Rewrites, site_of
from graphmend_bc.reporting.code_text import Rewritten
from graphmend_bc.reporting.compilations import CompiledFrame, FrameResult
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.references import reference
from graphmend_bc.reporting.report import Decline, Mend, Report
from graphmend_bc.reporting.speculation_stats import History, Tally, speculated
from graphmend_bc.reporting.verification import Verification
from graphmend_bc.rewriting import Plan
from graphmend_bc.rewriting.plan import AskTruth
from graphmend_bc.runtime import CodeId, Site, forget_dead_code, identity_of
from graphmend_bc.runtime.forks import lock_over_forks

log = logging.getLogger("graphmend_bc")
declines_log = logging.getLogger("graphmend_bc.declines")


_ENOUGH = 1024
"""Entries of the tables before those of dead code are looked for the first time."""


@dataclass(slots=True)
class MendingState:
    """Mends frames while it is enabled.

    Threads that compile and threads that run graphs change it. The lock is held for single steps,
    never while something is compiled or called that is not ours; Dynamo's own lock may be held
    then, but is not asked for.

    Attributes:
        rewrites: rewritten code objects made so far.
        report: what was mended and declined since it was enabled or reset.
        mended: functions that were rewritten, or have a mend in a graph of one that resumes them.
        proven: plans that succeeded before, by original code; later compilations start with them.
        breaks: what is known of breaks that were left to stock.
        left_alone: functions that must not be rewritten.
        mends: False to compile as stock does and only observe.
        lost: capabilities of rules, and features, that rest on something this torch lacks or goes
            around, each with what it is.
        remember: False to start every compilation without `proven`, `breaks` and `decisions`.
        decisions: plans that succeeded in other processes; None to do without.
        on_frame: called with each frame's result.
        history: how the speculations at each site went.
        given_up: sites that are not mended any more, and why.
        unexpected: sites that a rule expected, and that it did not carry.
        guarded: conditions that flip: they are computed before the graph and guarded.
        numbers: branches whose arms give numbers, of which the graph could select one.
        selected: such branches where it is to do so, because their conditions flip.
        unselectable: such branches for which that was tried and did not do.
        frames: what was counted of mended frames.
        site_failures: how often a graph was no good because of a site that is no speculation.
        eager_calls: how often a call of a frame was left to eager Python.
        left_to_stock: frames that are compiled as stock does, because their guards do not hold or
            mending does not pay.
        inlined: regions that are to be compiled once and break the graph.
        forgotten: frames whose compiled versions were forgotten, and none was compiled since.
        hoisted: how often a frame was compiled with the value of a site as an input.
        verified: how calls of mended frames compared with eager Python's.
        limit: entries at which those of dead code are dropped.
        lock: held while the tables are changed or gone through.
    """

    rewrites: Rewrites = field(default_factory=Rewrites)
    report: Report = field(default_factory=Report)
    mended: set[CodeId] = field(default_factory=set)
    proven: dict[CodeId, Proven] = field(default_factory=dict)
    breaks: BreakMemory = field(default_factory=BreakMemory)
    left_alone: set[CodeId] = field(default_factory=set)
    mends: bool = True
    lost: Mapping[str, str] = field(default_factory=dict)
    remember: bool = True
    decisions: DecisionCache | None = None
    on_frame: list[Callable[[FrameResult], None]] = field(default_factory=list)
    history: dict[Site, History] = field(default_factory=dict)
    given_up: dict[Site, Refused] = field(default_factory=dict)
    unexpected: set[Site] = field(default_factory=set)
    guarded: set[Site] = field(default_factory=set)
    numbers: set[Site] = field(default_factory=set)
    selected: set[Site] = field(default_factory=set)
    unselectable: set[Site] = field(default_factory=set)
    frames: dict[CodeId, FrameCounts] = field(default_factory=dict)
    left_to_stock: set[CodeId] = field(default_factory=set)
    inlined: set[CodeId] = field(default_factory=set)
    forgotten: set[CodeId] = field(default_factory=set)
    hoisted: Counter[tuple[CodeId, Site]] = field(default_factory=Counter)
    site_failures: Counter[Site] = field(default_factory=Counter)
    eager_calls: Counter[CodeId] = field(default_factory=Counter)
    verified: dict[CodeId, Verification] = field(default_factory=dict)
    limit: int = _ENOUGH
    lock: RLock = field(default_factory=lock_over_forks)

    def forget(self) -> None:
        """Forget mends, plans and counts. Rewritten code that is in use stays known."""
        with self.lock:
            self.report = Report()
            self.proven.clear()
            self.breaks.forget()
            self.history.clear()
            self.given_up.clear()
            self.hoisted.clear()
            self.site_failures.clear()
            self.eager_calls.clear()
            self.left_to_stock.clear()
            self.guarded.clear()
            self.unexpected.clear()
            self.numbers.clear()
            self.selected.clear()
            self.unselectable.clear()
            self.inlined.clear()
            self.forgotten.clear()
            self.frames.clear()
            self.verified.clear()
            self.mended = {key for key in self.mended if key.is_alive}
        self.rewrites.forget()
        forget_kept()
        forget_dead_code()

    def forget_dead(self) -> None:
        """Drop what is known of code that is gone, once there is much of it."""
        with self.lock:
            if self._size() < self.limit:
                return
            ours = (self.mended, self.left_alone, self.left_to_stock, self.inlined)
            for keys in (*ours, self.forgotten):
                keys.difference_update([key for key in keys.copy() if not key.is_alive])
            for by_code in (self.proven, self.eager_calls, self.frames):
                _drop(by_code, lambda key: key.is_alive)
            for by_site in (self.history, self.given_up, self.site_failures):
                _drop(by_site, lambda site: site.code.is_alive)
            numbers = (self.numbers, self.selected, self.unselectable)
            for sites in (self.guarded, self.unexpected, *numbers):
                sites.difference_update([site for site in sites if not site.code.is_alive])
            for counts in self.frames.values():
                counts.sites = {site for site in counts.sites if site.code.is_alive}
                _drop(counts.lists, lambda site: site.code.is_alive)
            _drop(self.hoisted, lambda key: key[0].is_alive and key[1].code.is_alive)
            self.report.merge_dead()
            self.breaks.forget_dead()
            self.rewrites.forget_dead()
            self.limit = max(_ENOUGH, 2 * self._size())

    def _size(self) -> int:
        ours = (
            self.mended,
            self.proven,
            self.history,
            self.given_up,
            self.hoisted,
            self.left_to_stock,
        )
        frames = (self.frames, self.guarded, self.inlined, self.forgotten)
        breaks = (self.breaks.cut, self.breaks.left)
        counts = (
            *frames,
            *breaks,
            self.site_failures,
            self.eager_calls,
            self.report.mends,
            self.report.declines,
        )
        return sum(map(len, (*ours, *counts, self.rewrites.made, self.left_alone)))

    def leaves_alone(self, code: CodeType) -> bool:
        """True if a function, or the one that it resumes, must not be rewritten."""
        if not self.left_alone:
            return False
        return identity_of(self.function_of(code)) in self.left_alone

    def note(self, entry: Mend | Decline) -> bool:
        """Report a mend or a decline; False if it is reported already."""
        with self.lock:
            return self.report.add(entry)

    def note_decline(self, decline: Decline) -> bool:
        """As `note`. A condition that flips and cannot be guarded is not tried again."""
        with self.lock:
            is_new = self.report.add(decline)
            if decline.site in self.guarded:
                refused = Refused("speculation-missed", "It cannot be computed before the graph.")
                self.given_up.setdefault(decline.site, refused)
            if decline.site in self.given_up:
                self.report.withdraw({decline.site})
        if is_new:
            declines_log.info("%s", decline)
        return is_new

    def note_mended(self, function: CodeId) -> None:
        """A function was rewritten, or has a mend in a graph of one that resumes it."""
        with self.lock:
            self.mended.add(function)

    def remember_plan(self, key: CodeId, plan: Plan, gb_types: Mapping[Site, str]) -> None:
        """A plan succeeded: later compilations start with it.

        Args:
            key: the original code.
            plan: its plan.
            gb_types: the breaks at its sites.
        """
        with self.lock:
            self.proven[key] = Proven(plan, gb_types)

    def likely(self, site: Site, occurrence: int) -> bool | None:
        """The value that earlier calls suggest; see `History.likely`."""
        with self.lock:
            history = self.history.get(site)
            return None if history is None else history.likely(occurrence)

    def fails_again(self, site: Site) -> bool:
        """Whether checks at a site have failed more than once, or did in an earlier process."""
        with self.lock:
            history = self.history.get(site)
            return history is None or history.failed_at(site) > 1

    def remember_flips(self, flips: SpeculationFlips) -> None:
        """Later compilations begin with the speculations that worked."""
        with self.lock:
            flips.remember(self.history)

    def remember_tally(self, code: CodeType, tally: Tally) -> None:
        """A graph of a frame that rests on speculations is in use.

        Args:
            code: the frame's own code.
            tally: the graph's.
        """
        with self.lock:
            if tally.speculations:
                self.counts_of(code).tallies.append(tally)
            for site in dict.fromkeys(known.site for known in tally.speculations):
                self.history.setdefault(site, History()).add(tally)

    def report_now(self) -> Report:
        """A copy of the report, with the counts of speculations as they are."""
        with self.lock:
            report = self.report.copy()
            report.speculations = [history.outcome(site) for site, history in self.history.items()]
            graphs = {id(t): t for history in self.history.values() for t in history.tallies}
            report.speculated = speculated(graphs.values())
            report.verified = [known.copy() for known in self.verified.values()]
            return report

    def verification_of(self, code: CodeType, site: Site) -> Verification:
        """How calls of a frame compare with eager Python's, by its own code."""
        with self.lock:
            return self.verified.setdefault(identity_of(code), Verification(site))

    def graph_failed(self, code: CodeType, tally: Tally, wrong: Sequence[int]) -> None:
        """A graph was no good: re-specialise its frame if that happens too often.

        Args:
            code: the frame's own code.
            tally: the graph's.
            wrong: which speculations were wrong; none if the graph raised.
        """
        with self.lock:
            change = change_after_failed_check(self, code, tally, wrong)
            if not wrong and (site := tally.culprit(wrong)) is not None:
                self.history.setdefault(site, History()).add(tally)
        if change is not None and self._compile_anew(code, change):
            # What goes on after a break is of the same function: its changes count together.
            self.counts_of(self.function_of(code)).changes += 1
            self.counts_of(code).cause = tally.culprit(wrong)

    def _compile_anew(self, code: CodeType, change: Callable[[], None]) -> bool:
        """Forget what a frame was compiled to, after a change; False if that is not possible now.

        What is given up by it is reported at once: the frame need not be called again.
        """

        def begin() -> None:
            with self.lock:
                change()
                self.forgotten.add(identity_of(code))

        with self.lock:
            known = set(self.given_up)
        if not forget_entries(code, begin):
            return False
        with self.lock:
            new = {site: why for site, why in self.given_up.items() if site not in known}
            gone = self.report.withdraw(new.keys())
        for mend in gone:
            found = mend.gb_type, mend.gb_id, mend.passed_over
            self.note_decline(Decline.of(new[mend.site], mend.site, *found))
        return True

    def note_frame(
        self,
        code: CodeType,
        result: FrameResult,
        frame: CompiledFrame,
        rewritten: Sequence[Rewritten],
    ) -> None:
        """A frame was compiled, or is not compiled any more.

        Args:
            code: its own.
            result: what to count.
            frame: what to tell.
            rewritten: the code that was rewritten for it.
        """
        with self.lock:
            self.forgotten.discard(identity_of(code))
            self.report.compiled.note(result)
            self.report.note_frame(frame, rewritten)

    def is_awaited(self, code: CodeType) -> bool:
        """Whether it is of our doing that a frame has no compiled version that fits.

        Its versions were forgotten and none was compiled since; or it goes on with a function that
        was mended, so that calls passed it over that would have compiled it.
        """
        if self.forgotten and identity_of(code) in self.forgotten:
            return True
        function = self.function_of(code)
        return function is not code and identity_of(function) in self.mended

    def needs_guards(self) -> bool:
        """Whether a frame's guards say what eager Python would have asked its tensors."""
        return bool(self.forgotten or self.guarded)

    def leave_frame(self, code: CodeType, detail: str) -> None:
        """Stock Dynamo compiles a frame from now on: mending it does not pay.

        Args:
            code: the frame's own code.
            detail: what was counted.
        """
        key = identity_of(code)
        with self.lock:
            self.left_to_stock.add(key)
            self.counts_of(code).left = True
        self.withdraw_mends(code)
        self.note_decline(Decline.of(Refused("mending-does-not-pay", detail), site_of(code, 0)))

    def withdraw_mends(self, code: CodeType) -> None:
        """Take out of the report what is mended in a frame, and in no other, by its own code."""
        key = identity_of(code)
        with self.lock:
            others = [counts.sites for other, counts in self.frames.items() if other != key]
            self.report.withdraw(self.counts_of(code).sites.difference(*others))

    def counts_of(self, code: CodeType) -> FrameCounts:
        """What was counted of a frame, by its own code."""
        with self.lock:
            return self.frames.setdefault(identity_of(code), FrameCounts())

    def note_hoist(self, code: CodeType, site: Site, numbers: int | None = None) -> None:
        """A frame is in use that was compiled for one value, or kind of value, at a site.

        Args:
            code: the frame's own: many frames may call the function that has the site.
            site: in the frame or in what it calls.
            numbers: a hash of the value, if it is a list of numbers.
        """
        key, limit = (identity_of(code), site), config.hoist_limit
        with self.lock:
            self.hoisted[key] += 1
            if numbers is not None:
                lists = self.counts_of(code).lists.setdefault(site, set())
                lists.add(numbers)
                limit = limit // 2 if len(lists) >= limit // 2 else limit
            if self.hoisted[key] >= limit:
                detail = f"The limit is {many(limit, 'time')}."
                self.given_up[site] = Refused("hoist-varies", detail)
                self.frames.setdefault(site.code, FrameCounts()).varies = True

    def site_failed(self, code: CodeType, site: Site, reason: str, what: str) -> None:
        """A graph was no good because of a site: give it up if that happens too often.

        Args:
            code: the frame's own code.
            site: the site; no speculation.
            reason: the reason code.
            what: what was wrong, as a sentence without its end.
        """
        with self.lock:
            self.site_failures[site] += 1
            is_bad = self.site_failures[site] == config.failed_check_limit
        if is_bad:
            detail = f"{what} {many(config.failed_check_limit, 'time')}."
            refused = Refused(reason, detail)
            self._compile_anew(code, partial(self.given_up.update, {site: refused}))

    def function_of(self, code: CodeType) -> CodeType:
        """The code object that was rewritten and resumed, in any order, until `code` came of it."""
        original, _ = self.rewrites.original(code, 0)
        broken = resumed(original)
        return original if broken is None else self.function_of(broken)

    def leaves_call(self, code: CodeType, most: int | None = None) -> bool:
        """True if a call of a frame is left to eager Python; False if that happened too often.

        Args:
            code: the frame's own code.
            most: how often; None for `config.failed_check_limit` times.
        """
        key = identity_of(code)
        with self.lock:
            self.eager_calls[key] += 1
            return self.eager_calls[key] <= (config.failed_check_limit if most is None else most)

    def unguarded(self, code: CodeType, error: Exception) -> None:
        """The guards of a frame that was mended could not be made: this call of it runs eagerly.

        Args:
            code: the frame's own code.
            error: what Dynamo raised.
        """
        if self.leaves_call(code):
            log.info("%s runs without compilation in this call. %r", site_of(code, 0), error)
            return
        with self.lock:
            self.left_to_stock.add(identity_of(code))
        refused = Refused("does-not-compile", f"Its guards fail: {first_line(error)}")
        log.warning(
            "graphmend_bc leaves %s as it is, because the guards of its mended graph fail: %r (%s)",
            site_of(code, 0),
            error,
            reference(refused.reason.code),
        )
        self.note_decline(Decline.of(refused, site_of(code, 0)))

    def without_given_up(self, key: CodeId, plan: Plan) -> Plan:
        """A plan without the sites that are not mended any more, or that are to be selected."""
        with self.lock:
            offsets = [site.offset for site in self.given_up if site.code is key]
            asked = plan.of_kind(AskTruth)
            offsets += [s.offset for s in self.selected if s.code is key and s.offset in asked]
        return reduce(Plan.without, offsets, plan)

    def selects(self, site: Site, *, flips: bool = False) -> bool:
        """Note that the arms of a branch give numbers; True if the graph is to select one.

        Args:
            site: the branch.
            flips: whether it is known to go both ways.
        """
        with self.lock:
            if site in self.unselectable:
                return False
            self.numbers.add(site)
            if flips:
                self.selected.add(site)
            return site in self.selected

    def select(self, site: Site) -> bool:
        """Have the graph select a number at a branch; False if it cannot, or does already."""
        with self.lock:
            known = site in self.numbers and site not in self.unselectable
            if not known or site in self.selected:
                return False
            self.selected.add(site)
            return True

    def stop_selecting(self, site: Site) -> None:
        """A branch was to be selected, and its number is needed while the graph is traced."""
        with self.lock:
            if site in self.selected:
                self.selected.discard(site)
                self.numbers.discard(site)
                self.unselectable.add(site)


K = TypeVar("K")


def _drop(table: dict[K, Any], is_alive: Callable[[K], bool]) -> None:
    for key in [key for key in table if not is_alive(key)]:
        del table[key]
