"""Breaks that nothing mends: what they cost, in the frame that meets them first and in others."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest
import torch

from graphmend_bc import config, session
from graphmend_bc.dynamo import facts
from graphmend_bc.engine.plans.site_plans import Plans
from graphmend_bc.reporting.report import FrameResult, Report
from graphmend_bc.runtime import Site
from tests.releases import executed

UP, DOWN = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])

CHAIN = """
import os

def leaf(x):
    y = x + 1
    {bottom}
    return y * 2

def fourth(x):
    if x.sum() > 0:
        x = x * 3
    return leaf(x * 2) + 1

def third(x):
    return fourth(x * 2) + 1

def second(x):
    return third(x * 2) + 1

def f(x):
    return second(x * 2) + 1
"""


def compiled(
    source: str, calls: list[torch.Tensor], *, mends: bool = True
) -> tuple[list[FrameResult], Report]:
    """The frames of the calls, each of which gives what eager Python gives."""
    eager, ours = _defined(source), _defined(source)
    frames: list[FrameResult] = []
    state = session.new_state(mends=mends)
    state.on_frame.append(frames.append)
    torch._dynamo.reset()
    with session.mending_by(state):
        function = torch.compile(ours, backend="eager")
        for x in calls:
            assert torch.equal(function(x), eager(x))
        return frames, state.report_now()


def _defined(source: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {"torch": torch}
    executed(textwrap.dedent(source), "<program>", scope)
    function: Callable[..., Any] = scope["f"]
    return function


def attempts(frames: list[FrameResult]) -> list[int]:
    return [len([a for a in frame.attempts if "SkipFrame" not in a]) for frame in frames]


@pytest.mark.parametrize(
    "bottom",
    ["os.getcwd()", "open(os.devnull).close()", "torch._dynamo.graph_break()", "os.environ.copy()"],
)
def test_a_chain_of_calls(bottom: str) -> None:
    """At most two attempts more than sites that are mended, whatever the depth."""
    source = CHAIN.format(bottom=bottom)
    frames, report = compiled(source, [UP, DOWN, UP])
    stock, _ = compiled(source, [UP, DOWN, UP], mends=False)
    assert sum(attempts(frames)) <= len(report.mends) + 2
    assert attempts(frames)[1:] == [0] * (len(frames) - 1)
    assert len(frames) <= len(stock)
    assert sum(bool(f.break_reason) for f in frames) <= sum(bool(f.break_reason) for f in stock)


def test_no_attempt_where_no_rule_knows_the_break() -> None:
    frames, report = compiled(CHAIN.format(bottom="torch._dynamo.graph_break()"), [UP])
    assert [d.reason for d in report.declines] == ["break-requested"]
    assert sum(attempts(frames)) == 0


def test_the_third_compilation_of_a_frame_tries_nothing() -> None:
    source = """
    def f(x):
        rounds = int(x.new_ones(()).normal_() * 0 + 2)
        for i in range(rounds):
            x = x + 1
        return x
    """
    calls = [torch.ones((2,) * dims) for dims in range(1, 6)]
    frames, report = compiled(source, calls)
    assert report.declines
    own = [len(frame.attempts) for frame in frames if frame.break_reason]
    assert own[0] == own[1] > 0
    assert own[2:] == [0] * 3


@pytest.mark.slow
def test_a_value_that_is_an_input_further_in() -> None:
    """Where the reasons do not hold in every frame, the frame of the break tries all rules again."""
    frames, report = compiled(
        """
        def times(x, n):
            for i in range(int(n.item())):
                x = x + i
            return x

        def f(x):
            return times(x, (x * 0 + 2).cumsum(0)[0]) * 2
        """,
        [UP, DOWN],
    )
    assert "hoist" in {mend.strategy for mend in report.mends}
    assert sum(attempts(frames)) <= 6


def test_a_subscript_that_breaks_costs_an_attempt_in_each_frame_between() -> None:
    """There it could only be an input, and is not."""
    mask = "y = sum(y[(y + y.new_empty(2).normal_() * 0) > 0].unbind(), x.sum())"
    frames, report = compiled(CHAIN.format(bottom=mask), [UP, DOWN, UP])
    stock, _ = compiled(CHAIN.format(bottom=mask), [UP, DOWN, UP], mends=False)
    assert [decline.reason for decline in report.declines] == ["hoist-not-input"]
    _, *between, _ = [frame for frame in frames if frame.break_reason]
    assert attempts(between) == [1] * 3
    assert len(frames) <= len(stock)


def test_other_settings_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was left under some settings is not known under others."""
    source = """
    import os

    def f(x):
        y = x + 1
        open(os.devnull).close()
        return y * 2
    """
    eager, ours = _defined(source), _defined(source)
    started: list[Site] = []
    start = Plans.start

    def counted(plans: Plans, code: CodeType, site: Site) -> bool:
        started.append(site)
        return start(plans, code, site)

    monkeypatch.setattr(Plans, "start", counted)
    torch._dynamo.reset()

    def tried(size: int) -> int:
        started.clear()
        x = torch.ones(size)
        assert torch.equal(function(x), eager(x))
        return len(started)

    with session.mending_by(session.new_state(mends=True)):
        function = torch.compile(ours, backend="eager", dynamic=False)
        assert [tried(2) > 0, tried(3)] == [True, 0]
        with config.patch(where_op_limit=17):
            assert [tried(4) > 0, tried(5)] == [True, 0]


def test_what_follows_a_break_in_a_loop_knows_it() -> None:
    """The function that goes on after a break is other code, with the same lines."""
    frames, _ = compiled(
        """
        import os

        def f(x):
            x = x + 1
            os.getcwd()
            x = x * 2
            os.getcwd()
            return x * 3
        """,
        [UP, DOWN],
    )
    assert sum(attempts(frames)) <= 2


def test_a_flip_is_not_tried_in_a_function_that_gives_nothing() -> None:
    """What it returns is the same on either way, so the caller goes the same way after it."""
    frames, report = compiled(
        """
        shown = []

        def note(x):
            if x.sum() > 0:
                shown.append([x + 1])
                return
            shown.append([x])

        def f(x, more=True):
            note(x)
            if more:
                torch._dynamo.graph_break()
            return x * len(shown)
        """,
        [UP, DOWN, UP],
    )
    assert {mend.strategy for mend in report.mends} == {"speculate"}
    assert attempts(frames)[0] <= 2


def test_a_flip_is_not_tried_for_what_is_passed_anyway() -> None:
    """Whichever way the branch goes, the break follows."""
    frames, report = compiled(
        """
        def f(x):
            shown = [x]
            if x.sum() > 0:
                shown.append(x + 1)
            torch._dynamo.graph_break()
            return x * len(shown)
        """,
        [UP, UP, UP, DOWN, UP],
    )
    assert {mend.strategy for mend in report.mends} == {"speculate"}
    assert attempts(frames)[0] <= 2


def test_a_branch_in_an_arm_that_was_left_again() -> None:
    """The next compilation begins with the plan, without what was planned in the arm."""
    source = """
        def f(x):
            y = x * 2
            if y.sum() > 100:
                y[0] = 7
                if y[1] > 3:
                    y[1] = 5
                print(y.max().item())
            return y + 1
        """
    frames, report = compiled(source, [UP, torch.cat([UP, UP]), DOWN])
    assert {(mend.strategy, mend.site.lineno) for mend in report.mends} == {("speculate", 4)}
    assert len(frames) == 2
    assert attempts(frames)[1] == 0


@pytest.mark.skipif(facts.SETS_REQUIRES_GRAD, reason="Dynamo sets it, so nothing breaks there.")
def test_a_capture_is_not_to_blame_for_a_break_before_it() -> None:
    """It is given up neither in the frame of the break nor in the one that calls it."""
    source = """
        class Holder(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(2))

            def forward(self, x):
                y = (x * self.weight).detach()
                y.requires_grad = True
                z = (y * 2).sum()
                return z.detach() + x[x > 1.5].sum() + x[x > 0.5].sum(), y.requires_grad

        holder = Holder()

        def f(x):
            total, wanted = holder(x)
            return total * wanted
        """
    frames, report = compiled(source, [UP, DOWN])
    assert [decline.reason for decline in report.declines] == ["leaf-noticed"]
    assert {mend.strategy for mend in report.mends} == {"capture"}
    assert attempts(frames) == [3, 2, 1, 0]
