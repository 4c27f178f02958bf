"""What a notebook shows of a report: a line, and a table of what was mended and left."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from graphmend_bc.reporting.references import references

if TYPE_CHECKING:
    from graphmend_bc.reporting.report import Decline, Mend


def notebook_html(heading: str, mends: Sequence[Mend], declines: Sequence[Decline]) -> str:
    """A part of a page.

    Args:
        heading: the line above the table.
        mends: what was mended.
        declines: what was left.
    """
    rows = [("mended", str(m.site), m.strategy, "") for m in mends]
    rows += [("left", str(d.site), d.reason, " ".join([d.explanation, *d.hints])) for d in declines]
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    table = "".join(f"<tr>{row}</tr>" for row in cells)
    lead = "<br>".join(map(escape, references(decline.reason for decline in declines)))
    parts = [f"<p>{escape(heading)}</p>", f"<table>{table}</table>" if rows else ""]
    return "".join([*parts, f"<p>{lead}</p>" if lead else ""])
