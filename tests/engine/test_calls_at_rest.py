"""What a call at rest costs, in counts: the operators of the graph, and the Python calls around it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest
import torch
from torch.fx import Node

import graphmend_bc as gm
from graphmend_bc import session
from tests.backends import TORCH
from tests.oracle import agrees, check, load

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
SIGNS = [torch.tensor([a, b, 1.0]) for a in (1.0, -1.0) for b in (1.0, -1.0)]


def graphs_of(source: str, calls: Sequence[tuple[Any, ...]]) -> list[list[str]]:
    """The names of what each graph calls, in the order of the program."""
    graphs = list[list[str]]()

    def backend(module: torch.fx.GraphModule, inputs: object) -> Any:
        graphs.append([_name(node) for node in module.graph.nodes if node.op.startswith("call")])
        return module.forward

    with session.mending_by(session.new_state(mends=True)):
        torch._dynamo.reset()
        compiled = torch.compile(load(source).f, backend=backend)
        for call in calls:
            compiled(*call)
    return graphs


def _name(node: Node) -> str:
    name: str = getattr(node.target, "__name__", str(node.target))
    return name


def python_calls(source: str, call: tuple[Any, ...]) -> int:
    """How many Python functions of this library a call enters that is at rest."""
    home, count = str(gm.__path__[0]), 0

    def listen(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(home)

    with session.mending_by(session.new_state(mends=True)):
        torch._dynamo.reset()
        compiled = torch.compile(load(source).f, backend="eager")
        for _ in range(4):
            compiled(*call)
        sys.setprofile(listen)
        try:
            compiled(*call)
        finally:
            sys.setprofile(None)
    return count


SPECULATED = """
def f(x):
    a = (torch.square if x[0] > 0 else torch.neg)(x)
    b = (torch.ceil if x[1] > 0 else torch.neg)(a)
    return b + 1
"""

ASKED_OF_INPUT = """
def f(x, flag):
    a = (torch.square if flag else torch.neg)(x)
    return a + 1
"""

READ_TWICE = """
values, total = [], 0.0

def f(x):
    global total
    loss = (x * x).mean()
    values.append(loss.item())
    total += loss.item()
    return x * 2
"""

DRAWN = """
def f(x):
    y = x + torch.rand(3)
    return torch.sin(y) if x.sum() > 0 and y.sum() < 99 else (y, 1)
"""


def test_conditions_on_the_cpu_are_outputs_without_operators_of_ours() -> None:
    (graph,) = graphs_of(SPECULATED, [(UP,)])
    assert graph == ["getitem", "gt", "square", "getitem", "gt", "ceil", "add"]


def test_what_is_read_is_an_output_without_operators_of_ours() -> None:
    assert graphs_of(READ_TWICE, [(UP,)]) == [["mul", "mean", "mul"]]


def test_a_guarded_condition_is_not_computed_again() -> None:
    source = """
    def f(x):
        m = x > 1
        v = x[m] if m.any() else None
        return x * 2 if v is None else x * v.mean()
    """
    assert graphs_of(source, [(UP,), (DOWN,), (UP,), (DOWN,)])[-1] == ["mul"]


def test_sizes_are_asserted_only_as_far_as_something_is_assumed() -> None:
    (graph,) = graphs_of("def f(x):\n    return x[x > 1].sum(), torch.nonzero(x).sum()", [(UP,)])
    assert "_assert_scalar.default" not in graph
    source = "def f(x):\n    v = x[x > 1]\n    return v.mean() if v.numel() else (x, 1)"
    (graph, *_) = graphs_of(source, [(UP,)])
    assert graph.count("_assert_scalar.default") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "call", "most"),
    [
        (SPECULATED, (UP,), 10),
        (READ_TWICE, (UP,), 14),
        (DRAWN, (UP,), 13),
    ],
    ids=["speculated", "read", "drawn"],
)
def test_python_calls_around_a_graph(source: str, call: tuple[Any, ...], most: int) -> None:
    assert 0 < python_calls(source, call) <= most


# What is not computed any more still counts as it was when it was asked.


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("change", ["logical_not_()", "fill_(True)", "fill_(False)"])
def test_condition_is_written_to_later(change: str, backend: str) -> None:
    check(
        f"""
        def f(x):
            c = x.sum() > 0
            y = (torch.square if c else torch.neg)(x)
            c.{change}
            return y, c
        """,
        [UP, DOWN, UP],
        mends="speculate@3",
        backend=backend,
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_condition_is_a_result_and_an_input(backend: str) -> None:
    check(
        """
        def f(x, flag):
            a = (torch.square if flag else torch.neg)(x)
            c = a.sum() > 1
            b = (torch.ceil if c else torch.neg)(a)
            return b, c, flag
        """,
        [(x, torch.tensor(flag)) for x in (UP, DOWN) for flag in (True, False)],
        mends=None,
        breaks=None,
        declines=None,
        backend=backend,
    )


@pytest.mark.parametrize("first", [UP, DOWN])
def test_condition_that_the_program_negates(first: torch.Tensor) -> None:
    check(
        """
        def f(x):
            d = torch.logical_not(x.sum() > 0)
            a = (torch.square if d else torch.neg)(x)
            b = (torch.ceil if torch.logical_not(d) else torch.neg)(a)
            return b, d
        """,
        [first, UP, DOWN, UP],
        mends=None,
        declines=None,
        breaks=None,
    )


def test_an_input_that_is_a_condition_is_written_to() -> None:
    agrees(
        """
        def f(x, flag):
            a = (torch.square if flag else torch.neg)(x)
            flag.logical_not_()
            b = (torch.ceil if flag else torch.neg)(a)
            return b
        """,
        [(UP, torch.tensor(flag)) for flag in (True, False, True)],
    )


@pytest.mark.parametrize("conditions", [2, 5, 40])
def test_each_check_is_told_apart(conditions: int) -> None:
    source = f"""
    def f(x):
        for i in range({conditions}):
            x = (torch.square if x[i] > 9 else torch.neg)(x)
        return x
    """
    x = torch.linspace(0, 1, conditions)
    for place in (0, conditions // 2, conditions - 1):
        other = x.clone()
        other[place] = 99.0
        agrees(source, [x, other, x])


def test_condition_of_another_type() -> None:
    calls = [torch.tensor([n, 1.0]) for n in (0.0, -2.0, float("nan"), 0.0)]
    check(
        """
        def f(x):
            y = (torch.square if x[0] else torch.neg)(x)
            n = x[0].nan_to_num().int()
            return (torch.ceil if n else torch.neg)(y)
        """,
        calls,
        mends=None,
        declines=None,
        breaks=None,
    )


@pytest.mark.slow
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_read_before_and_after_a_write(backend: str, grad: bool) -> None:
    """Weights that are powers of two: no order of the sum and no fused step rounds."""
    layer = "nn.Linear(3, 3)" if grad else "nn.Identity()"
    check(
        f"""
        seen = []
        layer = {layer}
        for number, weight in enumerate(layer.parameters()):
            nn.init.constant_(weight, 0.5 + number)

        def f(x):
            y = layer(x) * 2
            seen.append(y.sum().item())
            s = y.sum().detach()
            seen.append(s.item())
            s.add_(1)
            seen.append(s.item())
            s.mul_(3)
            return y, s, list(seen)
        """,
        [UP, DOWN, UP],
        mends=None,
        backend=backend,
        grad=grad,
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_read_of_an_input_that_is_written_to(backend: str) -> None:
    check(
        """
        seen = []

        def f(x):
            v = x[1]
            seen.append(v.item())
            seen.append(x[1].item())
            x.add_(1)
            seen.append(v.item())
            return v * 2, x
        """,
        [UP, DOWN],
        mends=None,
        backend=backend,
    )


def test_hooks_on_saved_tensors_are_told_of_a_guarded_condition() -> None:
    source = """
    w = torch.ones(3, requires_grad=True)

    def f(x):
        y = (x * w).exp().sum()
        return x * w if y > 4 else (x - 1).sin() * w
    """
    packed = list[torch.Size]()

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor.shape)
        return tensor

    def packs(function: Any) -> list[list[torch.Size]]:
        found = []
        for x in (UP, DOWN, UP, DOWN, UP):
            packed.clear()
            function(x)
            found.append(list(packed))
        return found

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        expected = packs(load(source).f)
        with session.mending_by(session.new_state(mends=True)):
            torch._dynamo.reset()
            assert packs(torch.compile(load(source).f, backend="eager"))[-2:] == expected[-2:]


def test_conditions_that_go_both_ways_with_checks_of_others() -> None:
    agrees(SPECULATED, [*SIGNS, *SIGNS[::-1], *SIGNS])


@pytest.mark.skipif(TORCH < (2, 13), reason="another release names the operators otherwise")
def test_a_selection_by_a_mask_that_is_empty() -> None:
    agrees(
        """
        def f(x):
            v = x[x > 1]
            n = torch.nonzero(x > 2)
            if v.numel() == 0:
                return x - 1
            return v.mean() * x + n.sum()
        """,
        [UP, DOWN, UP * 3, DOWN, UP],
    )
