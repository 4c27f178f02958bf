"""`torch.arange` between tensors: the graph reads their numbers when it runs."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.oracle import agrees, check

VALUES = [torch.tensor(v) for v in ([1.0, 4.0, 2.0], [0.0, 7.0, 1.0], [2.0, 2.0, 2.0])]

RANGES = {
    "between two": "torch.arange(a, b) + 1",
    "by keywords": "torch.arange(start=a, end=b, step=2) * 2",
    "from a number": "torch.arange(0, b).sum()",
    "to a number": "torch.arange(a, 10).sum()",
    "of another type": "torch.arange(a, b, dtype=torch.float64) / 2",
    "of small numbers": "torch.arange(a.to(torch.int8), b.to(torch.int16))",
    "backwards": "torch.arange(b, a, -1)",
    "beside its bounds": "(torch.arange(a, b), a, slice(a, b))",
    "and its length": "torch.arange(a, b).expand(2, -1).clone()",
}


@pytest.mark.parametrize("result", RANGES.values(), ids=RANGES.keys())
@pytest.mark.parametrize("calls", itertools.permutations(VALUES))
def test_range(result: str, calls: tuple[torch.Tensor, ...]) -> None:
    program = f"""
        def f(x):
            a, b = x.min().int(), x.max().int()
            return {result}
        """
    check(program, calls=list(calls), mends="capture@3")


STRANGE = {
    "with a step that is a tensor": "torch.arange(a, b, x[2].long().clamp(min=1))",
    "of floats": "torch.arange(x.min(), x.max())",
    "of truth values": "torch.arange(x.min() > 0, b)",
    "that raises": "torch.arange(b, a)",
    "with a step of nothing": "torch.arange(a, b, a * 0)",
    "of a tensor of one dimension": "torch.arange(a.reshape(1), b)",
    "with a length that decides": "1 if len(torch.arange(a, b)) > 3 else 2",
    "that is written to before": "(a.add_(1), torch.arange(a, b + 1))",
    "of an argument that is written to": "(x.add_(1), torch.arange(a, x.max().int()), x)",
}


@pytest.mark.slow
@pytest.mark.parametrize("result", STRANGE.values(), ids=STRANGE.keys())
def test_range_that_is_strange(result: str) -> None:
    program = f"""
        def f(x):
            a, b = x.min().int(), x.max().int()
            return {result}
        """
    agrees(program, list(VALUES))
    agrees(program, list(reversed(VALUES)))
