"""A number that an arm chooses: once its condition flips, the graph selects it."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from tests.oracle import check
from tests.settling import both


def signs(count: int, width: int) -> list[torch.Tensor]:
    """Vectors of random signs, the same in every run."""
    drawn = random.Random(3)
    return [torch.tensor([drawn.choice((-1.0, 1.0)) for _ in range(width)]) for _ in range(count)]


def chosen(arms: str, use: str) -> str:
    return f"TWO = 2\n\ndef f(x):\n    k = {arms}\n    y = x * 2\n    return {use}\n"


ARMS = {
    "integers": "2 if x[0] > 0 else 3",
    "negative": "-7 if x[0] > 0 else 5",
    "zero": "0 if x[0] > 0 else 4",
    "floats": "0.1 if x[0] > 0 else 3.7",
    "small floats": "1e-300 if x[0] > 0 else 1e300",
}
USES = [
    "y * k",
    "y + k",
    "y / k",
    "k - y",
    "y ** k",
    "y * (k * 3 + 1)",
    "y * -k",
    "y.double() * k, y.half() * k, y.int() * k",
    "torch.full((2,), k), torch.tensor(k)",
    "y.clamp(max=k)",
    "y + (k > 2)",
    "(y, k)",
    "(y, [k, k + 1])",
    "(y, str(k))",
    "y[0] * k",
    "y + torch.arange(4) * k",
]


@pytest.mark.parametrize("arms", ARMS.values(), ids=ARMS)
@pytest.mark.parametrize("use", USES)
def test_uses(arms: str, use: str) -> None:
    check(chosen(arms, use), signs(14, 4), mends=None, declines=None, breaks=None, orders=1)


@pytest.mark.parametrize("use", ["y * k", "y / k", "(y, [k, k + 1])", "y.repeat(k)", "y[:2] * -k"])
def test_selected(use: str) -> None:
    source = chosen("2 if x[0] > 0 else 3", use)
    check(source, signs(14, 4), mends="speculate@4 where@4", orders=1)


OTHERS = {
    "a type": chosen("1.5 if x[0] > 0 else 2", "y * k + 1 if isinstance(k, int) else y * k"),
    "an identity": chosen("2 if x[0] > 0 else 3", "y * k + 1 if k is TWO else y * k"),
    "another identity": chosen("2 if x[0] > 0 else 3", "y * k + 1 if k is not TWO else y * k"),
    "none at all": chosen("2 if x[0] > 0 else 3", "y * k if k is not None else y"),
    "booleans": chosen("True if x[0] > 0 else False", "(y + k, k)"),
    "an int and a float": chosen("1.5 if x[0] > 0 else 2", "(y * k, k)"),
    "signs of zero": chosen("0.0 if x[0] > 0 else -0.0", "(y * k, k)"),
    "infinity": chosen("float('inf') if x[0] > 0 else 1.0", "y * k"),
    "not a number": chosen("float('nan') if x[0] > 0 else 1.0", "y * k"),
    "large": chosen("2**40 if x[0] > 0 else 3", "(y * k, k)"),
    "texts": chosen("'a' if x[0] > 0 else 'b'", "y + len(k * 2)"),
    "none": chosen("None if x[0] > 0 else 2", "y if k is None else y * k"),
    "rounds": chosen("2 if x[0] > 0 else 3", "sum(y * i for i in range(k))"),
    "a size": chosen("2 if x[0] > 0 else 3", "y.repeat(k)"),
    "an index": chosen("2 if x[0] > 0 else 3", "(y[k], [1, 2, 3, 4][k])"),
    "a slice": chosen("2 if x[0] > 0 else 3", "y[:k]"),
    "a dimension": chosen("0 if x[0] > 0 else 1", "y.reshape(2, 2).sum(k)"),
    "a key": chosen("2 if x[0] > 0 else 3", "y * {2: 5, 3: 7}[k]"),
    "a condition": chosen("2 if x[0] > 0 else 3", "y * 2 if k == 2 else y * 5"),
    "both kinds": """
        def f(x):
            if x[0] > 0:
                k, y = 2, x * 3
            else:
                k, y = 3, x - 1
            return y * k
        """,
    "in a loop": """
        def f(x):
            y = x * 2
            for i in range(4):
                k = 2 if x[i] > 0 else 3
                y = y * k
            return y
        """,
    "an arm that may not run": """
        def f(x):
            if x[0] > 0:
                k = 2
                print("two")
            else:
                k = 3
            return x * k
        """,
    "a draw": """
        def f(x):
            k = 2 if torch.rand([]) < 0.5 else 3
            return x * k + torch.rand(4)
        """,
}


@pytest.mark.slow
@pytest.mark.parametrize("source", OTHERS.values(), ids=OTHERS)
def test_others(source: str) -> None:
    calls = signs(14, 4)
    check(source, calls, mends=None, declines=None, breaks=None, orders=1)


def test_gradients() -> None:
    source = chosen("2.5 if x[0] > 0 else 3.5", "(y * k).sin()")
    calls = [x.requires_grad_() for x in signs(12, 4)]
    check(source, calls, mends=None, declines=None, breaks=None, orders=1, grad=True)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_graph_for_all_values(count: int) -> None:
    lines = [f"    k{i} = {i + 2} if x[{i}] > 0 else {i + 7}\n" for i in range(count)]
    uses = " + ".join(f"x * k{i}" for i in range(count))
    source = f"def f(x):\n{''.join(lines)}    return {uses}\n"
    stock, mended = both(source, [(x,) for x in signs(80, 4)])
    assert mended.total.compilations == 2
    assert mended.total.compilations < stock.total.compilations
    assert (mended.rest.launches, stock.rest.launches) == (20, 20 * (count + 1))


def test_alternating() -> None:
    calls = itertools.islice(itertools.cycle([torch.ones(4), -torch.ones(4)]), 60)
    source = chosen("0.5 if x.sum() > 0 else 1.5", "y * k")
    stock, mended = both(source, [(x,) for x in calls])
    assert mended.total.compilations == 2
    assert (mended.rest.launches, stock.rest.launches) == (20, 40)
