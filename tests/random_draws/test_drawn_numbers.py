"""Numbers of which torch draws one of a few, and which the trace needs."""

from __future__ import annotations

import pytest
import torch

from tests.backends import EAGER_AND_AOT
from tests.oracle import agrees, check

A, B = torch.ones(2, 3), torch.arange(6.0).reshape(2, 3)
CALLS = [A, B, A, B, A]
HEAD = """
fs, kept = [torch.sin, torch.cos, torch.tanh], []
layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])

def f(x):
    """


@EAGER_AND_AOT
@pytest.mark.parametrize(
    "body",
    [
        "for _ in range(torch.randint(1, 4, ()).item()): x = x.sin()\n    return x + torch.rand(3)",
        "return fs[int(torch.randint(0, 3, (1,)))](x)",
        "return [fs[i] for i in torch.randperm(3).tolist()][0](x) * 2",
        "return {torch.randint(2, ()).item(): x * 2}",
        "return {float(torch.randint(2, (1,)) * 0.5): x * 2}",
        "y = torch.rand(3)\n    return fs[torch.randint(0, 3, ()).item()](x) + y",
        "n = (torch.rand(()) * 3).long().item()\n    return fs[n](x), n",
        "t = torch.empty(()).uniform_(0, 3).int()\n    return fs[t.item()](x), t",
    ],
)
def test_numbers(body: str, backend: str) -> None:
    outcome = check(HEAD + body, CALLS, None, fullgraph=True, grad=True, backend=backend)
    assert "draw@" in outcome.mends


@pytest.mark.parametrize(
    "body",
    [
        "return {torch.randint(200, ()).item(): x * 2}",
        "return {torch.rand(()).item(): x * 2}",
        "x = torch.dropout(x, 0.5, True)\n    return {torch.randint(2, ()).item(): x * 2}",
        "return {(torch.randint(2, ()) + x[0, 0].long()).item(): x * 2}",
        "t = torch.randint(2, ())\n    t += 1\n    return {t.item(): x * 2}, t",
        "t = torch.randint(2, ())\n    n = t.item()\n    t += 1\n    return {n: x * 2}, t",
        "kept.append(torch.randint(2, ()))\n    return {kept[-1].item(): x}, len(kept)",
        "n = torch.randint(2, ()).item()\n    return {n: x * 2}, torch.randint(2, ()).item()",
        "return [{torch.randint(2, ()).item(): x * 2} for _ in range(2)]",
        "if x.sum() > 7: return {torch.randint(2, ()).item(): x}\n    return {3: x * 2}",
        "with torch.no_grad(): n = torch.randint(2, ()).item()\n    return {n: x * 2}",
        "with torch.random.fork_rng(): n = torch.randint(2, ()).item()\n    return {n: x * 2}",
        "torch.manual_seed(3)\n    return {torch.randint(2, ()).item(): x * 2}",
        "n = torch.randint(3, ()).item()\n    return x / n if n else {n: x}",
        "n = torch.randint(3, ()).item()\n    if n == 1: raise ValueError(n)\n    return {n: x}",
        "print(n := torch.randint(2, ()).item())\n    return {n: x * 2}",
        "try:\n        return {torch.randint(2, (2,)).item(): x}\n    except RuntimeError: return x",
        "def g(y): return {torch.randint(2, ()).item(): y}\n    return list(map(g, [x, x + 1]))",
        "return {int(torch.rand(3).argmax()): x * 2}",
        "return {torch.nn.functional.dropout(torch.ones(()), 0.5).item(): x}",
        "n = torch.randint(2, ()).item()\n    torch._dynamo.graph_break()\n    return {n: x * 2}",
    ],
)
def test_other_uses(body: str) -> None:
    agrees(HEAD + body, CALLS)


def test_each_number_is_compiled_once() -> None:
    outcome = check(HEAD + "return {torch.randint(2, ()).item(): x * 2}", [A] * 9, "draw@5")
    assert outcome.graphs == 2


def test_too_many_together() -> None:
    """Each combination is a version of its own, so there are soon too many."""
    body = "return {tuple(torch.randint(5, ()).item() for _ in range(3)): x * 2}"
    agrees(HEAD + body, [A] * 20)
