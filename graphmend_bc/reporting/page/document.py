"""The page as a whole: its parts, and the templates that show them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from graphmend_bc.code.resume_names import in_words
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.page.bytecode import comparisons_of
from graphmend_bc.reporting.page.chains import chains_of
from graphmend_bc.reporting.page.opening import Opening, answers_of
from graphmend_bc.reporting.page.rows import rows_of
from graphmend_bc.reporting.page.svg import missing_libraries
from graphmend_bc.reporting.page.timeline import Timeline
from graphmend_bc.reporting.page.words import STRATEGIES, WORDS
from graphmend_bc.reporting.reasons import REASONS
from graphmend_bc.reporting.references import Told, codes_in, reference
from graphmend_bc.runtime.code_id import CodeId

if TYPE_CHECKING:
    from graphmend_bc.reporting.report import Report


def page_of(report: Report, opening: Opening | None = None) -> str:
    """The report as HTML that needs no other file.

    Args:
        report: what was found. All its text is escaped.
        opening: what stands above its rows; None for the report's own figures.
    """
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("graphmend_bc.reporting.page")
    templates = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    opening = opening or Opening.of(report)
    breaks = {mend.site: mend.gb_type for mend in report.mends if mend.gb_type}
    mended = defaultdict[CodeId, set[int]](set)
    for mend in report.mends:
        mended[mend.site.code].add(mend.site.offset)
    comparisons = list(comparisons_of(report.rewrites, mended))
    return templates.get_template("report.html").render(
        opening=opening,
        answers=answers_of(report, opening),
        chains=chains_of(report.frames, breaks, opening.stock),
        rows=rows_of(report),
        comparisons=comparisons,
        number_of={c.change.code: number for number, c in enumerate(comparisons, 1)},
        timeline=Timeline.of(report.frames),
        reasons={code: REASONS[code] for code in codes_in(_reasons_on(report))},
        reference=reference,
        missing=missing_libraries(),
        many=many,
        in_words=in_words,
        words=WORDS,
        strategies=STRATEGIES,
    )


def _reasons_on(report: Report) -> Iterator[str]:
    """Texts of the page that name reasons."""
    told: list[Told] = [*report.declines, *report.mends]
    for entry in told:
        yield from entry.lines
    for frame in report.frames:
        yield from (attempt.failed_at for attempt in frame.attempts)


def write_page(path: Path, report: Report, opening: Opening | None = None) -> None:
    """Write the report as HTML.

    Args:
        path: file to write; replaced if it exists.
        report: what was found.
        opening: as for `page_of`.
    """
    # The name of a file or an argument may be text that UTF-8 cannot hold.
    path.write_text(page_of(report, opening), encoding="utf-8", errors="backslashreplace")
