"""What was mended, what was not, and what that costs."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import torch

import graphmend_bc
from downstream.serving import doubled, in_python
from graphmend_bc.testing import assert_exact, assert_no_breaks


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum() > 0 else x - 1


def told(report: graphmend_bc.Report, page: Path | None = None) -> list[str]:
    """A line for each site, and a page if it is asked for."""
    if page is not None:
        report.to_html(page)
    lines = [report.summary(), report.to_json(), report.refused]
    lines += [f"{mend.strategy} {mend.site} by {mend.rule}" for mend in report.mends]
    return lines + [
        each for decline in report.declines for each in (decline.reason, *decline.hints)
    ]


def compared(x: torch.Tensor) -> graphmend_bc.Explanation:
    """One call, stock and mended."""
    found = graphmend_bc.explain(scaled, seconds=0.0, backend="eager")(x)
    mend: graphmend_bc.Mend = found.mends[0]
    declined: list[graphmend_bc.Decline] = found.declines
    assert_type(found.before.graph_break_count, int)
    assert_type(mend.site.lineno, int)
    assert not declined
    return found


def checked(x: torch.Tensor) -> tuple[graphmend_bc.Report, graphmend_bc.Explanation]:
    """As a test of one's own function has it."""
    report = assert_exact(scaled, x, (-x,), {"x": x}, grad=False, state=list, backend="eager")
    return report, assert_no_breaks(scaled, x)


def measured(x: torch.Tensor, trace: Path) -> str:
    """What breaks cost; it needs the C extension."""
    with graphmend_bc.profile(trace=False, call_limit=10) as prof:
        doubled(x)
    profile: graphmend_bc.Profile = prof
    profile.export_chrome_trace(trace)
    assert_type(profile.costs.wall_ns, int)
    return profile.table(limit=3) + profile.to_json()


def attached(x: torch.Tensor) -> float:
    """What a function gives that its owner did not compile."""
    with graphmend_bc.attach(in_python, backend="eager") as attachment:
        assert_type(attachment, graphmend_bc.Attachment)
        in_python(x)
    with graphmend_bc.attach("downstream.*", where=lambda code: code.co_argcount == 1):
        scaled(x)
    with graphmend_bc.attach(where=lambda code: code.co_name == "scaled"):
        scaled(-x)
    return float(graphmend_bc.rewrite(scaled, branches=True, effects=False)(x).sum())
