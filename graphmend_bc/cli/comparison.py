"""What ``explain`` found: stock and mended, as tables, as JSON and as a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import graphmend_bc as gm
from graphmend_bc.cli.compiled_callables import FirstCall
from graphmend_bc.reporting.page import Opening, write_page
from graphmend_bc.reporting.provenance import Provenance
from graphmend_bc.reporting.report import SCHEMA
from graphmend_bc.reporting.table import Table

_COUNTS = {
    "graphs": "graph_count",
    "breaks": "graph_break_count",
    "skipped frames": "skipped_frames",
}
"""What is counted before and after, and its name in an explanation."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One callable, stock and mended.

    Attributes:
        label: its name.
        found: the comparison; the exception's text if it could not be run again.
    """

    label: str
    found: gm.Explanation | str

    @classmethod
    def of(cls, call: FirstCall) -> Compared:
        try:
            return cls(call.label, call.explain())
        except Exception as error:  # one program's call must not hide the others
            return cls(call.label, f"{type(error).__name__}: {error}")

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
        entries = gm.Report(self.found.mends, self.found.declines).as_dict()
        return {
            "name": self.label,
            **counts,
            "mends": entries["mends"],
            "declines": entries["declines"],
        }


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

    def print(self) -> None:
        """Print the tables, and why what is left was declined."""
        if self.nothing:
            print(self.nothing)
            return
        self.counts().print(sys.stdout)
        print()
        sites, texts = [], dict[str, None]()
        for one in self.compared:
            if isinstance(one.found, str):
                sites.append([one.label, "could not be run again", "", one.found])
                continue
            sites += [[one.label, m.strategy, m.gb_id, str(m.site)] for m in one.found.mends]
            for d in one.found.declines:
                sites.append([one.label, f"declined: {d.reason}", d.gb_id, str(d.site)])
                hints = "".join(f"\n    Hint: {hint}" for hint in d.hints)
                texts[f"{d.reason}: {d.explanation}{hints}"] = None
        Table(["compiled", "mended by", "break", "where"], sites).print(sys.stdout)
        for text in texts:
            print(text)

    def to_json(self) -> str:
        """The report's `schema` and `provenance`, and in `compiled` an object for each callable."""
        provenance = asdict(Provenance.here(self.program))
        rows = [one.as_dict() for one in self.compared]
        return json.dumps({"schema": SCHEMA, "provenance": provenance, "compiled": rows}, indent=2)

    def to_html(self, path: Path) -> None:
        """Write a page: the counts before and after, and a row for each line of the program."""
        explanations = [found for _, found in self.found]
        report = _report_of(explanations)
        figures = {
            "mended": str(len(report.mends)),
            "declined": str(len(report.declines)),
            **{name: _change(explanations, key) for name, key in _COUNTS.items()},
        }
        notes = [
            f"{one.label} could not be run again: {one.found}"
            for one in self.compared
            if isinstance(one.found, str)
        ]
        notes += [self.nothing] if self.nothing else []
        stock = [frame for found in explanations for frame in found.before.frames]
        provenance = Provenance.here(self.program)
        opening = Opening(figures, self.counts(), notes, provenance, stock)
        write_page(path, report, opening)


def _report_of(explanations: Sequence[gm.Explanation]) -> gm.Report:
    """What mending came to in all of them."""
    report = gm.Report()
    for found in explanations:
        entries: list[gm.Mend | gm.Decline] = [*found.mends, *found.declines]
        for entry in entries:
            report.add(entry)
        for frame in found.after.frames:
            report.compiled.note(frame.result)
            report.note_frame(frame, [])
        known = {change.code for change in report.rewrites}
        report.rewrites += [change for change in found.rewrites if change.code not in known]
    return report


def _change(explanations: Sequence[gm.Explanation], name: str) -> str:
    before = sum(getattr(found.before, name) for found in explanations)
    after = sum(getattr(found.after, name) for found in explanations)
    return f"{before} -> {after}"
