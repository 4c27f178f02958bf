"""What failed checks cost, by site: compilations, graphs that ran for nothing, the original code."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.engine.outcomes.frame_counts import FrameCounts
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.outcomes import Outcome
from graphmend_bc.reporting.page import page_of, rows_of
from graphmend_bc.reporting.report import Mend
from tests.processes import python

UP, DOWN = torch.ones(3), -torch.ones(3)


@pytest.fixture(autouse=True)
def mending() -> Iterator[None]:
    torch._dynamo.reset()
    with gm.enabled():
        yield


def run(
    function: Callable[..., Any], calls: Sequence[Any], *expected: type[Exception]
) -> dict[int, Outcome]:
    """The outcomes by the lines of a function, its first being 0."""
    compiled = torch.compile(function, backend="eager")
    for x in calls:
        with contextlib.suppress(*expected):
            compiled(x)
    first = function.__code__.co_firstlineno
    return {outcome.site.lineno - first: outcome for outcome in gm.report().speculations}


def operator(x: torch.Tensor) -> torch.Tensor:
    function = torch.sin if x.sum() > 0 else torch.cos
    return function(x)


def test_compilation_after_failed_checks_belongs_to_its_site() -> None:
    (found,) = run(operator, [UP] * 4 + [DOWN] * 5).values()
    assert (found.failed_checks, found.respecialised, found.recompiled) == (3, 1, 1)
    assert min(found.rerun_ns, found.graph_ns, found.recompile_ns) > 0
    report = gm.report()
    assert report.compiled.frames == 2
    assert report.lost_ns == found.lost_ns == found.rerun_ns + found.graph_ns + found.recompile_ns
    assert report.summary().endswith(", with 1 compilation")
    told = "went into compiling anew 1 time"
    assert told in str(report)
    assert told in page_of(report)
    (written,) = json.loads(report.to_json())["speculations"]
    assert written["recompile_ns"] == found.recompile_ns
    assert written["graph_ns"] == found.graph_ns


def test_compilation_for_another_shape_belongs_to_no_site() -> None:
    (found,) = run(operator, [torch.ones(2), torch.ones(2, 2), torch.ones(3, 3, 3)]).values()
    assert gm.report().compiled.frames == 3
    assert (found.recompiled, found.recompile_ns, found.lost_ns) == (0, 0, 0)


def test_versions_for_guarded_values_belong_to_the_condition() -> None:
    (found,) = run(operator, [UP, DOWN] * 12).values()
    report = gm.report()
    assert [mend.strategy for mend in report.mends][-1] == "hoist"
    assert found.recompiled == report.compiled.frames - 1
    assert found.recompiled >= 2


def test_first_version_counts_at_nothing_and_others_at_what_is_new() -> None:
    first, second = site_of(operator.__code__, 0), site_of(operator.__code__, 2)
    counts = FrameCounts()
    versions = [(True, True), (True, False), (True, True), (False, True), (False, False)]
    found = [counts.note_version([(first, a), (second, b)]) for a, b in versions]
    assert found == [None, second, None, first, first]
    assert counts.note_version([]) is None


def test_graph_that_raises_runs_for_nothing() -> None:
    def solve(x: torch.Tensor) -> torch.Tensor:
        if x.isnan().any():
            raise ValueError("nan")
        return torch.linalg.cholesky(x)

    good, bad = torch.eye(2), -torch.eye(2)
    (found,) = run(solve, [good, bad, good, bad], torch.linalg.LinAlgError).values()
    assert (found.calls, found.failed_checks, found.raised) == (4, 0, 2)
    assert min(found.rerun_ns, found.graph_ns) > 0
    report = gm.report()
    assert (report.speculated.failed, report.speculated.raised) == (0, 2)
    assert report.speculated.miss_rate == 0
    assert "a check failed in 0 of 4 speculated calls, a graph raised in 2" in report.summary()
    assert "The graph raised in 2 of 4 calls; " in page_of(report)


def test_graph_that_raises_because_of_a_size() -> None:
    def pairs(x: torch.Tensor) -> torch.Tensor:
        kept = x[x > 0]
        return kept.view(-1, 2) * 2

    found = run(pairs, [torch.ones(4), torch.ones(6), torch.ones(3)], RuntimeError)
    report = gm.report()
    assert {line: outcome.raised for line, outcome in found.items()} == {1: 1}
    assert report.lost_ns == found[1].lost_ns > 0
    assert "; a graph raised in 1 call; that cost " in report.summary()


def test_what_raises_counts_at_one_of_several_sites() -> None:
    def both(x: torch.Tensor) -> torch.Tensor:
        if x.isnan().any():
            raise ValueError("nan")
        if x.isinf().any():
            raise ValueError("inf")
        return torch.linalg.cholesky(x)

    found = run(both, [torch.eye(2), -torch.eye(2)], torch.linalg.LinAlgError)
    assert {line: (o.calls, o.raised) for line, o in found.items()} == {1: (2, 1), 3: (1, 0)}
    assert gm.report().speculated.raised == 1


def limit(x: torch.Tensor) -> torch.Tensor:
    if x.sum() < 0:
        raise ValueError("negative")
    return x + 1


def test_what_was_given_up_is_declined_at_once_and_not_mended() -> None:
    with gm.config.patch(failed_check_limit=3):
        compiled = torch.compile(limit, backend="eager")
        compiled(UP)
        assert [mend.strategy for mend in gm.report().mends] == ["speculate"]
        for _ in range(3):
            with pytest.raises(ValueError, match="negative"):
                compiled(DOWN)
        report = gm.report()  # the frame is not called again
        assert report.mends == []
        (decline,) = report.declines
        assert (decline.reason, decline.gb_id) == ("speculation-missed", "GB0170")
        compiled(UP)
    again = gm.report()
    assert (again.mends, again.declines) == ([], [decline])
    (outcome,) = again.speculations
    assert outcome.recompiled == 1
    (row,) = rows_of(again)
    assert (row.is_whole, row.how) == (False, "speculation-missed")


def test_size_whose_graph_raises_too_often_is_declined_at_once() -> None:
    def pairs(x: torch.Tensor) -> torch.Tensor:
        kept = x[x > 0]
        return kept.view(-1, 2) * 2

    with gm.config.patch(failed_check_limit=2):
        run(pairs, [torch.ones(4), torch.ones(3), torch.ones(5), torch.ones(3)], RuntimeError)
    report = gm.report()
    assert report.mends == []
    assert [decline.reason for decline in report.declines] == ["capture-fails"]


def test_condition_that_flips_and_cannot_be_guarded_is_not_mended() -> None:
    def drawn(x: torch.Tensor) -> torch.Tensor:
        function = torch.sin if torch.randn_like(x)[0] < x[0] * 0 else torch.cos
        return function(x)

    torch.manual_seed(0)
    run(drawn, [UP] * 40)
    report = gm.report()
    assert [decline.reason for decline in report.declines] == ["speculation-missed"]
    assert report.mends == []


def test_frame_that_is_left_takes_its_own_mends_out() -> None:
    state = MendingState()
    own, shared = site_of(limit.__code__, 0), site_of(operator.__code__, 0)
    for site in (own, shared):
        state.note(Mend("where", site))
        state.counts_of(limit.__code__).sites.add(site)
    state.counts_of(operator.__code__).sites.add(shared)
    state.leave_frame(limit.__code__, "It was compiled 8 times.")
    assert [mend.site for mend in state.report.mends] == [shared]
    assert [decline.reason for decline in state.report.declines] == ["mending-does-not-pay"]
    assert state.note(Mend("where", own)), "it may be mended again after a reset"


@pytest.mark.slow
def test_profile_and_report_agree(tmp_path: Any) -> None:
    pytest.importorskip("graphmend_bc._frame_hooks")
    (tmp_path / "program.py").write_text("""
import contextlib, json, torch
import graphmend_bc as gm

def f(x):
    k = 2 if x.sum() > 0 else True
    if x[0] > 9:
        raise ValueError
    return torch.linalg.cholesky((x * x).diag()) * k

gm.enable()
compiled = torch.compile(f, backend="eager")
with gm.profile() as prof:
    for value in (1.0, 1.0, 99.0, -9.0, -9.0, -9.0, -9.0, 0.0, -9.0):
        with contextlib.suppress(ValueError, RuntimeError):
            compiled(torch.tensor([value, 1.0, 1.0]))
report, costs = gm.report(), prof.costs.failed_checks
kept = [known for known in report.speculations if known.is_costly]
assert {c.lineno for c in costs} == {known.site.lineno for known in kept} and len(kept) == 2
assert sum(c.total_ns for c in costs) == report.lost_ns > 0
assert sum(c.failed for c in costs) == report.speculated.failed > 0
assert sum(c.raised for c in costs) == report.speculated.raised == 1
assert sum(c.recompiled for c in costs) == sum(known.recompiled for known in kept) > 0
assert sum(row["total_ns"] for row in json.loads(prof.to_json())["failed_checks"]) == report.lost_ns
assert sum(c.total_ns for c in prof.costs.compilations) > sum(c.recompile_ns for c in costs)
with gm.profile() as later, contextlib.suppress(ValueError):
    compiled(torch.tensor([99.0, -999.0, 1.0]))
(cost,) = later.costs.failed_checks
assert (cost.calls, cost.failed, cost.recompiled) == (1, 1, 0)
print(prof.table())
""")
    done = python("program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "graphs that ran for nothing" in done.stdout
