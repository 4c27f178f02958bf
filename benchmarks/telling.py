"""What the arms of a census came to, as parts of a row."""

from __future__ import annotations

from typing import Any

import arms
import torch
from arms import Arm, Subject, short
from seen import differences

from graphmend_bc.reporting.report import Report

Row = dict[str, Any]

COUNTS = ("graphs", "breaks", "skipped", "attempts", "later_graphs", "later_breaks")
COUNTS += ("later_skipped", "causes", "later_causes", "error", "complaints", "seconds")


def steady(subject: Subject) -> tuple[Arm, str]:
    """The eager arm, and what differs when it is run again; nothing if nothing does.

    Raises:
        Exception: whatever a call raises.
    """
    expected = arms.eager(subject)
    unsteady = differences(expected.calls, arms.eager(subject).calls)
    return expected, f"not deterministic: {unsteady[0]}" if unsteady else ""


def compared(subject: Subject, expected: Arm, stock: Arm) -> Row:
    """The mended arm and the stock arm beside the eager one."""
    mended = arms.compiled(subject, mends=True)
    row: Row = {"status": "ok", "stock": _told(stock, expected), "mended": _told(mended, expected)}
    if row["stock"]["differs"]:
        # Stock Dynamo draws NumPy's random numbers from torch's generator, unless told otherwise.
        with torch._dynamo.config.patch(use_numpy_random_stream=True):
            other = [arms.compiled(subject, mends=mends) for mends in (False, True)]
        row["numpy_stream"] = [_told(arm, expected) for arm in other]
    return row | _told_of_mending(mended.report)


def _told(arm: Arm, expected: Arm) -> Row:
    return {
        **{name: getattr(arm, name) for name in COUNTS},
        "differs": differences(expected.calls, arm.calls)[:20],
    }


def _told_of_mending(report: Report) -> Row:
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
