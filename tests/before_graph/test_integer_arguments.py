"""Tensors where torch's functions want whole numbers: the number alone is computed before the graph."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from graphmend_bc.dynamo.before_graph.integer_arguments import takes_integer
from tests.backends import EAGER_AND_AOT
from tests.oracle import check
from tests.releases import since

X = torch.arange(24.0).reshape(2, 3, 4)
CALLS = [(X, torch.tensor(n)) for n in (2, 1, 2, 1)]


@EAGER_AND_AOT
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        "torch.linspace(0, 1, n) + x[..., :1]",
        "x.narrow(2, n, 1)",
        "torch.roll(x, n, 1)",
        "x.roll(shifts=n, dims=n - n)",
        "x.chunk(n, 2)[0]",
        "x.split(n, 2)[0]",
        "x.unfold(2, n, 1)",
        "torch.cat([x, x], n - n)",
        "x.sum(n - n)",
        "torch.triu(x, n)",
        "x.tril(diagonal=n)",
        "x.diagonal(n)",
        "x.select(1, n - 1)",
        "F.adaptive_avg_pool1d(x, n)",
        "F.one_hot(x.detach().long()[0, 0], n + 30) * x.sum()",
        "F.interpolate(x[None], (n, n + 1), mode='nearest')",
        "F.pad(x, (0, n))",
        "x.reshape(4, 3 - n + n, 2)",
    ],
)
def test_calls(call: str, grad: bool, backend: str) -> None:
    """Gradients go through the call, which stays in the graph."""
    at = "functional.py" if "pad" in call else "5"  # `pad` is Python of torch's
    check(
        f"import torch\nimport torch.nn.functional as F\ndef f(x, n):\n    n = n * 1\n    return {call} * 2\n",
        CALLS,
        f"capture@{at}" if "interpolate" in call else f"hoist@{at}",
        backend=backend,
        grad=grad,
        fullgraph=True,
    )


@EAGER_AND_AOT
@pytest.mark.parametrize("view", ["x.narrow(2, n, 1)", "x.select(1, n - 1)", "x.diagonal(n)"])
def test_writes_to_what_is_selected(view: str, backend: str) -> None:
    check(
        f"def f(x, n):\n    n = n * 1\n    x = x * 2\n    {view}.mul_(3)\n    return x\n",
        CALLS,
        "hoist@4",
        backend=backend,
        fullgraph=True,
    )


@pytest.mark.parametrize("call", ["x.sum(n.float())", "x.roll(n + 0.5, 0)", "x.select(n, 9)"])
def test_arguments_that_eager_refuses(call: str) -> None:
    mends = "" if since(2, 13) or "select" not in call else "hoist@3"
    check(f"def f(x, n):\n    n = n * 1\n    return {call}\n", CALLS, mends, None, None)


def test_what_takes_a_number() -> None:
    takes = [
        (torch.roll, 1),
        ("roll", "shifts"),
        (torch.cat, 1),
        (torch.linspace, 2),
        (F.interpolate, "size"),
        (F.one_hot, 1),
        ("split", 1),
        ("narrow", 2),
        ("expand", 3),
        ("reshape", 2),
    ]
    assert all(takes_integer(*given) for given in takes)
    takes_not = [
        (torch.add, 1),
        (torch.linspace, 1),
        ("mul", 1),
        ("clamp", "max"),
        ("index_select", 2),
        ("narrow", 5),
        ("add", 4),
        ("repeat_interleave", 1),
        ("__getitem__", 1),
        (torch.where, 1),
        (F.linear, 1),
        (F.gumbel_softmax, 1),
        (None, 0),
    ]
    assert not any(takes_integer(*given) for given in takes_not)
