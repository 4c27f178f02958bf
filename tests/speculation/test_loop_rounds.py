"""Loops that only a tensor ends are unrolled; their conditions are computed before the graph."""

from __future__ import annotations

from textwrap import indent

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check

TIMES = torch.arange(4.0)


def _many(*values: float) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(TIMES, torch.tensor(value)) for value in values]


LISTED = """
def f(times, until):
    found, n = [], 0
    while n < len(times) and times[n] <= until:
        found.append(times[n] * 2)
        n += 1
    return found, until + n
"""


def test_rounds_that_make_a_list() -> None:
    """What no operator of loops carries: a list, and a number that indexes."""
    check(LISTED, _many(2.5, 9.0, -1.0), mends="hoist@3")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_rounds_with_gradients(backend: str) -> None:
    times, until = TIMES.clone().requires_grad_(), torch.tensor(2.5)
    check(LISTED, [(times, until)], mends="hoist@3", backend=backend, grad=True, orders=1)


LEFT = {
    "at its end": """
while True:
    x = x * 2
    n += 1
    said.append(n)
    if x.sum() > 50: break
""",
    "in the middle": """
while True:
    x = x * 2
    n += 1
    said.append(n)
    if x.sum() > 50: break
    x = x + 1
""",
    "by a return": """
while True:
    x = x * 2
    n += 1
    said.append(n)
    if x.sum() > 50: return x, str(n)
    x = x + 1
""",
    "by two ways": """
while True:
    x = x * 2
    if x.sum() > 50: break
    n += 1
    if x.max() > 9: break
""",
    "by a number": """
while True:
    x = x * 2
    n += 1
    if x.sum().item() > 50: break
    x = x + 1
""",
    "negated": """
while not x.sum() > 50:
    x = x * 2
    said.append(n)
    n += 1
""",
    "two loops": """
while x.sum() < 9:
    x = x * 2
    said.append(n)
while x.sum() < 50:
    x = x + 5
    said.append(n)
    n += 1
""",
    "in a for": """
for k in range(2):
    while x.sum() < 20 * (k + 1):
        x = x * 2
        said.append(n)
        n += 1
""",
    "in a try": """
try:
    while x.sum() < 50:
        x = x * 2
        said.append(n)
        n += 1
finally:
    n += 7
""",
    "with two conditions": """
while x.sum() < 50 and x.max() < 30:
    x = x * 2
    said.append(n)
    n += 1
""",
    "with an else": """
while x.sum() < 50:
    x = x * 2
    said.append(n)
    n += 1
else:
    n = -n
""",
}


def _function(body: str) -> str:
    return f"def f(x):\n    n, said = 0, []\n{indent(body, '    ')}    return x, said, str(n)\n"


@pytest.mark.parametrize("how", LEFT)
def test_ways_to_leave(how: str) -> None:
    outcome = check(_function(LEFT[how]), [torch.ones(3), torch.full((3,), 9.0)], mends=None)
    assert "hoist" in outcome.mends


NESTED = """
def f(x):
    n, said = 0, []
    while x.sum() < 50:
        y = x
        while y.max() < 10:
            y = y * 3
            said.append(n)
        x = x + y
        n += 1
    return x, said, n
"""


def test_loop_in_a_loop() -> None:
    check(NESTED, [torch.ones(3), torch.full((3,), 9.0)], mends=None)


def test_loop_in_a_function_that_is_called() -> None:
    source = """
    class Table:
        def __init__(self):
            self.steps = []

        def advance(self, x, until):
            while x.sum() < until:
                x = x * 2
                self.steps.append(len(self.steps))
            return x

    table = Table()

    def f(x):
        return table.advance(x, 20.0) + 1, len(table.steps)
    """
    check(source, [torch.ones(3), torch.full((3,), 9.0)], mends="hoist@6")


def test_loop_in_an_arm() -> None:
    """Eager Python may not ask for its condition: the branch around it is no longer predicated."""
    source = """
    def f(x):
        n, said = 0, []
        if x.min() > 0:
            x = x + 1
            while x.sum() < 50:
                x = x * 2
                said.append(n)
                n += 1
        return x, said, n
    """
    mends = "speculate@3 hoist@5"
    check(source, [torch.ones(3), torch.full((3,), 9.0), -torch.ones(3)], mends=None)
    assert check(source, [torch.ones(3)], mends=mends, orders=1)


@pytest.mark.parametrize(
    "step", ["x.mul_(2)", "x = x + torch.rand_like(x)", "x = x @ torch.full((3, 3), 0.5)"]
)
def test_rounds_that_are_not_known_before_the_graph(step: str) -> None:
    body = f"while x.sum() < 20:\n    {step}\n    said.append(n)\n    n += 1\n"
    source = f"import torch\n{_function(body)}"
    outcome = check(source, [torch.ones(3)], mends=None, declines=None, breaks=None, orders=1)
    assert "hoist" not in outcome.mends
    assert "@4" in outcome.declines


VARYING = """
def f(x):
    n, said = 0, []
    while x.sum() < 100:
        x = x + 1
        said.append(n)
        n += 1
    return x, said, n
"""


def test_rounds_that_differ_in_each_call_are_given_up() -> None:
    """Three versions, and then what stock makes of it."""
    calls = [torch.full((3,), float(value)) for value in (32, 31, 30, 29, 28, 27)]
    outcome = check(VARYING, calls, mends=None, declines=None, breaks=None, orders=1)
    assert "hoist-varies@3" in outcome.declines


def test_number_of_rounds_is_bounded() -> None:
    with gm.config.patch(speculation_limit=4):
        outcome = check(VARYING, [torch.ones(3)], mends=None, declines=None, breaks=None, orders=1)
    assert "loop-unbounded@3" in outcome.declines


@pytest.mark.parametrize(
    "setting",
    [
        {"strategies": ("speculate", "where")},
        {"rules_off": ("unrolled",)},
        {"hoist_op_limit": 3},
    ],
)
def test_what_is_not_to_be_computed_before_the_graph(setting: dict[str, object]) -> None:
    with gm.config.patch(**setting):
        outcome = check(VARYING, [torch.ones(3)], mends=None, declines=None, breaks=None, orders=1)
    assert "hoist" not in outcome.mends


def test_one_guard_for_all_rounds() -> None:
    """Rounds are not computed once for each of their conditions."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
        said: list[int] = []
        while x.sum() < 20:
            x = x + 1
            said.append(len(said))
        return x, said

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        assert f(torch.ones(3))[1] == compiled(torch.ones(3))[1] == [0, 1, 2, 3, 4, 5]
        with torch.profiler.profile() as seen:
            compiled(torch.ones(3))
    assert sum(e.count for e in seen.key_averages() if e.key == "aten::sum") == 7
