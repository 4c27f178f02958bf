"""Which way is taken for granted, and what changes that: what is seen, what traces, what happens."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.reporting.counts import many
from tests.oracle import check, load

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, 3.0])


@pytest.mark.parametrize(
    ("concrete_eval_limit", "misses", "turned"), [(512, 1, 0), (0, 2, 1)], ids=["looked", "blind"]
)
def test_speculations_follow_what_happens(
    concrete_eval_limit: int, misses: int, turned: int
) -> None:
    """The first speculation is right, or changed at once; a rare miss changes nothing."""

    def f(x: torch.Tensor) -> torch.Tensor:
        function = torch.sin if x.min() > 0 else torch.cos
        return function(x)

    with gm.enabled(), gm.config.patch(concrete_eval_limit=concrete_eval_limit):
        compiled = torch.compile(f, backend="eager")
        for x in (DOWN, DOWN, DOWN, UP, DOWN, DOWN):
            assert torch.equal(compiled(x), f(x))
        (speculation,) = gm.report().speculations
    assert (speculation.calls, speculation.failed_checks, speculation.respecialised) == (
        6,
        misses,
        turned,
    )
    told = f"the check failed in {misses} of 6 calls, re-specialised {many(turned, 'time')}"
    assert told in str(speculation)
    assert (speculation.rerun_ns > 0) is (misses > 0)
    assert ("s went into running the original code" in str(speculation)) is (misses > 0)


MANY = """
import json

def f(x):
    {first}
    kept = x[x > 0]
    if kept.numel() > 2:
        json.dumps({{"kept": kept.numel()}})
        return kept.sum() * 2
    {last}
    return kept.sum() + 1
"""


@pytest.mark.parametrize(
    ("first", "last", "mends"),
    [
        ("pass", "pass", "capture@5 speculate@6"),
        (
            "k = 2 if x.max() < 9 else 3; x = x * k; str(k)",
            "pass",
            "speculate@4 capture@5 speculate@6",
        ),
        ("pass", "x = x * 2 if x.min() < 9 else x + 1", "capture@5 speculate@6 where@9"),
    ],
    ids=["alone", "after another speculation", "before a branch"],
)
def test_way_that_does_not_trace_is_left(first: str, last: str, mends: str) -> None:
    """Nothing but the bytecode speaks for it: the other way is tried before capturing is given up."""
    with gm.config.patch(concrete_eval_limit=0):
        check(MANY.format(first=first, last=last), [*[DOWN] * 3, UP], mends, orders=1)


def test_a_size_that_is_not_0_is_at_least_1() -> None:
    """An operator that asks whether there are any elements is traced."""
    check(
        """
        def f(x):
            kept = x[x > 0]
            if len(kept) == 0:
                return x.new_zeros(0, 3)
            square, sides = torch.eye(2).expand(len(kept), 2, 2), kept[:, None, None].expand(-1, 2, 2)
            return torch.linalg.solve_triangular(square, sides, upper=False).sum()
        """,
        [(x,) for x in (UP, DOWN, -UP)],
        mends="capture@2 speculate@3",
    )


def test_what_an_attempt_could_not_trace_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """torch logs a traceback where an operator needs a size that is not known."""
    check(
        """
        def f(x):
            kept = x[x > 0]
            square, sides = torch.eye(2).expand(len(kept), 2, 2), kept[:, None, None].expand(-1, 2, 2)
            return torch.linalg.solve_triangular(square, sides, upper=False).sum()
        """,
        [(x,) for x in (UP, DOWN)],
        mends=None,
        declines=None,
        breaks=None,
    )
    assert "failed while" not in caplog.text


@pytest.mark.parametrize("bound", ["kept.numel() > 2", "3 <= len(kept)", "not kept.numel() < 3"])
def test_assertions_of_bounds_are_told_apart(bound: str) -> None:
    """torch words them its own way."""
    source = f"""
    def f(x):
        left, kept = x[x < 0], x[x > 0]
        k = 1
        if left.numel() == 7:
            k = 2
        if {bound}:
            k += 4
        return kept * k, k
    """
    few = torch.tensor([-1.0, 1.0, 1.0])
    function = load(source).f
    with gm.enabled():
        compiled = torch.compile(function, backend="eager")
        for x in (torch.ones(3), few):
            assert compiled(x)[1] == function(x)[1]
        failed = [s.site.lineno for s in gm.report().speculations if s.failed_checks]
    assert failed == [6]


TWO = """
def f(x):
    kept, left = x[x > 0], x[x < 0]
    k = 1
    if kept.numel() > 2:
        k = 2
    if left.numel() == 0:
        k += 4
    return kept * k, k
"""


def test_the_speculation_that_an_assertion_is_about_is_changed() -> None:
    found = {}
    exec(f"import torch\n{TWO}", found)
    with gm.enabled(), gm.config.patch(concrete_eval_limit=0):
        compiled = torch.compile(found["f"], backend="eager")
        for x in (torch.ones(3), torch.ones(3), -torch.ones(3)):
            assert compiled(x)[1] == found["f"](x)[1]
        turned = {
            speculation.site.lineno: speculation.respecialised
            for speculation in gm.report().speculations
        }
    assert turned == {6: 0, 8: 1}
