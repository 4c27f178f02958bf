"""Subscripts of tensors by tensors of one whole number, which the graph reads when it runs."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.backends import EAGER_AND_AOT
from tests.oracle import check

X = torch.arange(24.0).reshape(2, 3, 4)
CALLS = [(X, torch.tensor(n)) for n in (1, 0, 2, 1)]


@EAGER_AND_AOT
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "key",
    [
        ":, n",
        "..., n, :1",
        "n // 2",
        "None, n // 2, ..., n",
        "n // 2, n, n",
        "n // 2, -1, 1:",
        "n.int() // 2, :, n.to(torch.int8)",
        "b, n",
        "b, :, n",
        "n // 2, b[:, None], b",
        "n // 2, x[0] > 4",
        "..., n, x[0, 0] > 1",
    ],
)
def test_reads(key: str, grad: bool, backend: str) -> None:
    """The index is computed in the graph; so is what it selects, as a view."""
    check(
        f"import torch\ndef f(x, n):\n    b = torch.arange(2)\n    n = n * 1\n    return x[{key}] * 2, n\n",
        CALLS,
        "capture@5",
        backend=backend,
        grad=grad,
        fullgraph=True,
    )


@EAGER_AND_AOT
@pytest.mark.parametrize(
    "write",
    [
        "y[:, n] = 5.0",
        "y[None, 0, n, 1:] += 5.0",
        "y[n // 2, y[0] > 4] = 2.0",
        "y[:, n].mul_(3)",
        "del n; y[:, x.argmax() // 9] = 1.0",
    ],
)
def test_writes(write: str, backend: str) -> None:
    check(
        f"def f(x, n):\n    n = n * 1\n    y = x * 2\n    {write}\n    return y\n",
        CALLS,
        "capture@4",
        backend=backend,
        fullgraph=True,
    )


@EAGER_AND_AOT
@pytest.mark.parametrize(
    ("write", "mends"),
    [
        ("y[:, n].add_(y[:, 1])", "hoist@4"),
        ("y[:, n].copy_(y[:, 2 - n])", "capture@4 hoist@4"),
        ("v = y[:, n]; v.add_(y[:, 1]); y.mul_(2)", "hoist@4"),
        ("y[:, n] = y[:, 0]", "hoist@4"),
    ],
)
def test_where_memory_may_overlap(write: str, mends: str, backend: str) -> None:
    """A number that is computed before the graph still selects a part of the same tensor."""
    check(
        f"def f(x, n):\n    n = n * 1\n    y = x * 2\n    {write}\n    return y\n",
        CALLS,
        mends,
        None,
        None,
        backend=backend,
    )


@EAGER_AND_AOT
def test_writes_to_an_input_and_a_view_that_goes_out(backend: str) -> None:
    check(
        "def f(x, n):\n    n = n * 1\n    view = x[:, n]\n    view.add_(1)\n    return view\n",
        [(X.clone(), torch.tensor(n)) for n in (1, 0, 2, 1)],
        "capture@3",
        None,
        None,
        backend=backend,
    )


@EAGER_AND_AOT
def test_indices_below_zero_and_out_of_bounds(backend: str) -> None:
    """The graph raises, and the original code runs: it counts from the end, or raises."""
    outcome = check(
        "def f(x, n):\n    n = n * 1\n    return x[:, n] * 2\n",
        [(X, torch.tensor(n)) for n in (1, -1, 7, -4, 2)],
        "capture@3",
        backend=backend,
    )
    assert outcome.graphs == 1


def test_every_index_finds_the_same_graph() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x[x.sum(1).argmax()] + 1

    with gm.enabled():
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for n in (0, 3, 2, 1, 0):
            x = torch.zeros(4, 3)
            x[n] = 1
            with torch.compiler.set_stance("default" if n == 0 else "fail_on_recompile"):
                assert torch.equal(compiled(x), f(x))


def test_masks_and_lists_are_not_numbers() -> None:
    check(
        "import torch\ndef f(x, n):\n    return x[(n * 1).to(torch.uint8)], [1, 2, 3][n * 1]\n",
        CALLS,
        "hoist@3",
        None,
        None,
    )
