"""Conditions on what NumPy and Python draw: guards draw ahead, and no check fails."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from graphmend_bc.dynamo.random_draws import foreseen_draws
from tests.oracle import agrees
from tests.releases import STOCK_IS_WRONG, since
from tests.settling import live

X = torch.tensor([1.0, -2.0, 3.0])

BEFORE = """
import random
import numpy as np

own = random.Random(3)

"""

ARMS = (
    BEFORE
    + """
def f(x):
    if {condition}:
        return torch.cat([x, x])
    return x + 1
"""
)

HALF = {
    "of Python": "random.random() < 0.5",
    "of Python, between two": "random.uniform(2, 4) > 3",
    "of the program's own": "own.random() < 0.5",
    "of NumPy": "np.random.rand() < 0.5",
    "of NumPy, between two": "np.random.uniform(-1, 1) < 0",
    "negated": "not random.random() < 0.5",
    "the other way round": "0.5 >= np.random.random()",
    "after another draw": "[random.random(), random.random()][1] < 0.5",
    "after another generator": "[own.random(), np.random.rand()][1] < 0.5",
}


@pytest.mark.slow
@pytest.mark.parametrize("condition", HALF.values(), ids=HALF.keys())
def test_each_value_has_a_version(condition: str) -> None:
    outcome = agrees(ARMS.format(condition=condition), [X] * 8)
    assert (outcome.declines, outcome.breaks, outcome.graphs) == ("", 0, 2)
    assert "hoist@8" in outcome.mends


def test_what_was_written_before_has_no_part_in_it() -> None:
    """No input shares memory with what is drawn: nothing is guarded, and a version is kept."""
    source = ARMS.format(condition=HALF["of Python"]).replace("    if", "    x.add_(1)\n    if")
    outcome = agrees(source, [X] * 8)
    assert (outcome.declines, outcome.breaks, outcome.graphs) == ("", 0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("condition", HALF.values(), ids=HALF.keys())
def test_no_check_fails(condition: str) -> None:
    source = ARMS.format(condition=condition)
    calls = [(X + number,) for number in range(30)]

    def seed(number: int) -> None:
        random.seed(number)
        __import__("numpy").random.seed(number)

    # The program's own generator goes on from call to call, in both.
    mended = live(source, calls, 20, mends=True, before_call=seed)
    assert (mended.total.failed, mended.total.graphs, mended.total.launches) == (0, 2, 30)
    assert mended.rest.attempts == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        # What an arm draws is drawn in the versions of that arm alone.
        "if random.random() < 0.5:\n        return x * random.random()\n    return x + 1",
        "a = random.random()\n    if a < 0.5:\n        x = x * a\n    return x, random.random(), a",
        "if random.random() < 0.5:\n        x = torch.cat([x, x])\n"
        "    if np.random.rand() < 0.5:\n        x = torch.cat([x, x])\n    return x",
        pytest.param(
            "k = x.shape[0]\n    if random.random() < 0.5:\n        del k\n"
            "    return x, 'k' in locals()",
            marks=pytest.mark.skipif(not since(2, 13), reason=STOCK_IS_WRONG),
        ),
        "if np.random.rand(2).sum() < 1:\n        x = torch.cat([x, x])\n    return x",
        "if random.gauss(0, 1) < 0:\n        x = torch.cat([x, x])\n    return x",
        "if random.random() < 0.5:\n        raise ValueError('no')\n    return x",
        "with torch.no_grad():\n        if random.random() < 0.5:\n"
        "            x = torch.cat([x, x])\n    return x",
        "x.add_(1)\n    if random.random() < 0.5:\n        x.mul_(2)\n    return torch.cat([x, x])",
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_stands_around_the_condition(body: str, backend: str) -> None:
    agrees(f"{BEFORE}def f(x):\n    {body}\n", [X] * 8, backend=backend)


@pytest.mark.slow
def test_more_conditions_than_versions_are_left_to_stock() -> None:
    body = "".join(
        f"    if random.random() < 0.5:\n        x = torch.cat([x, x * {i}])\n" for i in range(4)
    )
    outcome = agrees(f"{BEFORE}def f(x):\n{body}    return x\n", [X] * 6)
    assert outcome.breaks > 0
    assert "speculate" not in outcome.mends


@pytest.mark.slow
def test_a_bound_that_varies() -> None:
    source = f"""{BEFORE}
def f(x, p):
    if random.random() < p:
        return torch.cat([x, x])
    return x + 1
"""
    agrees(source, [(X, p) for p in (0.5, 0.5, 0.4, 0.6, 0.5, 0.1, 0.9, 0.5)])


def test_gradients_are_those_of_the_way_that_is_taken() -> None:
    source = f"""{BEFORE}
a, b = nn.Linear(3, 3), nn.Linear(3, 3)

def f(x):
    return a(x) if random.random() < 0.5 else b(x)
"""
    agrees(source, [X] * 8, grad=True)


def test_another_thread_draws_between_guard_and_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition is asked again of what was drawn."""
    copied = foreseen_draws.copy_of

    def others(generator: Any) -> Any:
        copy = copied(generator)
        copy.random()  # as if somebody had drawn in the meantime
        return copy

    monkeypatch.setattr(foreseen_draws, "copy_of", others)
    agrees(ARMS.format(condition="random.random() < 0.5"), [X] * 12)


def test_one_graph_is_guarded_once_its_checks_fail() -> None:
    source = ARMS.format(condition="random.random() < 0.5")
    calls = [(X + number,) for number in range(40)]
    mended = live(source, calls, 20, mends=True, before_call=random.seed, fullgraph=True)
    assert mended.rest.failed == 0


def test_a_frame_that_may_not_be_compiled_again_is_left() -> None:
    with torch._dynamo.config.patch(error_on_recompile=True):
        outcome = agrees(ARMS.format(condition="random.random() < 0.5"), [X], orders=1)
    assert outcome.mends == ""
