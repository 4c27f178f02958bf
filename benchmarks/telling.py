"""What an arm of a census came to, as parts of a row."""

from __future__ import annotations

from typing import Any

from arms import Arm, short
from seen import differences

from graphmend_bc.reporting.report import Report

Row = dict[str, Any]

COUNTS = ("graphs", "breaks", "skipped", "attempts", "later_graphs", "later_breaks")
COUNTS += ("later_skipped", "causes", "error", "complaints", "seconds")


def told(arm: Arm, expected: Arm) -> Row:
    """Counts, and what differs from the expected arm."""
    return {
        **{name: getattr(arm, name) for name in COUNTS},
        "differs": differences(expected.calls, arm.calls)[:20],
    }


def told_of_mending(report: Report) -> Row:
    """Mends, declines and speculations."""
    return {
        "mends": [
            {
                "strategy": m.strategy,
                "at": short(f"{m.site.filename}:{m.site.lineno}"),
                "gb": m.gb_type,
            }
            for m in report.mends
        ],
        "declines": [
            {
                "reason": d.reason,
                "at": short(f"{d.site.filename}:{d.site.lineno}"),
                "gb": d.gb_type,
                "why": d.explanation[-200:],
                "before": [text[:200] for text in d.passed_over],
            }
            for d in report.declines
        ],
        "speculations": [short(str(outcome)) for outcome in report.speculations],
        "failed_checks": [
            short(str(o.site)) for o in report.speculations if o.failed_checks == o.calls > 0
        ],
    }
