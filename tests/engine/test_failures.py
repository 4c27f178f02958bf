"""An error of ours, wherever it is raised, ends in stock behaviour, one warning and one decline."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphmend_bc import session
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.engine import frame_compiler
from graphmend_bc.engine.outcomes import results
from graphmend_bc.engine.plans import site_plans
from graphmend_bc.engine.plans.rewrite_cache import Rewrites
from graphmend_bc.engine.retry_policy import RetryPolicy
from graphmend_bc.engine.state import MendingState
from graphmend_bc.legality.ranges import Ranges
from graphmend_bc.reporting.report import FrameResult
from tests.oracle import check

X = torch.tensor([1.0, 2.0])


def branching(x: torch.Tensor) -> torch.Tensor:
    y = x.cos().squeeze(0)
    if y.sum() > 0:
        y = y * 2
    return y + 1


def numbers(x: torch.Tensor) -> torch.Tensor:
    kept = []
    if x.sum() > 0:
        kept.append(2)
    return x * (len(kept) + 2)


def straight(x: torch.Tensor) -> torch.Tensor:
    return x.cos().squeeze(0) + 1


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


def run(
    function: Callable[..., Any], backend: Any = "eager", **kwargs: Any
) -> tuple[list[FrameResult], Any]:
    """The frames and the report of two calls under mending."""
    frames: list[FrameResult] = []
    state = session.new_state(mends=True)
    state.on_frame.append(frames.append)
    torch._dynamo.reset()
    with session.mending_by(state):
        compiled = torch.compile(function, backend=backend, **kwargs)
        for x in (X, -X):
            assert torch.equal(compiled(x), function(x))
    return frames, state.report_now()


KINDS = [IndexError, ValueError, TypeError, RuntimeError, NotImplementedError, KeyError]


@pytest.mark.parametrize("kind", KINDS)
def test_an_analysis_that_fails_is_not_taken_for_the_programs_error(
    kind: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Ranges, "note", failing(kind("planted")))
    with caplog.at_level(logging.WARNING, "graphmend_bc"):
        frames, report = run(branching)
    (record,) = [r for r in caplog.records if r.name == "graphmend_bc"]
    assert "planted" in record.getMessage()
    assert record.exc_info
    (decline,) = report.declines
    assert decline.reason == "internal-error"
    assert decline.site.lineno == branching.__code__.co_firstlineno + 2
    assert f"It raised {kind.__name__} at dynamo/trace/op_recorder.py:" in decline.explanation
    assert [bool(frame.break_reason) for frame in frames] == [True, False]


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (site_plans.Plans, "start"),
        (Rewrites, "rewritten"),
        (MendingState, "forget_dead"),
        (MendingState, "note_mended"),
        (Recorder, "_note"),
        (frame_compiler, "report_result"),
        (frame_compiler, "save_decisions"),
        (results, "gb_id_of"),
    ],
)
def test_one_warning_and_one_decline(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(owner, name, failing(LookupError("planted")))
    with caplog.at_level(logging.WARNING, "graphmend_bc"):
        _, report = run(branching)
    records = [r for r in caplog.records if r.name == "graphmend_bc"]
    assert {"planted" in r.getMessage() for r in records} == {True}
    # What goes on after stock's break is a function by itself.
    assert len(records) == len(report.declines) <= 3
    assert {d.reason for d in report.declines} == {"internal-error"}
    assert "branching" in records[0].getMessage()


@pytest.mark.parametrize("name", ["after", "describe"])
def test_a_policy_that_fails_is_reported_once(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is asked only where an attempt fails."""
    monkeypatch.setattr(RetryPolicy, name, failing(LookupError("planted")))
    with caplog.at_level(logging.WARNING, "graphmend_bc"):
        _, report = run(numbers)
    (record,) = [r for r in caplog.records if r.name == "graphmend_bc"]
    assert "planted" in record.getMessage()
    assert [decline.reason for decline in report.declines] == ["internal-error"]


def test_what_only_the_mended_graph_does_to_a_backend_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def backend(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        if any(node.target is torch.where for node in graph.graph.nodes):
            raise ValueError("no kernel for it")
        return graph.forward

    with caplog.at_level(logging.WARNING, "graphmend_bc"):
        _, report = run(branching, backend)
    (decline,) = report.declines
    assert decline.reason == "does-not-compile"
    assert "no kernel for it" in decline.explanation
    assert len([r for r in caplog.records if r.name == "graphmend_bc"]) == 1


def test_a_dimension_of_a_number_is_no_reason_to_leave_the_branch() -> None:
    calls = [torch.ones(3), -torch.ones(3)]
    for squeeze in ("squeeze(-1)", "squeeze((0,))", "unsqueeze(-1).squeeze(-1).squeeze(0)"):
        source = f"""
        def f(x):
            y = x.mean().{squeeze}
            if y > 0:
                y = y * 2
            return y
        """
        check(source, calls, mends="where@3")
