"""`copy.deepcopy` of tensors."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees, check
from tests.surroundings import changing

X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
MENDED = "copy@copy.py"
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@BACKENDS
@pytest.mark.parametrize(
    "body",
    [
        "return copy.deepcopy(x)",
        "y = copy.deepcopy(x)\n    y.add_(1)\n    return x, y",
        "y = copy.deepcopy(x)\n    x.add_(1)\n    return x, y",
        "x.add_(1)\n    y = copy.deepcopy(x)\n    return y * 2",
        "y = x * 2\n    z = copy.deepcopy(y)\n    z.add_(1)\n    return y, z",
        "d = copy.deepcopy({'x': x * 2, 'n': [1, 2]})\n    d['n'].append(3)\n    return d",
        "a, b = copy.deepcopy([x, x])\n    a.add_(1)\n    return a, b",
        "y = x * 2\n    a, b = copy.deepcopy([y, [y]])\n    a.add_(1)\n    return a, b, y",
        "return copy.deepcopy(x), copy.deepcopy(x)",
        "with torch.no_grad():\n        y = copy.deepcopy(x)\n    return y + 1",
        "return x * 2 if x.sum() > 0 else copy.deepcopy(x) * 3",
    ],
)
def test_a_plain_tensor_is_cloned(body: str, backend: str) -> None:
    source = f"import copy\n\ndef f(x):\n    {body}\n"
    outcome = agrees(source, [X, -X, torch.ones(3, 3), X.long()], backend=backend)
    assert (outcome.breaks, outcome.declines) == (0, "")
    assert MENDED in outcome.mends


@BACKENDS
def test_a_transposed_tensor_is_all_of_its_memory(backend: str) -> None:
    source = "import copy\n\ndef f(x):\n    return copy.deepcopy((x * 2).t())\n"
    check(source, [X, -X], MENDED, backend=backend)


def test_it_is_one_graph() -> None:
    source = "import copy\n\ndef f(x):\n    return copy.deepcopy(x * 2)\n"
    check(source, [X, -X], MENDED, fullgraph=True)


@BACKENDS
@pytest.mark.parametrize(
    "body",
    [
        "return copy.deepcopy(x[0])",  # the copy has the memory of the whole
        "y = x * 2\n    return copy.deepcopy(y[1:])",
        "y = x * 2\n    a, b = copy.deepcopy([y, y.view(-1)])\n    a.add_(1)\n    return a, b",
        "a, b = copy.deepcopy([x, x.t()])\n    a.add_(1)\n    return a, b",
        "y = x.clone().requires_grad_()\n    return copy.deepcopy(y)",
        "y = x * 2\n    y.tag = 3\n    return copy.deepcopy(y).tag",
        "return copy.deepcopy(x.expand(2, 2, 2))",
        "return copy.deepcopy(x + 1j)",
        "return copy.deepcopy(W)",
        "return copy.deepcopy(LAYER)(x)",
        "return copy.deepcopy(W * x)",  # raises
    ],
)
def test_what_is_more_than_a_clone_is_left(body: str, backend: str) -> None:
    source = f"""
        import copy

        W = nn.Parameter(torch.ones(2, 2))
        LAYER = nn.Linear(2, 2)

        def f(x):
            {body.replace(chr(10), chr(10) + "        ")}
        """
    outcome = agrees(source, [X, -X], backend=backend)
    assert "copy@" not in outcome.mends


@pytest.mark.parametrize(
    "change",
    [
        "T.tag = [1]",
        "T.grad = torch.ones(2, 2)",
        "T = torch.arange(8.0)[:4].view(2, 2)",
        "T = torch.arange(8.0)[4:].view(2, 2)",
        "T = torch.ones(2, 1).expand(2, 2)",
        "T = torch.ones(2, 2, requires_grad=True)",
        "T = nn.Parameter(torch.ones(2, 2))",
    ],
)
def test_a_tensor_that_becomes_more_than_that(change: str) -> None:
    before = "import copy\nT = torch.ones(2, 2)"
    body = "y = copy.deepcopy(T)\nreturn y * x[0], y.grad, hasattr(y, 'tag'), y"
    changing(before, body, change)


def test_views_that_are_copied_together_in_a_later_call() -> None:
    source = "import copy\n\ndef f(x, y):\n    a, b = copy.deepcopy([x, y])\n    a.add_(1)\n    return a, b\n"
    shared = torch.arange(4.0)
    agrees(source, [(X, X + 1), (shared, shared.view(4)), (X, X)], orders=1)
