"""What ``explain`` found: stock and mended, as tables, as JSON and as a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import graphmend_bc as gm
from graphmend_bc.cli.explanation.compiled_callables import FirstCall
from graphmend_bc.reporting.call_times import TITLES, WHEN
from graphmend_bc.reporting.code_text import Rewritten
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.lines import line_table
from graphmend_bc.reporting.outcomes import Outcome, Speculated
from graphmend_bc.reporting.page import Opening, Row, rows_of, write_page
from graphmend_bc.reporting.provenance import Provenance
from graphmend_bc.reporting.references import references
from graphmend_bc.reporting.report import SCHEMA
from graphmend_bc.reporting.table import Table
from graphmend_bc.runtime.site import Site

_COUNTS = {
    "graphs": "graph_count",
    "breaks": "graph_break_count",
    "skipped frames": "skipped_frames",
}
"""What is counted before and after, and its name in an explanation."""

_ONCE = "it may be possible to run it once more: --seconds 0 calls each version but once."

_SHOWN = 3
"""Callables that are named in a row."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One callable, stock and mended.

    Attributes:
        label: its name.
        found: the comparison; the exception's text if it could not be run again.
        was_timed: True if each version was to be called several times.
    """

    label: str
    found: gm.Explanation | str
    was_timed: bool = False

    @classmethod
    def of(cls, call: FirstCall, seconds: float) -> Compared:
        try:
            return cls(call.label, call.explain(seconds))
        except Exception as error:  # one program's call must not hide the others
            return cls(call.label, f"{type(error).__name__}: {error}", bool(seconds))

    def as_dict(self) -> dict[str, Any]:
        """The comparison in the form of its JSON."""
        if isinstance(self.found, str):
            return {"name": self.label, "error": self.found}
        counts = {
            when: {
                **{name.replace(" ", "_"): getattr(found, key) for name, key in _COUNTS.items()},
                "break_reasons": list(found.break_reasons),
            }
            for when, found in (("before", self.found.before), ("after", self.found.after))
        }
        entries = report_of([self.found]).as_dict()
        listed = ("mends", "declines", "speculations", "speculated")
        times = self.found.times
        timed = {"untimed": self.found.untimed} if times is None else {"times": times.as_dict()}
        return {
            "name": self.label,
            **counts,
            **{name: entries[name] for name in listed},
            **(timed if times or self.found.untimed else {}),
        }

    @property
    def sentences(self) -> list[str]:
        """What the times say, or why there are none."""
        if isinstance(self.found, str):
            return [f"{self.label}: {_ONCE}"] if self.was_timed else []
        if not (self.found.times or self.found.untimed):
            return []
        times = self.found.times
        said = [self.found.untimed] if times is None else [times.gain(), *times.notes]
        return [f"{self.label}: {text[0].lower()}{text[1:]}" for text in said]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that was compared.

    Attributes:
        compared: the callables, in the order in which the program called them.
        nothing: says why there are none; empty if there are.
        program: what ran, if it was not the program in `sys.argv`.
    """

    compared: Sequence[Compared]
    nothing: str = ""
    program: str = ""

    @property
    def found(self) -> list[tuple[str, gm.Explanation]]:
        """The callables that could be run again, with their names."""
        return [(one.label, one.found) for one in self.compared if not isinstance(one.found, str)]

    def counts(self) -> Table:
        """A row for each callable that could be run again."""
        rows = [
            [label, *(_change([found], key) for key in _COUNTS.values())]
            for label, found in self.found
        ]
        return Table(["compiled", *_COUNTS], rows)

    def times(self) -> Table:
        """Two rows for each callable that was timed: its first call, and calls at rest."""
        rows = [row for label, f in self.found if f.times for row in f.times.table(label).rows]
        return Table(["compiled", *TITLES], rows)

    def counts_and_times(self) -> Table:
        """Both in one table, for the page."""
        counts, times = self.counts(), self.times()
        if not times.rows:
            return counts
        of = {(row[0], row[1]): row[2:] for row in times.rows}
        titles = [f"{when}: {version}" for when in WHEN for version in TITLES[1:]]
        none = [""] * len(TITLES[1:])
        rows = [
            [*row, *(cell for when in WHEN for cell in of.get((row[0], when), none))]
            for row in counts.rows
        ]
        return Table([*counts.header, *titles], rows)

    def print(self) -> None:
        """Print the tables, what the times say, and why what is left was declined."""
        if self.nothing:
            print(self.nothing)
            return
        self.counts().print(sys.stdout)
        print()
        if any(one.sentences for one in self.compared):
            self.times().print(sys.stdout)
            print("\n".join(text for one in self.compared for text in one.sentences))
            print()
        self._lines().print(sys.stdout)
        report = report_of([found for _, found in self.found])
        texts = dict[str, None]()
        for d in report.declines:
            hints = "".join(f"\n    Hint: {hint}" for hint in d.hints)
            texts[f"{d.reason}: {d.explanation}{hints}"] = None
        for text in [*texts, *references(d.reason for d in report.declines)]:
            print(text)
        if report.speculated != Speculated():
            print(f"{str(report.speculated).capitalize()}.")

    def _lines(self) -> Table:
        """A row for each line of the program, with the callables in which it was met."""
        labels: dict[tuple[str, int, str], dict[str, None]] = {}
        for label, found in self.found:
            for row in rows_of(report_of([found])):
                labels.setdefault(_key(row), {})[label] = None
        failed = [
            [one.label, "could not be run again", "", one.found]
            for one in self.compared
            if isinstance(one.found, str)
        ]
        report = report_of([found for _, found in self.found])
        return line_table(report, ("compiled", lambda row: _few(list(labels[_key(row)]))), failed)

    def to_json(self) -> str:
        """The report's `schema` and `provenance`, and in `compiled` an object for each callable."""
        provenance = asdict(Provenance.here(self.program))
        rows = [one.as_dict() for one in self.compared]
        return json.dumps({"schema": SCHEMA, "provenance": provenance, "compiled": rows}, indent=2)

    def to_html(self, path: Path) -> None:
        """Write a page: the counts before and after, and a row for each line of the program."""
        explanations = [found for _, found in self.found]
        report = report_of(explanations)
        figures = {
            "mended": str(len(report.mends)),
            "declined": str(len(report.declines)),
            **{name: _change(explanations, key) for name, key in _COUNTS.items()},
        }
        if (found := report.speculated) != Speculated():
            figures["failed checks"] = f"{found.failed} of {many(found.calls, 'call')}"
        notes = [
            f"{one.label} could not be run again: {one.found}"
            for one in self.compared
            if isinstance(one.found, str)
        ]
        notes += [text for one in self.compared for text in one.sentences]
        notes += [self.nothing] if self.nothing else []
        stock = [frame for found in explanations for frame in found.before.frames]
        provenance = Provenance.here(self.program)
        is_timed = any(found.times for found in explanations)
        opening = Opening(figures, self.counts_and_times(), notes, provenance, stock, is_timed)
        write_page(path, report, opening)


def report_of(explanations: Sequence[gm.Explanation]) -> gm.Report:
    """What was found in all of them, each place once."""
    report = gm.Report()
    outcomes: dict[Site, Outcome] = {}
    for found in explanations:
        entries: list[gm.Mend | gm.Decline] = [*found.mends, *found.declines]
        for entry in entries:
            report.add(entry)
        for frame in found.after.frames:
            report.compiled.note(frame.result)
            report.note_frame(frame, [])
        known = {one.code for one in report.rewritten}
        report.rewritten += [Rewritten.of(c) for c in found.rewrites if c.code not in known]
        for outcome in found.speculations:
            before = outcomes.get(outcome.site)
            outcomes[outcome.site] = outcome if before is None else before + outcome
        report.speculated += found.speculated
    report.speculations = list(outcomes.values())
    return report


def _key(row: Row) -> tuple[str, int, str]:
    return row.site.filename, row.site.lineno, row.site.qualname


def _few(labels: Sequence[str]) -> str:
    """Some of many names."""
    more = len(labels) - _SHOWN
    return ", ".join([*labels[:_SHOWN], *([f"{more} more"] if more > 0 else [])])


def _change(explanations: Sequence[gm.Explanation], name: str) -> str:
    before = sum(getattr(found.before, name) for found in explanations)
    after = sum(getattr(found.after, name) for found in explanations)
    return f"{before} -> {after}"
