"""Speculations: which truth values a graph assumes, and how often their checks failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from graphmend_bc.reporting.check_history import CheckHistory
from graphmend_bc.reporting.outcomes import Outcome, Speculated
from graphmend_bc.runtime.site import Site

_PATTERNS = 16
"""Of failed checks, that are told apart."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """A truth value that one graph assumes.

    Attributes:
        site: where the program asks for it.
        occurrence: how often the trace had come by the site before.
        likely: the value that is assumed.
        firm: True if the other value only leads to a raise.
        asserted: what the graph asserts of the value, so that it raises if that is wrong, before it
            can say which speculation failed; empty if nothing.
        by_chance: True if a random number decides, which mostly gives the value.
        guardable: True if it can be computed before the graph.
    """

    site: Site
    occurrence: int
    likely: bool
    firm: bool
    asserted: str = ""
    by_chance: bool = False
    guardable: bool = False


@dataclass(slots=True)
class Tally:
    """Calls of one graph that has speculations.

    Attributes:
        speculations: what it assumes, in the order of the program.
        captured: where it has unbacked symbols; Dynamo assumes things about them that the graph
            checks by raising.
        operators: where it has an operator of ours for a branch or loop, which a backend may
            compile to what raises.
        calls: how often it ran.
        failed_checks: how often each speculation was the first whose check failed, by its index.
        wrong: in how many calls each check failed, the first of the call or not. What comes after
            the first was computed on the way that was wrong, so it is no more than likely.
        rerun_ns: nanoseconds that the original code took, by the site because of which it ran.
        graph_ns: nanoseconds that the graph took before, likewise.
        raised: how often the graph raised before its checks.
        streak: how many of the last calls had a failed check.
        streaks: in how many of the last calls, without a break, each check failed.
        patterns: the sets of checks that failed together, as far as they are few.
        last_failed: the number of the call whose check failed last.
        histories: by its index, when each speculation was the first whose check failed.
        retired: True once no new call is to use the graph; other threads may still run it.
        replaced_at_once: True if the call whose check failed last is to have its frame compiled
            anew; otherwise that is left to the next one.
        one_graph: True if a graph break of its frame is an error.
    """

    speculations: tuple[Speculation, ...]
    captured: tuple[Site, ...] = ()
    operators: tuple[Site, ...] = ()
    calls: int = 0
    failed_checks: Counter[int] = field(default_factory=Counter)
    wrong: Counter[int] = field(default_factory=Counter)
    rerun_ns: Counter[Site] = field(default_factory=Counter)
    graph_ns: Counter[Site] = field(default_factory=Counter)
    raised: int = 0
    streak: int = 0
    streaks: dict[int, int] = field(default_factory=dict)
    patterns: set[tuple[int, ...]] = field(default_factory=set)
    last_failed: int = 0
    histories: dict[int, CheckHistory] = field(default_factory=dict)
    retired: bool = False
    replaced_at_once: bool = False
    one_graph: bool = False

    @property
    def hits(self) -> int:
        """Calls whose results were used."""
        return self.calls - self.failed_checks.total() - self.raised

    def reached(self, site: Site) -> int:
        """In how many calls no check before those of a site failed, and no other site raised."""
        sites = [known.site for known in self.speculations]
        first = sites.index(site) if site in sites else 0
        earlier = sum(self.failed_checks[index] for index in range(first))
        return self.calls - earlier - (self.raised if site != self.culprit(()) else 0)

    def rounds(self, site: Site) -> int:
        """How often a value is assumed at a site."""
        return sum(known.site == site for known in self.speculations)

    def note_failed_check(self, wrong: Sequence[int]) -> None:
        """In the last call the checks of some speculations failed, given in their order."""
        self.failed_checks[wrong[0]] += 1
        self.wrong.update(wrong)
        goes_on = self.last_failed == self.calls - 1
        before = self.streaks if goes_on else {}
        self.streak = self.streak + 1 if goes_on else 1
        self.streaks = {index: before.get(index, 0) + 1 for index in wrong}
        self.last_failed = self.calls
        self.histories.setdefault(wrong[0], CheckHistory()).note(self.calls)
        if len(self.patterns) < _PATTERNS:
            self.patterns.add(tuple(wrong))

    def values(self) -> Iterator[tuple[bool, ...]]:
        """The combinations of values that calls have had, as far as they are told apart."""
        for wrong in [*self.patterns, *([()] if self.hits else [])]:
            yield tuple(k.likely is not (i in wrong) for i, k in enumerate(self.speculations))

    def culprit(self, wrong: Sequence[int]) -> Site | None:
        """The site to which it is put down that the graph ran for nothing.

        Args:
            wrong: the speculations whose checks failed; none if the graph raised. Then it is the
                first one that may have been wrong.
        """
        if wrong:
            return self.speculations[wrong[0]].site
        assumed = (known.site for known in self.speculations)
        may_be = (*self.captured, *assumed, *self.operators)
        return may_be[0] if may_be else None

    def charge(self, wrong: Sequence[int], nanoseconds: int) -> Callable[[int], None] | None:
        """Note that the graph ran for nothing.

        Args:
            wrong: as for `culprit`.
            nanoseconds: how long it ran.

        Returns:
            What is to be told how long the original code takes that runs instead; None if it is
            to be put down to no site.
        """
        site = self.culprit(wrong)
        if site is None:
            return None
        self.graph_ns[site] += nanoseconds
        return partial(self._note_rerun, site)

    def _note_rerun(self, site: Site, nanoseconds: int) -> None:
        self.rerun_ns[site] += nanoseconds

    def suspects(self, error: str) -> tuple[int, ...]:
        """The speculation that an assertion of the graph was about, or the first possible one.

        Args:
            error: what the failed assertion says.
        """
        asserted = [i for i, known in enumerate(self.speculations) if known.asserted]
        named = (i for i in asserted if f" {self.speculations[i].asserted} " in error)
        return (*named, *asserted)[:1]

    def is_bad(self, count: int, limit: int) -> bool:
        """True if something that happened `count` times costs more than the graph saves.

        A failed check costs a run of the graph and a run of the original code.
        """
        return count >= limit and 8 * count > self.calls


@dataclass(slots=True)
class History:
    """What was learnt about the speculation at one site.

    Attributes:
        flips: from which occurrence on which value is likely, by rising occurrence; before the
            first one, what was suggested when the frame was compiled.
        respecialised: how often the likely value was flipped.
        forced: whether it was because the other value does not trace.
        tallies: the graphs that assume a value at this site.
        recompiled: how often a frame was compiled anew because of the site.
        recompile_ns: nanoseconds which that took.
    """

    flips: list[tuple[int, bool]] = field(default_factory=list)
    respecialised: int = 0
    forced: bool = False
    tallies: list[Tally] = field(default_factory=list)
    recompiled: int = 0
    recompile_ns: int = 0

    def likely(self, occurrence: int) -> bool | None:
        """The value to assume; None if the first one suggested was never flipped.

        Args:
            occurrence: how often the trace came by the site before.
        """
        for start, value in reversed(self.flips):
            if start <= occurrence:
                return value
        return None

    def flip(self, occurrence: int, value: bool) -> None:
        """From an occurrence on, assume another value."""
        self._assume(occurrence, value)
        self.respecialised += 1

    def flip_to(self, values: Mapping[int, bool]) -> None:
        """Assume what was seen in one call, and the last of it from then on.

        Args:
            values: by occurrence.
        """
        if all(self.likely(at) is value for at, value in values.items()):
            return  # that was learnt before
        self.respecialised += 1
        for at in sorted(values):
            if self.likely(at) is not values[at]:
                self._assume(at, values[at])

    def _assume(self, occurrence: int, value: bool) -> None:
        self.flips = [*(flip for flip in self.flips if flip[0] < occurrence), (occurrence, value)]

    def add(self, tally: Tally) -> None:
        """A graph has something to do with the site."""
        if not any(known is tally for known in self.tallies):
            self.tallies.append(tally)

    def note_recompiled(self, nanoseconds: int) -> None:
        """A frame was compiled anew because of the site."""
        self.recompiled += 1
        self.recompile_ns += nanoseconds

    def failed_at(self, site: Site) -> int:
        """How often a check at a site has failed, the first of its call or not."""
        return sum(
            failed
            for tally in self.tallies
            for index, failed in tally.wrong.items()
            if tally.speculations[index].site == site
        )

    def outcome(self, site: Site) -> Outcome:
        """How the speculation at a site went so far."""
        here = [
            (tally, index)
            for tally in self.tallies
            for index in tally.failed_checks
            if tally.speculations[index].site == site
        ]
        return Outcome(
            site,
            calls=sum(tally.reached(site) for tally in self.tallies),
            failed_checks=sum(tally.failed_checks[index] for tally, index in here),
            respecialised=self.respecialised,
            rerun_ns=sum(tally.rerun_ns[site] for tally in self.tallies),
            raised=sum(tally.raised for tally in self.tallies if tally.culprit(()) == site),
            recompiled=self.recompiled,
            graph_ns=sum(tally.graph_ns[site] for tally in self.tallies),
            recompile_ns=self.recompile_ns,
            failed_in=tuple(sorted(self._failed_in(site))),
        )

    def _failed_in(self, site: Site) -> Iterator[tuple[int, int, int]]:
        before = 0
        for tally in self.tallies:
            for index, history in list(tally.histories.items()):
                if tally.speculations[index].site == site:
                    yield from history.spread(tally.calls, before)
            before += tally.calls


def speculated(tallies: Iterable[Tally]) -> Speculated:
    """What the graphs came to together."""
    found = list(tallies)
    checked = [tally for tally in found if tally.speculations]
    return Speculated(
        sum(tally.calls for tally in checked),
        sum(tally.failed_checks.total() for tally in checked),
        sum(tally.raised for tally in found),
    )
