"""Conditions on random numbers: speculated on where the way that is assumed is nearly always taken."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo.random_draws.chances import Interval, interval_of
from graphmend_bc.engine.outcomes.failure_policy import FailedCheck, OnFailure, after_failure
from tests.oracle import agrees, check

X = torch.tensor([1.0, -2.0, 3.0])
ARMS = """
import random
import numpy as np

own = random.Random(3)

def f(x):
    if {condition}:
        return torch.cat([x, x])
    return x + 1
"""

RARE = {
    "of torch": "torch.rand([]) < 0.1",
    "of torch, above": "torch.rand(()) > 0.9",
    "of torch, the other way round": "0.1 >= torch.rand(1)",
    "of torch, as a number": "torch.rand(1).item() < 0.1",
    "of torch, negated": "not torch.rand([]) >= 0.1",
    "of torch, nearly always": "torch.rand([]) < 0.95",
    "of Python": "random.random() < 0.1",
    "of Python, between two": "random.uniform(2, 4) > 3.8",
    "of the program's own": "own.random() < 0.1",
    "of NumPy": "np.random.rand() < 0.1",
    "of NumPy, between two": "np.random.uniform(-1, 1) < -0.9",
    "of NumPy, without bounds": "np.random.uniform() < 0.1",
}


@pytest.mark.parametrize("condition", RARE.values(), ids=RARE.keys())
def test_what_is_rare_is_speculated_on(condition: str) -> None:
    check(ARMS.format(condition=condition), [X] * 6, mends=None, declines="", breaks=0, orders=1)


OFTEN = {name: text for name, text in RARE.items() if "nearly" not in name}


@pytest.mark.slow
@pytest.mark.parametrize("condition", OFTEN.values(), ids=OFTEN.keys())
def test_what_is_not_rare_is_drawn_ahead(condition: str) -> None:
    for rare, often in (("3.8", "3"), ("-0.9", "0"), ("0.9", "0.5"), ("0.1", "0.5")):
        condition = condition.replace(rare, often)
    outcome = agrees(ARMS.format(condition=condition), [X] * 6)
    assert ("speculate" in outcome.mends, outcome.declines) == (False, "")


TRIED = {
    "drawn otherwise": "torch.randn([]) < {}",
    "computed with": "torch.rand([]) * 2 - 1 < {}",
    "compared with another": "torch.rand([]) - 0.5 < {} * torch.rand([])",
    "one of several": "torch.rand(3)[1] - 0.5 < {}",
    "the largest": "torch.rand(3).max() - 0.8 < {}",
    "filled in": "torch.empty([]).uniform_() - 0.5 < {}",
    "one of two": "torch.bernoulli(torch.tensor(0.5 + {})) == 0",
    "as a number": "torch.randn(1).item() < {}",
}


@pytest.mark.slow
@pytest.mark.parametrize("condition", TRIED.values(), ids=TRIED.keys())
def test_what_rests_on_draws_alone_is_tried_out(condition: str) -> None:
    outcome = agrees(ARMS.format(condition=condition.format(0)), [X] * 6)
    ahead = "bernoulli" not in condition  # it draws with what a tensor says
    assert outcome.declines == ("" if ahead else "decided-by-chance@7")
    rare = condition.format(0.45 if "bernoulli" in condition else -2)
    check(ARMS.format(condition=rare), [X] * 6, mends=None, declines="", breaks=0, orders=1)


UNKNOWN = {
    "compared with a tensor": "torch.rand([]) < x.sum()",
    "drawn by keywords": "np.random.uniform(low=0, high=1) < 0.5",
    "drawn with a size": "np.random.rand(1)[0] < 0.5",
    "tested for equality": "torch.rand([]) == 0.5",
    "rounded": "torch.rand([]).to(torch.int64) < 0.1",
}


@pytest.mark.slow
@pytest.mark.parametrize("condition", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_is_not_known_is_learnt(condition: str) -> None:
    outcome = agrees(ARMS.format(condition=condition), [X] * 6)
    assert "decided-by-chance" not in outcome.declines


def test_chances_of_one_graph_add_up() -> None:
    source = """
    def f(x):
        for i in range({rounds}):
            if torch.rand([]) < 0.1:
                return x, i
            x = x + 1
        return x, None
    """
    check(source.format(rounds=2), [X] * 3, mends="speculate@3", declines="", breaks=0, orders=1)
    # The third is drawn ahead; the fifth is left to stock, and what follows is another graph.
    outcome = agrees(source.format(rounds=4), [X] * 3)
    assert (outcome.mends, outcome.breaks) == ("hoist@3", 0)
    outcome = agrees(source.format(rounds=6), [X] * 3)
    assert outcome.breaks > 0


def test_function_that_must_be_one_graph() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        if torch.rand([]) < 0.5:
            return x * 2, 1
        return x + 1, 2

    torch.manual_seed(0)
    expected = [f(X)[1] for _ in range(8)]
    torch._dynamo.reset()
    torch.manual_seed(0)
    with gm.enabled():
        step = torch.compile(f, backend="eager", fullgraph=True)
        assert [step(X)[1] for _ in range(8)] == expected
        assert gm.report().declines == []
    assert set(expected) == {1, 2}


@pytest.mark.parametrize(
    ("name", "values", "interval"),
    [
        ("rand", (), (0.0, 1.0)),
        ("rand", (3,), None),
        ("uniform", (), (0.0, 1.0)),
        ("uniform", (2, 5), (2.0, 5.0)),
        ("uniform", (5, 2), None),
        ("uniform", (None, 2), None),
        ("uniform", (0, 1, 3), None),
        ("gauss", (0, 1), None),
    ],
)
def test_interval(name: str, values: tuple[object, ...], interval: Interval | None) -> None:
    assert interval_of(name, values) == interval


def test_what_fails_more_often_than_foreseen_is_given_up() -> None:
    rare = FailedCheck(calls=20, failed=5, streak=1, hits=15, flips=0, changes=0, by_chance=True)
    often = replace(rare, failed=15, streak=9, hits=5)
    assert after_failure(rare, 8, 2) is OnFailure.KEEP
    assert after_failure(often, 8, 2) is not OnFailure.KEEP
