"""Graphs that give inputs other memory (`p.data = q`) are rolled back like those that write it."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, check

UP, DOWN = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), -torch.tensor([[1.0, 2.0], [3.0, 5.0]])

PROGRAM = """
weight, bias = nn.Parameter(torch.ones(1, 2)), nn.Parameter(torch.zeros(1, 2))
held, notes = torch.full((1, 2), 2.0), []
former = [weight.data, bias.data, held.data]

def f(x):
    w, b, h = weight, bias, held
    {before}
    if x.sum() > 0:
        {arm}
        notes.append(1)
    return {result}
"""


def program(arm: str, before: str = "", result: str = "x * w.exp() + b") -> str:
    return PROGRAM.format(arm=arm.replace("\n", "\n        "), before=before, result=result)


@pytest.mark.parametrize("calls", [[UP, DOWN, UP], [DOWN, UP, DOWN, DOWN]])
@pytest.mark.parametrize(
    "arm",
    [
        "w.data = x.mean(0, keepdim=True).detach()",
        "w.data = x.std(0, keepdim=True).log()\nb.data = x.mean(0, keepdim=True) * w.exp().detach()",
        "w.data = torch.cat([x, x + 1])[3:]",
        "w.data = torch.randn(1, 2)",
        "w.data = x.mean(0, keepdim=True)\nif w.sum() > 2: b.data = x.std(0, keepdim=True)",
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_that_are_given_values(backend: str, arm: str, calls: list[object]) -> None:
    check(program(arm), calls, mends=None, breaks=0, grad=True, backend=backend)


@pytest.mark.parametrize(
    ("arm", "before", "result"),
    [
        ("h.data = x.mean(0, keepdim=True)", "", "x * h + w"),
        ("h.data = h * 0.5 + x.mean(0, keepdim=True)", "y = h * 2", "x * h + y + w"),
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_buffers_may_be_read_before(backend: str, arm: str, before: str, result: str) -> None:
    calls = [UP, DOWN, UP, DOWN]
    check(program(arm, before, result), calls, mends=None, breaks=0, grad=True, backend=backend)


@pytest.mark.parametrize(
    ("arm", "before", "declines"),
    [
        ("w.data = (w * 2).detach()", "", "gradient-of-written"),
        ("w.data = x.mean(0, keepdim=True)", "y = x * w", "gradient-of-written"),
        ("w.data = h.exp()\nh.mul_(2)", "", "gradient-of-written"),
        ("v = torch.zeros(1, 2)\nv.copy_(h)\nw.data = v.exp()", "", "gradient-of-written"),
        ("w.data = x[:1].detach()", "", "speculation-has-effects"),
        ("w.data = x.mean(0, keepdim=True)\nb.data = w.data", "", "speculation-has-effects"),
        ("w.data = x.mean(0, keepdim=True)\nw.data = x.std(0, keepdim=True)", "", ""),
        ("v = x.mean(0, keepdim=True)\nw.data = v\nv.mul_(2)", "", "speculation-has-effects"),
        ("old = w.data\nw.data = x.mean(0, keepdim=True)\nold.mul_(2)", "", ""),
        ("h.data = x.mean(0, keepdim=True)", "h.mul_(2)", "speculation-has-effects"),
        ("h.data = x.mean(0, keepdim=True)", "h.view(-1).mul_(2)", "speculation-has-effects"),
    ],
)
def test_what_is_left(arm: str, before: str, declines: str) -> None:
    source = program(arm, before)
    declines = f"{declines or 'speculation-has-effects'}@8"
    check(source, [UP, DOWN, UP], mends="", declines=declines, breaks=None, grad=True)


@pytest.mark.parametrize(
    "change",
    [
        "weight.data = bias.data",
        "held = weight.data",
        "weight.data = torch.ones(2, 1).t()",
        "weight.requires_grad_(False)",
    ],
)
def test_memory_that_is_another_in_a_later_call(change: str) -> None:
    source = program("w.data = x.mean(0, keepdim=True)", "h.mul_(1.5)", "x * w.exp() + b + h")
    check(source, [UP, Change(change), DOWN, UP, DOWN], None, None, None, grad=True)


def test_a_parameter_of_another_shape() -> None:
    check(program("w.data = x.mean(0)"), [UP, DOWN, UP], None, None, None, grad=True)


def test_a_graph_that_raises_gives_back_the_memory() -> None:
    check(
        """
        held, notes = torch.ones(2), []

        def f(x, i):
            try:
                held.data = x * 2
                notes.append(1)
                if x.sum() > 1e9:
                    return None
                return held[i]
            except IndexError:
                notes.append(2)
                return held + 1
        """,
        [(UP[0], torch.tensor([0])), (UP[0], torch.tensor([9])), (DOWN[0], torch.tensor([1]))],
        mends=None,
        breaks=None,
    )


def test_a_selected_tensor_may_have_had_the_memory() -> None:
    check(
        """
        held = torch.ones(2)
        former = held.data

        def f(x):
            y = held.detach() if x.sum() > 0 else held.detach() + 1
            held.data = x * 2
            return y
        """,
        [UP[0], DOWN[0], UP[0]],
        mends=None,
        breaks=None,
    )
