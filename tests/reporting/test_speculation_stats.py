"""How often checks failed: of all calls together, and of those that came by each place."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.reporting.page import page_of
from graphmend_bc.reporting.report import Report


def limits(x: torch.Tensor) -> torch.Tensor:
    if x[0] > 9:
        raise ValueError("first")
    y = x * 2
    for i in range(1, 4):
        if y[i] > 9:
            raise ValueError(i)
    if y[4] > 9:
        raise KeyError("last")
    return y


def high(*places: int) -> torch.Tensor:
    x = torch.ones(5)
    x[list(places)] = 99.0
    return x


CALLS = [high(), high(0), high(), high(2), high(4), high(3, 1), high(4, 0), high()]
"""Eight calls: two stop at the first check, two at those of the loop, one at the last."""


@pytest.fixture
def mended() -> Iterator[Callable[..., Any]]:
    """Compiles a function of which checks may fail as often as they like."""

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        return torch.compile(function, backend="eager")

    with gm.enabled(), gm.config.patch(failed_check_limit=1000):
        yield compiled


def call_all(function: Callable[..., Any], calls: list[torch.Tensor]) -> None:
    for x in calls:
        with contextlib.suppress(ValueError, KeyError):
            function(x)


@pytest.mark.parametrize("turns", [1, 3])
def test_a_call_counts_once_and_at_the_places_it_came_by(
    mended: Callable[..., Any], turns: int
) -> None:
    call_all(mended(limits), CALLS * turns)
    report = gm.report()
    assert (report.speculated.calls, report.speculated.failed) == (8 * turns, 5 * turns)
    first = limits.__code__.co_firstlineno
    found = {o.site.lineno - first: (o.calls, o.failed_checks) for o in report.speculations}
    assert found == {
        1: (8 * turns, 2 * turns),
        5: (6 * turns, 2 * turns),
        7: (4 * turns, 1 * turns),
    }


def test_graphs_add_up(mended: Callable[..., Any]) -> None:
    """Each shape has a graph of its own, and so has another function."""

    def other(x: torch.Tensor) -> torch.Tensor:
        if x.isnan().any():
            raise ValueError("nan")
        return x + 1

    torch._dynamo.reset()
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        compiled = mended(limits)
        call_all(compiled, [torch.ones(5), torch.ones(6), torch.ones(6) * 99, torch.ones(5)])
        call_all(mended(other), [torch.ones(2), torch.ones(2) / 0 - torch.ones(2) / 0])
    report = gm.report()
    assert (report.speculated.calls, report.speculated.failed) == (6, 2)
    assert report.speculated.miss_rate == 2 / 6


def test_report_json_and_page_say_the_same(mended: Callable[..., Any]) -> None:
    call_all(mended(limits), CALLS)
    report = gm.report()
    assert "; a check failed in 5 of 8 speculated calls; that cost " in report.summary()
    speculated = {"calls": 8, "failed": 5, "raised": 0}
    assert json.loads(report.to_json())["speculated"] == speculated
    page = page_of(report)
    assert "<dt>failed checks</dt><dd>5 of 8 calls</dd>" in page
    assert "the check failed in 2 of 6 calls" in page
    assert report.copy() == report


def test_nothing_is_said_where_nothing_was_speculated() -> None:
    assert "check" not in Report().summary()
    assert Report().speculated.miss_rate == 0
