"""Generators of Python's that are seeded with what torch draws."""

from __future__ import annotations

from random import Random

import pytest
import torch

from tests.backends import EAGER_AND_AOT
from tests.oracle import Change, agrees, check

A, B = torch.ones(2, 3), torch.arange(6.0).reshape(2, 3)
CALLS = [A, B, A, B, A]
HEAD = """
import random
from random import Random

fs, kept = [torch.sin, torch.cos, torch.tanh], []
layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])

def seed(size=10_000):
    return torch.randint(0, size, ()).item()

def chosen(generator):
    return generator.randrange(3)

def f(x):
    """


@EAGER_AND_AOT
@pytest.mark.parametrize(
    ("body", "mends"),
    [
        ("r = random.Random(seed())\n    return fs[r.randrange(0, 3)](x)", "capture@8 draw@14"),
        ("return fs[chosen(Random(seed()))](x) + torch.rand(3)", "capture@8 draw@14"),
        ("r = Random(seed() + 1)\n    return x[:, r.sample(range(3), 2)]", "capture@8 draw@14"),
        ("r = Random(seed())\n    return fs[r.choice([0, 2])](x), r.randint(1, 2)", None),
        (
            "n = seed()\n    r = Random(n)\n    return fs[r.randrange(3)](x) * n, [r.randrange(2)]",
            "capture@8 draw@15",
        ),
        (
            "torch.rand(2)\n    r = Random(seed())\n    return fs[r.randrange(3)](x), torch.rand(2)",
            None,
        ),
        ("r = Random(seed())\n    s = r\n    return fs[s.randrange(2)](x) + r.randrange(2)", None),
        (
            "last = Random(seed()).randrange(3)\n    for n, layer in enumerate(layers):\n"
            "        if n > last:\n            continue\n        x = layer(x)\n    return x",
            "capture@8 draw@14",
        ),
        (
            "r = Random(torch.randint(0, 99, (1,)).long().item())\n"
            "    return fs[r.randrange(3)](x) + torch.rand(2, 1)",
            "capture@14 draw@14",
        ),
    ],
)
def test_what_they_choose(body: str, mends: str | None, backend: str) -> None:
    outcome = check(HEAD + body, CALLS, mends, fullgraph=True, grad=True, backend=backend)
    assert "draw@" in outcome.mends


@pytest.mark.parametrize(
    "body",
    [
        "r = Random(seed())\n    return x * r.random()",
        "r = Random(seed())\n    return x * r.randint(1, 1000)",
        "r = Random(seed())\n    kept.append(r)\n    return x * r.randrange(2)",
        "r = Random(seed())\n    return x * r.randrange(2), r",
        "r = Random(seed())\n    r.shuffle(fs)\n    return fs[0](x)",
        "r = Random(seed())\n    return x * r.getstate()[0]",
        "r = Random(seed())\n    a = r.randrange(2)\n    r.seed(3)\n    return x * r.randrange(2) + a",
        "r = Random(seed())\n    a = r.randrange(2)\n    torch._dynamo.graph_break()\n    return x * a, r",
        "r = Random(seed())\n    return x * r.choice(fs)(x)",
        "r = Random(seed(x.shape[0] * 50))\n    return x * r.randrange(2)",
        "x = torch.dropout(x, 0.5, True)\n    r = Random(seed())\n    return fs[r.randrange(3)](x)",
        "r = Random(int(x.sum()))\n    return fs[r.randrange(3)](x)",
        "r = Random(seed() if x.sum() > 7 else 3)\n    return fs[r.randrange(3)](x)",
        "r = Random(seed(), version=2)\n    return x",
        "class Own(Random): pass\n    r = Own(seed())\n    return x * r.randrange(2)",
        "return x * sum(Random(seed()).randrange(2) for _ in range(2))",
        "try:\n        return x * Random(seed()).randrange(0)\n    except ValueError as e: return str(e)",
        "r = Random(seed())\n    g = r.randrange\n    return fs[g(3)](x) + g(2)",
        "with torch.inference_mode(): r = Random(seed())\n    return fs[r.randrange(3)](x)",
        "with torch.random.fork_rng():\n        r = Random(seed())\n    return fs[r.randrange(3)](x)",
        "torch.manual_seed(5)\n    r = Random(seed())\n    return fs[r.randrange(3)](x)",
        "y = torch.rand(2, 3)\n    y[0, 0] = x.sum()\n    r = Random(seed())\n    return y * r.randrange(2)",
        "t = torch.randint(0, 9, ())\n    t += 1\n    r = Random(t.item())\n    return x * r.randrange(3), t",
        "t = torch.randint(0, 9, ())\n    r = Random(t.item())\n    t += 1\n    return x * r.randrange(3), t",
        "print('before')\n    r = Random(seed())\n    print(r.randrange(2))\n    return x",
        "assert x.sum() > 7, 'small'\n    r = Random(seed())\n    return fs[r.randrange(3)](x)",
        "return torch.utils.checkpoint.checkpoint(lambda y: fs[Random(seed()).randrange(2)](y), x,"
        " use_reentrant=False)",
    ],
)
def test_other_uses(body: str) -> None:
    agrees(HEAD + body, CALLS)


@pytest.mark.parametrize("change", ["Random = lambda seed: random", "seed = lambda: 7"])
def test_changes_between_calls(change: str) -> None:
    body = "r = Random(seed())\n    return fs[r.randrange(3)](x)"
    agrees(HEAD + body, [A, B, Change(change), A, B, A])


def test_a_method_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Random, "randrange", lambda self, count: count - 1)
    agrees(HEAD + "return fs[Random(seed()).randrange(3)](x)", CALLS)


def test_each_choice_is_compiled_once() -> None:
    outcome = check(
        HEAD + "return fs[Random(seed()).randrange(2)](x)", [A] * 9, "capture@8 draw@14"
    )
    assert outcome.graphs == 2
