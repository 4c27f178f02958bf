"""Generators of torch's that the program has: what they draw is drawn before the graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import agrees, check, load

X = torch.tensor([1.0, -2.0, 3.0])

BEFORE = """
own = torch.Generator().manual_seed(3)
other = own

def change(call):
    if call == 2:
        own.manual_seed(9)
"""


@pytest.mark.parametrize(
    "drawn",
    [
        "torch.rand(3, generator=own)",
        "torch.rand((3,), generator=own, dtype=torch.float64)",
        "torch.randn(2, 3, generator=own, device='cpu', layout=torch.strided)",
        "torch.randn(x.shape, generator=own)",
        "torch.randint(5, (3,), generator=own)",
        "torch.randint(low=2, high=5, size=[1], generator=own)",
        "torch.randperm(3, generator=own)",
        "torch.rand([], generator=own) + torch.rand(3, generator=other) * 2",
        "torch.rand(3, generator=own) * torch.rand(3) + torch.randn([], generator=own)",
    ],
)
def test_one_graph(drawn: str) -> None:
    source = f"{BEFORE}\ndef f(x):\n    return F.dropout(x, 0.25) + {drawn}"
    check(source, [X, -X, X, X * 2], mends="draw@9", fullgraph=True)


def test_one_that_is_given() -> None:
    source = """
    def f(x, generator=None):
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        return x + noise * 2, noise

    def made(seed):
        return torch.Generator().manual_seed(seed)
    """
    program: Any = load(source)
    torch._dynamo.reset()
    with gm.enabled():
        compiled = torch.compile(program.f, backend="eager")
        for seed in (1, 1, 2, 3):
            ours, eager = program.made(seed), program.made(seed)
            for _ in range(2):
                found, wanted = compiled(X, ours), program.f(X, eager)
                assert all(map(torch.equal, found, wanted))
            assert torch.equal(ours.get_state(), eager.get_state())
        assert [mend.strategy for mend in gm.report().mends] == ["draw"]


def test_sizes_that_vary() -> None:
    source = f"""{BEFORE}
def f(x):
    noise = torch.randn((2, x.shape[0]), generator=own)
    return x + noise, noise.shape[1] * 2
"""
    outcome = agrees(source, [torch.ones(n) for n in (3, 5, 7, 3, 9)])
    assert (outcome.declines, outcome.breaks, outcome.graphs) == ("", 0, 2)


def test_seeds() -> None:
    source = f"""{BEFORE}
def f(x):
    first = torch.rand(3, generator=own)
    own.manual_seed(5)
    return x + first + torch.rand(3, generator=other.manual_seed(7)) * torch.rand(3, generator=own)
"""
    check(source, [X, -X, X, X], mends="draw@9 draw@10 draw@11", fullgraph=True)


def test_conditions_on_what_is_drawn() -> None:
    source = f"""{BEFORE}
def f(x):
    if torch.rand([], generator=own) < 0.5:
        x = F.dropout(torch.cat([x, x])[:3], 0.5)
    return x + torch.rand(3, generator=own)
"""
    check(source, [X] * 8, mends=None, declines=None, breaks=None)


def test_what_is_drawn_is_written_to() -> None:
    source = f"""{BEFORE}
def f(x):
    noise = torch.rand(3, generator=own)
    noise[0] = 1
    noise.add_(x).clamp_(min=0)
    return noise, noise.is_leaf
"""
    check(source, [X, -X, X], mends="draw@9", fullgraph=True)


def test_a_graph_that_cannot_be_used_has_drawn_nothing() -> None:
    source = f"""{BEFORE}
def f(x, at):
    noise = torch.rand(3, generator=own)
    if x.sum() > 0:
        noise = torch.cat([noise, noise])[:3]
    return (x * noise)[at] + torch.rand([], generator=own)
"""
    inside, outside = torch.tensor([0, 2]), torch.tensor([1, 7])
    calls = [(X, inside), (-X, inside), (X, outside), (-X, inside), (X, inside)]
    check(source, calls, mends=None, declines=None)


@pytest.mark.parametrize(
    "drawn",
    [
        "torch.rand(3, generator=torch.default_generator)",
        "torch.rand(3, generator=torch.Generator().manual_seed(1))",
        "torch.rand(3, generator=own, requires_grad=True)",
        "torch.rand(3, generator=own, out=torch.empty(3))",
        "torch.rand(int(x.sum().abs()), generator=own).sum()",
        "torch.rand(x.shape[0] + 1, generator=own)[1:]",
        "torch.rand(-1, generator=own)",
    ],
)
def test_other_calls(drawn: str) -> None:
    source = f"{BEFORE}\ndef f(x):\n    return x + {drawn}"
    calls = [torch.ones(n) for n in (3, 3, 4, 5)]
    check(source, calls, mends=None, declines=None, breaks=None)


def test_it_is_not_drawn_in_every_call() -> None:
    source = f"""{BEFORE}
def f(x):
    if x.sum() > 0:
        return x + torch.rand(3, generator=own)
    return x * torch.rand(3, generator=own)
"""
    check(source, [X, -X, X, -X], mends=None, declines=None, breaks=None)
