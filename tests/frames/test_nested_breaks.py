"""With `nested_graph_breaks` stock goes on inside of a callee that breaks, but never inside of code of ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.oracle import agrees

X = torch.tensor([1.0, 2.0, 3.0])


@pytest.fixture(autouse=True)
def nested() -> Iterator[None]:
    with torch._dynamo.config.patch(nested_graph_breaks=True):
        yield


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "loop",
    [
        "while x.shape[0] > 0: x, n = x[torch.where(x > n)[0]], n + 1",
        "while x[x > n].shape[0]: n = n + 1",
        "while len(x.nonzero()) > 0: x, n = x[x > n], n + 1",
        "if x[x > 1].shape[0] > 1 and x[x > 2].shape[0] > 0: n = 4",
        "assert x[x > 1].shape[0] > 0; n = 3",
    ],
)
def test_a_size_decides(loop: str, backend: str) -> None:
    source = f"""
def f(x):
    n = 0
    {loop}
    return n
"""
    agrees(source, [X, X + 1, X - 5, X], backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "broken",
    ["torch._dynamo.graph_break()", "x = x + len(repr(x))", "seen.append(id(x) > 0)", "x = g(x)"],
)
@pytest.mark.parametrize("around", ["{}", "for _ in range(2): {}", "x = h(x); {}"])
def test_an_arm_breaks(broken: str, around: str, backend: str) -> None:
    source = f"""
seen = []

def g(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 3

def h(x):
    if x.mean() > 1:
        x = x - 1
        {broken}
    return x

def f(x):
    if x.sum() > 0:
        x = x * 2
        {around.format(broken)}
        x = x + 1
    else:
        x = x - 1
    return x * 2
"""
    agrees(source, [X, -X, X], backend=backend)
