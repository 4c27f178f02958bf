"""How guesses went: which way a graph took for granted, and how often that was wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from graphmend_bc.runtime.site import Site


@dataclass(frozen=True, slots=True)
class Guessed:
    """A truth value that one graph takes for granted.

    Attributes:
        site: where the program asks for it.
        occurrence: how often the trace had come by the site before.
        likely: the value taken for granted.
        firm: True if the other value only leads to a raise.
        asserted: what the graph asserts of the value, so that it raises if that is wrong, before it
            can say which guess was; empty if nothing.
    """

    site: Site
    occurrence: int
    likely: bool
    firm: bool
    asserted: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the guesses at one site went.

    Attributes:
        site: where the program asks.
        calls: how often graphs ran that rest on a guess there.
        misses: how often that guess made their results useless.
        turned: how often the value taken for granted was changed.
    """

    site: Site
    calls: int
    misses: int
    turned: int

    def __str__(self) -> str:
        return (
            f"{self.site}: {self.misses} of {self.calls} calls missed, turned {self.turned} times"
        )


@dataclass(slots=True)
class Tally:
    """Calls of one graph that rests on guesses.

    Attributes:
        guesses: what it takes for granted, in the order of the program.
        captured: where it has sizes and numbers known only at run time; Dynamo assumes things about
            them that the graph checks by raising.
        calls: how often it ran.
        misses: how often each guess was the first to be wrong, by its index.
        raised: how often the graph raised, so that the guesses could not be asked.
        retired: True once the graph is not to be called any more; other threads may still run it.
    """

    guesses: tuple[Guessed, ...]
    captured: tuple[Site, ...] = ()
    calls: int = 0
    misses: Counter[int] = field(default_factory=Counter)
    raised: int = 0
    retired: bool = False

    @property
    def hits(self) -> int:
        """Calls whose results were used."""
        return self.calls - self.misses.total() - self.raised

    def suspect(self, error: str) -> int | None:
        """The guess that an assertion of the graph was about, or the first that may have been.

        Args:
            error: what the failed assertion says.
        """
        asserted = [i for i, guessed in enumerate(self.guesses) if guessed.asserted]
        named = (i for i in asserted if f" {self.guesses[i].asserted} " in error)
        return next(iter((*named, *asserted)), None)

    def is_bad(self, count: int, limit: int) -> bool:
        """True if something that happened `count` times costs more than the graph saves.

        A miss costs a run of the graph and a run of the original code, so one in eight is too many.
        """
        return count >= limit and 8 * count > self.calls


@dataclass(slots=True)
class History:
    """What was learnt about the guesses at one site.

    Attributes:
        turns: from which occurrence on which value is likely, by rising occurrence; before the
            first one, what was suggested when the frame was compiled.
        turned: how often the likely value was changed.
        tallies: the graphs that rest on guesses at this site.
    """

    turns: list[tuple[int, bool]] = field(default_factory=list)
    turned: int = 0
    tallies: list[Tally] = field(default_factory=list)

    def likely(self, occurrence: int) -> bool | None:
        """The value to take for granted; None if the first one suggested was never turned.

        Args:
            occurrence: how often the trace came by the site before.
        """
        for start, value in reversed(self.turns):
            if start <= occurrence:
                return value
        return None

    def turn(self, occurrence: int, value: bool) -> None:
        """From an occurrence on, take another value for granted."""
        self.turns = [turn for turn in self.turns if turn[0] < occurrence]
        self.turns.append((occurrence, value))
        self.turned += 1

    def turn_from(self, tally: Tally, guessed: Guessed) -> None:
        """Retire a graph, and take the other value than it did, if that was not learnt before."""
        tally.retired = True
        if self.likely(guessed.occurrence) is not (not guessed.likely):
            self.turn(guessed.occurrence, not guessed.likely)

    def outcome(self, site: Site) -> Outcome:
        """How the guesses at a site went so far."""
        misses = sum(
            count
            for tally in self.tallies
            for index, count in tally.misses.items()
            if tally.guesses[index].site == site
        )
        return Outcome(site, sum(tally.calls for tally in self.tallies), misses, self.turned)
