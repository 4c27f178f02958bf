"""A row for each place in the user's program, with its source."""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphmend_bc.reporting.outcomes import Outcome
from graphmend_bc.reporting.page.sparkline import sparkline
from graphmend_bc.runtime import Site

if TYPE_CHECKING:
    from graphmend_bc.reporting.report import Decline, Mend, Report

_AROUND = 3
"""Lines of source shown before and after the one that a row is about."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of an excerpt.

    Attributes:
        number: counted from 1.
        text: without its end.
        is_site: True for the line that the row is about.
    """

    number: int
    text: str
    is_site: bool


@dataclass(slots=True)
class Row:
    """What became of one line of a function.

    Attributes:
        site: the first instruction of the line that was met.
        mends: how it was mended; several if one way needed another.
        declines: why a break there was left.
        speculations: how often its checks failed.
        source: the line and those around it; empty if there is no source.
    """

    site: Site
    mends: list[Mend] = field(default_factory=list)
    declines: list[Decline] = field(default_factory=list)
    speculations: list[Outcome] = field(default_factory=list)
    source: tuple[SourceLine, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if no break is left there."""
        return bool(self.mends) and not self.declines

    @property
    def how(self) -> str:
        """The strategies, or the reasons for leaving it."""
        found = [d.reason for d in self.declines] or [m.strategy for m in self.mends]
        return ", ".join(dict.fromkeys(found)) or "no longer mended"

    @property
    def breaks(self) -> str:
        """Dynamo's names of the breaks."""
        found = [*(m.gb_type for m in self.mends), *(d.gb_type for d in self.declines)]
        return ", ".join(dict.fromkeys(filter(None, found)))

    @property
    def failed_checks(self) -> int:
        """Calls of which the original code ran."""
        return sum(known.failed_checks for known in self.speculations)

    @property
    def calls(self) -> int:
        """Calls in which a graph that assumes something here came by."""
        return max((known.calls for known in self.speculations), default=0)

    @property
    def history(self) -> str:
        """In which calls checks failed, as SVG; empty if none did."""
        return sparkline(self.speculations)

    @property
    def lost_ns(self) -> int:
        """Nanoseconds that would not have been spent without the speculations."""
        return sum(known.lost_ns for known in self.speculations)


def rows_of(report: Report) -> list[Row]:
    """One row for each line of the user's program, those with breaks first.

    Args:
        report: what was found.
    """
    rows: dict[tuple[str, int, str], Row] = {}

    def row(site: Site) -> Row:
        key = site.filename, site.lineno, site.qualname
        if key not in rows:
            rows[key] = Row(site, source=tuple(excerpt(site.filename, site.lineno)))
        return rows[key]

    for decline in report.declines:
        row(decline.site).declines.append(decline)
    for mend in report.mends:
        row(mend.site).mends.append(mend)
    for known in report.speculations:
        row(known.site).speculations.append(known)
    return list(rows.values())


def excerpt(filename: str, lineno: int) -> Iterable[SourceLine]:
    """A line of a file and those around it.

    Args:
        filename: as a code object has it.
        lineno: counted from 1; 0 if it is not known.

    Yields:
        The lines; none if the file cannot be read.

    Example:
        >>> list(excerpt("<string>", 3))
        []
    """
    lines = linecache.getlines(filename) if lineno else []
    for number in range(max(1, lineno - _AROUND), min(len(lines), lineno + _AROUND) + 1):
        yield SourceLine(number, lines[number - 1].rstrip("\n"), number == lineno)
