"""Loops in the graph: what the operator carries, and where its condition is computed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check

UP, SMALL = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.1, 0.0, -0.2])
BOTH = [UP, SMALL, -UP]


def _carried(source: str) -> int:
    """How many values the loop of a program carries."""
    found: list[int] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        for node in module.graph.nodes:
            if node.target is torch.ops.higher_order.while_loop:
                found.append(len(node.args[2]))
        return module.forward

    scope: dict[str, Any] = {"torch": torch}
    exec(compile(source, "<loop>", "exec"), scope)
    torch.compiler.reset()
    with gm.enabled(), torch.no_grad():
        torch.compile(scope["f"], backend=backend)(UP)
    (carried,) = found
    return carried


LOOPS = {
    "own values": (
        """
def f(x):
    y = x * 1
    while y.abs().sum() > 1:
        y = y * 0.5
    return y
""",
        1,
    ),
    "a counter": (
        """
def f(x):
    y, n = x * 1, 0
    while y.abs().sum() > 1:
        y = y * 0.5
        n += 1
    return y, n
""",
        2,
    ),
    "a bound of its own": (
        """
def f(x):
    y, bound = x * 1, x.mean().abs() * 0.1
    while y.abs().sum() > bound:
        y = y * 0.5
    return y
""",
        1,
    ),
    "two tensors": (
        """
def f(x):
    a, b = x + 1, x * 3
    while (a - b).abs().max() > 0.5:
        a, b = (a + b) / 2, b * 0.5
    return a, b
""",
        2,
    ),
    "the difference to the last round": (
        """
def f(x):
    old, y = x * 3, x * 1
    while (y - old).abs().max() > 0.1:
        old, y = y, y * 0.5
    return y
""",
        2,
    ),
    "what a round computes besides": (
        """
def f(x):
    y, c = x * 1, x.abs().sum() > 1
    while c:
        z = y * 0.5
        c = (z + y).sum() > 1
        y = z
    return y
""",
        2,
    ),
    "another test before the loop": (
        """
def f(x):
    y, c = x * 1, x.abs().sum() > 2
    while c:
        y = y * 0.5
        c = y.abs().sum() > 1
    return y
""",
        2,
    ),
    "zeros with signs": (
        """
def f(x):
    y = x * 1
    c = (1 / (y.abs().sum() * 0.0)).abs() > 1
    while c:
        y = y * 0.5
        c = 1 / (y.abs().sum() * -0.0) > 1
    return y
""",
        2,
    ),
    "a write in between": (
        """
def f(x):
    y = x * 1
    c = y.abs().sum() > 1
    y.mul_(0.0001)
    while c:
        y = y * 0.5
        c = y.abs().sum() > 1
    return y
""",
        2,
    ),
    "another mode in between": (
        """
def f(x):
    y = x * 1
    with torch.autocast("cpu", torch.bfloat16):
        c = (y.abs().reshape(1, 3) @ y.abs().reshape(3, 1) * 1.003).sum() > 1.002
    while c:
        y = y * 0.5
        c = (y.abs().reshape(1, 3) @ y.abs().reshape(3, 1) * 1.003).sum() > 1.002
    return y
""",
        2,
    ),
    "the flag is returned": (
        """
def f(x):
    y = x * 1
    c = y.abs().sum() > 1
    while c:
        y = y * 0.5
        c = y.abs().sum() > 1
    return y, c
""",
        3,
    ),
}


def _mended(source: str) -> str:
    (line,) = (n for n, text in enumerate(source.strip().splitlines(), 1) if "while" in text)
    return f"while_loop@{line}"


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    source, carried = LOOPS[name]
    check(source, BOTH, mends=_mended(source))
    assert _carried(source) == carried


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("own values", "two tensors")),
        "a write in between",
    ],
)
def test_loops_under_inductor(name: str) -> None:
    source, _ = LOOPS[name]
    check(source, BOTH, mends=_mended(source), backend="inductor", orders=1)


@pytest.mark.slow
@pytest.mark.parametrize("value", ["net.count + 1", "net.count + y.sum()", "y"])
@pytest.mark.parametrize("touched", ["net(x)", "pass", "net.count += 1"])
def test_round_that_sets_an_attribute_of_a_module(value: str, touched: str) -> None:
    source = f"""
class Net(torch.nn.Module):
    count = 0

    def forward(self, x):
        return x + self.count

net = Net()

def f(x):
    {touched}
    y = x.sum().clamp(0, 4)
    while y < 3:
        y = y + 1
        net.count = {value}
    return y, net.count
"""
    check(source, BOTH, mends="hoist@12")


@pytest.mark.parametrize("value", ["net.count + 1", "y.sum()"])
def test_arm_that_is_run_if_taken_and_sets_an_attribute_of_a_module(value: str) -> None:
    source = f"""
class Net(torch.nn.Module):
    count = 0

net = Net()
wide = torch.ones(3, 3)

def f(x):
    net.seen = x
    y = x
    if x.sum() > 0:
        y = x @ wide @ wide
        net.count = {value}
    return y, net.count
"""
    with gm.config.patch(strategies=("where", "cond")):
        check(source, BOTH, mends="", declines="arm-changes-state@10", breaks=None)


OBJECTS = {
    "a global dict": ("store.pop('w', None)", "store['v'] = x"),
    "a dict that is given": ("d.get('v')", "d['v'] = x"),
    "a list that is given": ("len(items)", "items.append(x)"),
    "an object": ("holder.value", "holder.value = x"),
    "a module": ("net.value", "net.value = x"),
    "a module's list": ("len(net.items)", "net.items.append(x)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize(
    ("before", "inside"),
    [
        ("while n < 3:", "n = n + 1"),
        ("if n < 3:", "n = n @ n if n.dim() else (n.reshape(1, 1) @ n.reshape(1, 1)).sum()"),
    ],
    ids=["loop", "branch"],
)
def test_objects_first_met_inside_the_operator(name: str, before: str, inside: str) -> None:
    read, write = OBJECTS[name]
    source = f"""
class Holder:
    value = 1

class Net(torch.nn.Module):
    value = 2

    def __init__(self):
        super().__init__()
        self.items = []

store, holder, net, wide = {{}}, Holder(), Net(), torch.ones(3, 3)
seen = []

def f(x, d, items):
    n = x.sum().clamp(0, 4)
    {before}
        {inside}
        {read}
    {write}
    return n, d.get("v"), items, store.get("v"), holder.value, net.value, net.items
"""
    strategies = ("where", "cond", "while_loop")
    with gm.config.patch(strategies=strategies):
        check(
            source,
            [(x, {}, []) for x in BOTH],
            mends="while_loop@16" if before.startswith("while") else "cond@16",
            declines=None,
            breaks=None,
        )
