"""`requires_grad_()` of a tensor that stays, where its first call could tell: it runs as it is."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.oracle import check, load
from tests.settling import graphs_by_call

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("zero", torch.tensor(0.0))
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        loss = self.zero
        {set}
        return (x * self.weight).sum() + loss * 2

net = Net()

def f(x):
    before = net.zero.requires_grad
    y = net(x)
    return y, before, net.zero.requires_grad, net.weight.requires_grad, net.zero.grad
"""
CALLS = [torch.ones(3), torch.full((3,), 2.0), -torch.ones(3)]


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize(
    "line",
    [
        "loss.requires_grad_()",
        "loss.requires_grad_(True)",
        "self.weight.requires_grad_(False)",
        "if self.training: loss.requires_grad_()",
    ],
)
def test_flags_that_stay(line: str, *, grad: bool) -> None:
    calls = (
        CALLS
        if grad and "False" not in line
        else [c.requires_grad_() for c in map(torch.clone, CALLS)]
    )
    check(NET.replace("{set}", line), calls, declines=None, grad=grad)


def test_flag_in_what_raises_before() -> None:
    """It is not set where eager Python does not come by it."""
    source = NET.replace("{set}", "assert x.sum() > 0\n        loss.requires_grad_()")
    source += "\nasked = f\n\ndef f(x):\n    try:\n        return asked(x)\n    except AssertionError:\n        return net.zero.requires_grad\n"
    check(source, [-torch.ones(3), *CALLS], mends=None, declines=None, breaks=None)


def test_flag_that_changes_in_every_call_is_left_to_stock() -> None:
    line = "self.weight.requires_grad_(not self.weight.requires_grad)"
    calls = [c.requires_grad_() for c in map(torch.clone, CALLS * 2)]
    declines = "call-not-traced@12"
    check(NET.replace("{set}", line), calls, declines=declines, breaks=None, grad=True, orders=1)


def test_the_first_call_compiles_nothing_and_the_second_one_graph() -> None:
    program: Any = load(NET.replace("{set}", "loss.requires_grad_()"))
    assert graphs_by_call(program.f, CALLS) == [0, 1, 1]
