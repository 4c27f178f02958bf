"""Speculations: which truth values a graph assumes, and how often their checks failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from graphmend_bc.runtime.site import Site


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
    """

    site: Site
    occurrence: int
    likely: bool
    firm: bool
    asserted: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the speculation at one site went.

    Attributes:
        site: where the program asks.
        calls: how often a graph that assumes a value there came by; not if an earlier check of it
            failed, since the program goes another way then.
        failed_checks: how often the check failed, so that the original code ran.
        respecialised: how often the site was re-specialised to the other value.
        rerun_ns: nanoseconds that the original code took after failed checks.
    """

    site: Site
    calls: int
    failed_checks: int
    respecialised: int
    rerun_ns: int = field(default=0, compare=False)

    def __str__(self) -> str:
        text = (
            f"{self.site}: the check failed in {self.failed_checks} of {self.calls} calls, "
            f"re-specialised {self.respecialised} times"
        )
        if not self.rerun_ns:
            return text
        return f"{text}; {self.rerun_ns / 1e6:.3g} ms went into running the original code"


@dataclass(frozen=True, slots=True)
class Speculated:
    """How the graphs went that rest on speculations, each call counted once.

    Attributes:
        calls: how often such graphs ran.
        failed: in how many of these calls a check failed; at most one does in a call.
    """

    calls: int = 0
    failed: int = 0

    @classmethod
    def of(cls, tallies: Iterable[Tally]) -> Speculated:
        """What some graphs came to together."""
        found = list(tallies)
        return cls(sum(t.calls for t in found), sum(t.failed_checks.total() for t in found))

    def __add__(self, other: Speculated) -> Speculated:
        return Speculated(self.calls + other.calls, self.failed + other.failed)

    def __str__(self) -> str:
        return f"a check failed in {self.failed} of {self.calls} speculated calls"

    @property
    def miss_rate(self) -> float:
        """The part of the calls in which a check failed; 0 without calls."""
        return self.failed / self.calls if self.calls else 0.0


@dataclass(slots=True)
class Tally:
    """Calls of one graph that has speculations.

    Attributes:
        speculations: what it assumes, in the order of the program.
        captured: where it has unbacked symbols; Dynamo assumes things about them that the graph
            checks by raising.
        calls: how often it ran.
        failed_checks: how often each speculation was the first whose check failed, by its index.
        rerun_ns: nanoseconds that the original code took then.
        raised: how often the graph raised before its checks.
        streak: how many of the last calls had a failed check.
        last_failed: the number of the call whose check failed last.
        retired: True once no new call is to use the graph; other threads may still run it.
    """

    speculations: tuple[Speculation, ...]
    captured: tuple[Site, ...] = ()
    calls: int = 0
    failed_checks: Counter[int] = field(default_factory=Counter)
    rerun_ns: Counter[int] = field(default_factory=Counter)
    raised: int = 0
    streak: int = 0
    last_failed: int = 0
    retired: bool = False

    @property
    def hits(self) -> int:
        """Calls whose results were used."""
        return self.calls - self.failed_checks.total() - self.raised

    def reached(self, site: Site) -> int:
        """In how many calls no check before those of a site failed."""
        sites = [known.site for known in self.speculations]
        first = sites.index(site) if site in sites else 0
        return self.calls - sum(self.failed_checks[index] for index in range(first))

    def note_failed_check(self, index: int) -> None:
        """In the last call the check of a speculation failed."""
        self.failed_checks[index] += 1
        self.streak = self.streak + 1 if self.last_failed == self.calls - 1 else 1
        self.last_failed = self.calls

    def note_rerun(self, index: int, nanoseconds: int) -> None:
        """The original code ran because the check of a speculation failed."""
        self.rerun_ns[index] += nanoseconds

    def suspect(self, error: str) -> int | None:
        """The speculation that an assertion of the graph was about, or the first possible one.

        Args:
            error: what the failed assertion says.
        """
        asserted = [i for i, known in enumerate(self.speculations) if known.asserted]
        named = (i for i in asserted if f" {self.speculations[i].asserted} " in error)
        return next(iter((*named, *asserted)), None)

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
        tallies: the graphs that assume a value at this site.
    """

    flips: list[tuple[int, bool]] = field(default_factory=list)
    respecialised: int = 0
    tallies: list[Tally] = field(default_factory=list)

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
        self.flips = [flip for flip in self.flips if flip[0] < occurrence]
        self.flips.append((occurrence, value))
        self.respecialised += 1

    def flip_from(self, tally: Tally, speculation: Speculation) -> None:
        """Retire a graph, and assume the other value, unless that was learnt before."""
        tally.retired = True
        if self.likely(speculation.occurrence) is not (not speculation.likely):
            self.flip(speculation.occurrence, not speculation.likely)

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
            rerun_ns=sum(tally.rerun_ns[index] for tally, index in here),
        )
