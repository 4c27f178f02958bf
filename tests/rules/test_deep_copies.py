"""`copy.deepcopy` of tensors."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees, check
from tests.releases import since
from tests.settling import both
from tests.surroundings import changing

X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
MENDED = "copy@copy.py"
STATE = """
import copy

T = torch.ones(2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.ones(2))

    def forward(self, x):
        y = copy.deepcopy(self.b)
        y.add_(1)
        return y * x[0]


model = Model()

"""
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])
traced = pytest.mark.skipif(
    not since(2, 13), reason="This torch traces nothing of `copy.deepcopy`: it breaks at the call."
)


@BACKENDS
@pytest.mark.parametrize(
    "body",
    [
        "y = x * 2\n    z = copy.deepcopy(y)\n    z.add_(1)\n    return y, z",
        "y = x * 2\n    z = copy.deepcopy(y)\n    y.add_(1)\n    return y, z",
        "y = x * 2\n    y.add_(1)\n    z = copy.deepcopy(y)\n    return y, z * 2",
        "d = copy.deepcopy({'x': x * 2, 'n': [1, 2]})\n    d['n'].append(3)\n    return d",
        "y = x * 2\n    a, b = copy.deepcopy([y, [y]])\n    a.add_(1)\n    return a, b, y",
        "y = x * 2\n    return copy.deepcopy(y), copy.deepcopy(y)",
        "with torch.no_grad():\n        y = copy.deepcopy(x * 2)\n    return y + 1",
        "y = x * 3\n    return x * 2 if x.sum() > 0 else copy.deepcopy(y) * 3",
        "T.add_(1)\n    return copy.deepcopy(T) * x[0], T",
        "return model(x)",
        "d = copy.deepcopy({'a': T, 'b': [T]})\n    d['a'].add_(1)\n    return d, T",
    ],
)
@traced
def test_a_plain_tensor_is_cloned(body: str, backend: str) -> None:
    source = f"{STATE}def f(x):\n    {body}\n"
    outcome = agrees(source, [X, -X, torch.ones(2, 2)], backend=backend)
    assert (outcome.breaks, outcome.declines) == (0, "")
    assert MENDED in outcome.mends


@BACKENDS
@traced
def test_a_transposed_tensor_is_all_of_its_memory(backend: str) -> None:
    source = "import copy\n\ndef f(x):\n    return copy.deepcopy((x * 2).t())\n"
    check(source, [X, -X], MENDED, backend=backend)


@traced
def test_it_is_one_graph() -> None:
    source = "import copy\n\ndef f(x):\n    return copy.deepcopy(x * 2)\n"
    check(source, [X, -X], MENDED, fullgraph=True)


@pytest.mark.slow
@BACKENDS
@pytest.mark.parametrize(
    "body",
    [
        "return copy.deepcopy(x)",  # Dynamo guards on its number
        "a, b = copy.deepcopy([x, x])\n    a.add_(1)\n    return a, b",
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


@traced
def test_it_is_compiled_once() -> None:
    source = "import copy\ndef f(x):\n    y = copy.deepcopy({'x': x * 2})\n    return y['x'] + 1"
    stock, mended = both(source, [(X + number,) for number in range(30)])
    assert (stock.total.graphs, stock.rest.launches) == (2, 40)
    assert (mended.total.graphs, mended.rest.launches, mended.total.attempts) == (1, 20, 1)


def test_an_input_is_not_compiled_for_each_tensor() -> None:
    source = "import copy\ndef f(x):\n    return copy.deepcopy(x) * 2"
    _, mended = both(source, [(X + number,) for number in range(30)])
    assert mended.total.graphs <= 2


@pytest.mark.slow
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
@traced
def test_a_tensor_that_becomes_more_than_that(change: str) -> None:
    before = "import copy\nT = torch.ones(2, 2)"
    body = "y = copy.deepcopy(T)\nreturn y * x[0], y.grad, hasattr(y, 'tag'), y"
    changing(before, body, change)


def test_views_that_are_copied_together_in_a_later_call() -> None:
    source = "import copy\n\ndef f(x, y):\n    a, b = copy.deepcopy([x, y])\n    a.add_(1)\n    return a, b\n"
    shared = torch.arange(4.0)
    agrees(source, [(X, X + 1), (shared, shared.view(4)), (X, X)], orders=1)
