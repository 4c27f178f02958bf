"""What was found, as text: one row for each line of the user's program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphmend_bc.reporting.page import Row, rows_of
from graphmend_bc.reporting.report import Report
from graphmend_bc.reporting.table import Table


def line_table(
    report: Report,
    label: tuple[str, Callable[[Row], str]] | None = None,
    others: Sequence[Sequence[str]] = (),
) -> Table:
    """A table of what was mended and declined, a row for each line.

    Args:
        report: what was found.
        label: the title of a first column, and what stands in it.
        others: further rows: the cells of the first three columns behind the label, and before them
            that of the label.

    Returns:
        The table. It says how often checks failed if there are any.
    """
    found = rows_of(report)
    has_checks = any(row.speculations for row in found)
    titles = ["mended by", "break", "where", *(["failed checks"] if has_checks else [])]
    rows = [
        [_how(row), _breaks(row), str(row.site), *([_checks(row)] if has_checks else [])]
        for row in found
    ]
    if label is not None:
        titles.insert(0, label[0])
        rows = [[label[1](row), *cells] for row, cells in zip(found, rows, strict=True)]
    rows += [[*cells, *([""] if has_checks else [])] for cells in others]
    return Table(titles, rows)


def _how(row: Row) -> str:
    """The strategies, and the reasons for what was left."""
    left = [f"declined: {decline.reason}" for decline in row.declines]
    found = [*(mend.strategy for mend in row.mends), *left]
    return ", ".join(dict.fromkeys(found)) or row.how


def _breaks(row: Row) -> str:
    """Dynamo's ids of the breaks."""
    found = [*(mend.gb_id for mend in row.mends), *(left.gb_id for left in row.declines)]
    return ", ".join(dict.fromkeys(filter(None, found)))


def _checks(row: Row) -> str:
    return f"{row.failed_checks} of {row.calls}" if row.speculations else ""
