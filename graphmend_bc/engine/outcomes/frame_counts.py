"""What is counted of one mended frame."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from graphmend_bc.reporting.speculation_stats import Tally
from graphmend_bc.runtime import Site


@dataclass(slots=True)
class FrameCounts:
    """The counts that say whether mending a frame pays.

    Attributes:
        compiled: how often it was compiled with a mend.
        changes: how often that was thrown away because checks failed.
        breaks: whether stock would break its graph; its limit of versions counts otherwise.
        asserts: whether an `assert` on a tensor is mended in it.
        stored: names of the sources of integers that it stores in objects.
        sites: what was mended in it, or in what it calls.
        cause: the site because of which it was thrown away, until it is compiled again.
        versions: the values of guarded conditions that it was compiled for.
        tallies: its graphs that have speculations.
        lists: hashes of the lists of numbers that it was compiled for, by the site that gives them.
        flagged: how often a tensor came to require a gradient when it was compiled.
        varies: whether it reads a value for which it was compiled too often.
        left: whether stock compiles it, because mending it does not pay.
        varying: the guards that failed in most of its versions then, without their numbers.
    """

    compiled: int = 0
    changes: int = 0
    breaks: bool = False
    asserts: bool = False
    stored: frozenset[str] = frozenset()
    sites: set[Site] = field(default_factory=set)
    cause: Site | None = None
    versions: set[tuple[tuple[Site, bool], ...]] = field(default_factory=set)
    tallies: list[Tally] = field(default_factory=list)
    lists: dict[Site, set[int]] = field(default_factory=dict)
    flagged: int = 0
    varies: bool = False
    left: bool = False
    varying: frozenset[str] = frozenset()

    def note_version(self, values: Iterable[tuple[Site, bool]]) -> Site | None:
        """It was compiled for values of guarded conditions.

        Returns:
            The condition because of which there is one more version; None if it is the first, or
            compiled again for something else.
        """
        version, known = tuple(values), {pair for version in self.versions for pair in version}
        if not version or version in self.versions:
            return None
        self.versions.add(version)
        new = [site for site, value in version if (site, value) not in known]
        return (new or [version[0][0]])[0] if known else None

    def note_compiled(self, *, breaks: bool, asserts: bool) -> None:
        """It was compiled with a mend once more."""
        self.compiled += 1
        self.breaks |= breaks
        self.asserts |= asserts
