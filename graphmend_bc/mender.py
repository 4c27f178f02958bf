"""What mending knows across frames: rewrites, plans that worked, the report."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import CodeType
from typing import Any

from graphmend_bc import config
from graphmend_bc.dynamo.regions import resumed
from graphmend_bc.dynamo.way_back import forget_compiled
from graphmend_bc.frame import Frame
from graphmend_bc.history import History, Tally
from graphmend_bc.reasons import Refused
from graphmend_bc.reports import FrameResult, Report
from graphmend_bc.rewrites import Key, Rewrites, site_of
from graphmend_bc.rewriting import Plan
from graphmend_bc.runtime import Site

log = logging.getLogger("graphmend_bc")


@dataclass(slots=True)
class Mender:
    """Mends frames while it is enabled.

    Attributes:
        rewrites: rewritten code objects made so far.
        report: what was mended and declined since it was enabled or reset.
        mended: functions that were rewritten, or have a mend in a graph of one that resumes them.
        proven: plans that succeeded before, by original code; later compilations start with them.
        left_alone: code objects that must not be rewritten.
        mends: False to compile as stock does and only observe.
        remember: False to start every compilation without `proven`.
        on_frame: called with each frame's result.
        history: how the guesses at each site went.
        given_up: sites that are not mended any more, and why.
        draw_misses: how often a call before a graph gave what the graph is not made for.
        eager_calls: how often a call of a frame was left to eager Python.
        unfit: frames that are compiled as stock does, because their guards do not hold.
        hoisted: how often a frame was compiled with the value of a site as an input.
    """

    rewrites: Rewrites = field(default_factory=Rewrites)
    report: Report = field(default_factory=Report)
    mended: set[Key] = field(default_factory=set)
    proven: dict[Key, Plan] = field(default_factory=dict)
    left_alone: set[CodeType] = field(default_factory=set)
    mends: bool = True
    remember: bool = True
    on_frame: list[Callable[[FrameResult], None]] = field(default_factory=list)
    history: dict[Site, History] = field(default_factory=dict)
    given_up: dict[Site, Refused] = field(default_factory=dict)
    unfit: set[CodeType] = field(default_factory=set)
    hoisted: Counter[tuple[CodeType, Site]] = field(default_factory=Counter)
    draw_misses: Counter[Site] = field(default_factory=Counter)
    eager_calls: Counter[CodeType] = field(default_factory=Counter)

    def forget(self) -> None:
        """Forget mends, plans and counts; rewritten code stays known."""
        self.report = Report()
        self.proven.clear()
        self.history.clear()
        self.given_up.clear()
        self.hoisted.clear()
        self.draw_misses.clear()
        self.eager_calls.clear()
        self.unfit.clear()

    def likely(self, site: Site, occurrence: int) -> bool | None:
        """The value that earlier calls suggest; see `History.likely`."""
        return self.history[site].likely(occurrence) if site in self.history else None

    def remember_tally(self, tally: Tally) -> None:
        """A graph that rests on guesses is in use."""
        for site in dict.fromkeys(guessed.site for guessed in tally.guesses):
            self.history.setdefault(site, History()).tallies.append(tally)

    def report_now(self) -> Report:
        """A copy of the report, with the counts of guesses as they are."""
        report = self.report.copy()
        report.guesses = [history.outcome(site) for site, history in self.history.items()]
        return report

    def missed(self, code: CodeType, tally: Tally, index: int | None) -> None:
        """A graph was no good: guess otherwise from the next call on if that happens too often.

        Args:
            code: the frame's own code.
            tally: the graph's.
            index: which guess was wrong; None if the graph raised.
        """
        if index is None:
            tally.raised += 1
            if tally.is_bad(tally.raised, config.miss_limit):
                captured = Refused("capture-fails", "Its graph raised too often.")
                sites = dict.fromkeys(tally.captured, captured)
                self._give_up(code, tally, sites | _missed(g.site for g in tally.guesses))
            return
        tally.misses[index] += 1
        guessed = tally.guesses[index]
        often = tally.is_bad(tally.misses[index], config.miss_limit)
        history = self.history.setdefault(guessed.site, History())
        if guessed.firm or history.turned >= config.turn_limit:
            if often:
                self._give_up(code, tally, _missed([guessed.site]))
        elif (often or tally.hits == 0) and not tally.retired:
            forget_compiled(code, partial(history.turn_from, tally, guessed))

    def _give_up(self, code: CodeType, tally: Tally, sites: dict[Site, Refused]) -> None:
        def change() -> None:
            tally.retired = True
            self.given_up |= sites

        if sites and not tally.retired:
            forget_compiled(code, change)

    def note_hoist(self, code: CodeType, site: Site) -> None:
        """A frame is in use that was compiled for one value, or kind of value, at a site.

        Args:
            code: the frame's own: many frames may call the function that has the site.
            site: in the frame or in what it calls.
        """
        self.hoisted[code, site] += 1
        if self.hoisted[code, site] >= config.hoist_limit:
            detail = f"The limit is {config.hoist_limit} times."
            self.given_up[site] = Refused("hoist-varies", detail)

    def draw_missed(self, code: CodeType, site: Site) -> None:
        """A call before a graph gave what the graph is not made for.

        Args:
            code: the frame's own code.
            site: the call.
        """
        self.draw_misses[site] += 1
        if self.draw_misses[site] == config.miss_limit:
            detail = f"It gave something else {config.miss_limit} times."
            refused = Refused("hoist-varies", detail)
            forget_compiled(code, lambda: self.given_up.update({site: refused}))

    def function_of(self, code: CodeType) -> CodeType:
        """The code object that was rewritten and resumed, in any order, until `code` came of it."""
        original, _ = self.rewrites.original(code, 0)
        broken = resumed(original)
        return original if broken is None else self.function_of(broken)

    def leaves_call(self, code: CodeType) -> bool:
        """True if a call of a frame is left to eager Python; False if that happened too often.

        Args:
            code: the frame's own code.
        """
        self.eager_calls[code] += 1
        return self.eager_calls[code] <= config.miss_limit

    def unguarded(self, code: CodeType, error: Exception) -> None:
        """The guards of a frame that was mended could not be made: this call of it runs eagerly.

        Args:
            code: the frame's own code.
            error: what Dynamo raised.
        """
        if self.leaves_call(code):
            log.info("%s runs without compilation in this call. %r", site_of(code, 0), error)
            return
        self.unfit.add(code)
        log.warning(
            "graphmend_bc leaves %s as it is, because the guards of its mended graph fail: %r",
            site_of(code, 0),
            error,
        )

    def without_given_up(self, key: Key, plan: Plan) -> Plan:
        """A plan without the sites that are not mended any more."""
        for site in self.given_up:
            if key.holds(site):
                plan = plan.without(site.offset)
        return plan

    def compile(
        self, stock: Callable[..., Any], code: CodeType, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Compile one frame, mended where that is exact; Dynamo's `compile_frame` otherwise."""
        return Frame(self, stock, code, args, kwargs).compile()


def _missed(sites: Iterable[Site]) -> dict[Site, Refused]:
    refused = Refused("speculation-missed", f"The limit is {config.miss_limit} times.")
    return dict.fromkeys(sites, refused)
