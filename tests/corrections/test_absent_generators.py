"""A generator that is None is no argument, where a size is dynamic."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import agrees, load

SIZES = [torch.ones(3), torch.ones(5), torch.ones(7), torch.ones(3)]


@pytest.mark.parametrize(
    "drawn",
    [
        "torch.rand(x.shape, generator=None)",
        "torch.randn((2, len(x)), generator=None, dtype=torch.float64)",
        "torch.randn(len(x), generator=None)",
        "torch.randint(0, 5, size=x.shape, generator=None)",
        "torch.randint(len(x), (1,), generator=None)",
    ],
)
def test_one_graph_for_all_sizes(drawn: str) -> None:
    outcome = agrees(f"def f(x):\n    return x + {drawn}", SIZES)
    assert (outcome.declines, outcome.breaks, outcome.graphs) == ("", 0, 2)


def test_a_generator_of_the_programs_is_one() -> None:
    source = """
    own = torch.Generator().manual_seed(1)

    def f(x):
        return x + torch.rand(x.shape, generator=own)
    """
    agrees(source, SIZES)


def test_where_a_break_is_an_error() -> None:
    program: Any = load("def f(x):\n    return x + torch.rand(x.shape, generator=None)")
    torch._dynamo.reset()
    with gm.enabled():
        compiled = torch.compile(program.f, backend="eager", dynamic=True, fullgraph=True)
        assert compiled(torch.ones(3)).shape == (3,)
