"""Slices of lists up to a number that is read from a tensor."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees

X = torch.tensor([1.0, 2.0, 3.0])
CALLS = [(X, torch.tensor(n)) for n in (1, 2, 0, 2, -1, 1)]

LISTED = """
layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
functions, notes = [torch.sin, torch.cos, torch.tanh], []
for p in layers.parameters():
    nn.init.constant_(p, 0.5)

def f(x, n):
    {body}
    return x
"""


@pytest.mark.parametrize(
    "body",
    [
        "for layer in layers[: n.item()]: x = layer(x)",
        "for function in functions[n.item() :]: x = function(x)",
        "for function in tuple(functions)[:: -1 if n.item() < 1 else 1]: x = function(x)",
        "for function in functions[: int(n)]: x = function(x)",
        "for k in range(3)[: n.item()]: x = x + k",
    ],
)
def test_what_a_number_chooses(body: str) -> None:
    """Each number has a version of its own."""
    outcome = agrees(LISTED.format(body=body), CALLS)
    assert (outcome.breaks, outcome.declines) == (0, "")


@pytest.mark.parametrize(
    "body",
    [
        "made = [1, 2, 3]; del made[: n.item()]; x = x * len(made)",
        "made = [1, 2, 3]; made[: n.item()] = []; x = x + sum(made)",
        "x = functions[: n.item()], slice(0, n.item())",
        "functions[: x.sum()]",
        "x = x.cos(), slice(0, x.sum().item())",
        "notes.append(functions[: n.item()])",
    ],
)
def test_as_eager(body: str) -> None:
    """Also where a bound is no whole number, which raises a TypeError."""
    agrees(LISTED.format(body=body), CALLS)
