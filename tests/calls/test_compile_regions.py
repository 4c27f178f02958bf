"""Regions that are marked to be compiled once: those that break the graph are inlined."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo.exc import UncapturedHigherOrderOpError

import graphmend_bc as gm
from tests.oracle import agrees, check

X = torch.tensor([1.0, 2.0, 3.0])

LAYERS = """
import logging

log = logging.getLogger("test")

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        torch.nn.init.constant_(self.linear.weight, 0.5)
        torch.nn.init.zeros_(self.linear.bias)
        self.calls = 0

    @torch.compiler.nested_compile_region
    def forward(self, x, scale=2):
        x = self.linear(x)
        {body}

layers = [Layer() for _ in range(3)]

def f(x):
    for layer in layers:
        x = layer(x, scale=3)
    return x
"""

BODIES = {
    "branch": "return x * 2 if x.sum() > 0 else x - 1",
    "raise": """if x.max() > 100:
            raise ValueError(x.max())
        return x * scale""",
    "print": "print(x.sum()); return x + scale",
    "log below a level": 'log.debug("shape %s", x.shape); return x + 1',
    "value": "return x * x.max().item()",
    "number of an arm": "k = 1.5 if x[0] > 0 else 2; return x * k",
    "break that stays": "torch._dynamo.graph_break(); return x * 2",
    "break in an arm": """if x.sum() > 0:
            torch._dynamo.graph_break()
            x = x * 2
        return x - 1""",
    "loop": """for _ in range(3):
            if x.sum() > 20:
                break
            x = x * 2
        return x""",
    "state": "self.calls += 1; print(self.calls); return x",
    "nothing": "return x.sin() * scale",
}
CALLS = [X, -X, X * 2, -X]


@pytest.mark.slow
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_layers(body: str) -> None:
    agrees(LAYERS.format(body=body), CALLS)


@pytest.mark.parametrize("body", ["branch", "value", "print"])
def test_training(body: str) -> None:
    calls = [x.clone().requires_grad_() for x in CALLS]
    agrees(LAYERS.format(body=BODIES[body]), calls, grad=True, orders=1)


def test_what_is_reported() -> None:
    mends = "where@16 inline@22"
    check(LAYERS.format(body=BODIES["branch"]), CALLS, mends=mends)


def test_one_graph_of_a_function_that_must_be_one() -> None:
    agrees(LAYERS.format(body=BODIES["print"]), CALLS, fullgraph=True)


FUNCTIONS = {
    "function": """
        @torch.compiler.nested_compile_region
        def region(x):
            if x.sum() > 0:
                x = x * 2
            return x + 1

        def f(x):
            return region(x) + region(x - 1)
    """,
    "region in a region": """
        @torch.compiler.nested_compile_region
        def inner(x):
            print(x)
            return x * 2

        @torch.compiler.nested_compile_region
        def outer(x):
            return inner(x.sin()) + 1

        def f(x):
            return outer(x) + inner(x)
    """,
    "one of two": """
        @torch.compiler.nested_compile_region
        def whole(x):
            return x.sin() * 2

        @torch.compiler.nested_compile_region
        def broken(x):
            print(x.sum())
            return x.cos()

        def f(x):
            return whole(broken(whole(x)))
    """,
    "exception that is handled": """
        @torch.compiler.nested_compile_region
        def region(x):
            if x.sum() > 0:
                raise ValueError("up")
            return x + 1

        def f(x):
            try:
                return region(x)
            except ValueError as error:
                return x - 1, str(error)
    """,
    "exception whatever comes": """
        @torch.compiler.nested_compile_region
        def region(x, kind):
            if kind == "bad":
                raise KeyError(kind)
            return x + 1

        def f(x):
            try:
                return region(x, "bad")
            except KeyError as error:
                return x - 1, type(error).__name__
    """,
    "partial": """
        import functools

        def scaled(n, x):
            print(n, x)
            return x * n

        region = torch.compiler.nested_compile_region(functools.partial(scaled, 2))

        def f(x):
            return region(x) + region(x - 1)
    """,
    "object that is called": """
        class Scale:
            def __call__(self, x):
                if x.sum() > 0:
                    x = x * 2
                return x - 1

        region = torch.compiler.nested_compile_region(Scale())

        def f(x):
            return region(x) + region(x - 1)
    """,
    "list that is changed": """
        @torch.compiler.nested_compile_region
        def region(x, rows):
            rows.append(x.sum())
            print(len(rows))
            return x * 2

        def f(x):
            rows = []
            return region(region(x, rows), rows), rows
    """,
}


STATE = {
    "global": """
        k = 2

        @torch.compiler.nested_compile_region
        def g(x):
            return x * k

        def f(x):
            global k
            k = 2
            a = g(x)
            print(a.sum())
            k = 3
            return a + g(x)
    """,
    "attribute": """
        class Layer(torch.nn.Module):
            n = 0

            @torch.compiler.nested_compile_region
            def forward(self, x):
                return x * self.n

        layer = Layer()

        def f(x):
            layer.n = 0
            for i in range(3):
                layer.n += 1
                x = layer(x)
                print(x.sum())
            return x
    """,
    "mode of a module": """
        class Layer(torch.nn.Module):
            @torch.compiler.nested_compile_region
            def forward(self, x):
                return x * 2 if self.training else x

        layer = Layer()

        def f(x):
            layer.train()
            a = layer(x)
            print(a.max())
            layer.eval()
            return a, layer(x)
    """,
    "list": """
        rows = []

        @torch.compiler.nested_compile_region
        def g(x):
            return x * len(rows)

        def f(x):
            rows.clear()
            rows.append(1)
            a = g(x) * x.max().item()
            rows.append(2)
            return a, g(x)
    """,
    "two functions of one code": """
        def scaled(n):
            return lambda x: x * n

        def region(function):
            return torch.compiler.nested_compile_region(function)

        g, h = region(scaled(2)), region(scaled(3))

        def f(x):
            a = g(x)
            print(a.sum())
            return a, h(x)
    """,
    "a broken region between": """
        k = 2

        @torch.compiler.nested_compile_region
        def g(x):
            return x * k

        @torch.compiler.nested_compile_region
        def b(x):
            print(x)
            return x

        def f(x):
            global k
            k = 2
            a = b(g(x))
            k = 3
            return a + g(x)
    """,
}


@pytest.mark.parametrize("source", STATE.values(), ids=STATE)
def test_what_a_region_reads_has_changed_since_its_last_call(source: str) -> None:
    """Dynamo takes the graph that it has: stock breaks between the calls and is right."""
    agrees(source, CALLS)


def test_a_function_that_is_left_to_stock() -> None:
    source = """
        @torch.compiler.nested_compile_region
        def g(x, text):
            print(text)
            return x * len(text)

        def f(x, text):
            return g(x, text)
    """
    agrees(source, [(X, "a" * n) for n in range(1, 14)], orders=1)


@pytest.mark.parametrize("count", [5, 70])
def test_many_regions(count: int) -> None:
    define = """
@torch.compiler.nested_compile_region
def g{0}(x):
    if x.sum() > 0:
        x = x * 2
    return x - {0}
"""
    regions = "".join(define.format(number) for number in range(count))
    calls = "".join(f"    x = g{number}(x)\n" for number in range(count))
    agrees(f"{regions}\ndef f(x):\n{calls}    return x\n", [X, -X], orders=1)


@pytest.mark.parametrize("source", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions(source: str) -> None:
    agrees(source, CALLS)


def operators(*, strategies: tuple[str, ...] = gm.config.strategies) -> list[int]:
    """How many regions there are in each graph of a function with a whole and a broken one."""
    found: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        regions = torch.ops.higher_order.invoke_subgraph
        found.append(sum(node.target is regions for node in graph.graph.nodes))
        return graph

    @torch.compiler.nested_compile_region
    def whole(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    @torch.compiler.nested_compile_region
    def broken(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x - 1

    def f(x: torch.Tensor) -> torch.Tensor:
        return whole(broken(whole(whole(x))))

    with gm.enabled(), gm.config.patch(strategies=strategies):
        torch._dynamo.reset()
        assert torch.equal(torch.compile(f, backend=backend)(X), f(X))
    return found


def test_what_is_captured_stays_a_region_until_something_is_mended() -> None:
    assert operators() == [2]


def test_without_the_strategy_it_is_an_error_as_with_stock() -> None:
    others = tuple(name for name in gm.config.strategies if name != "inline")
    with pytest.raises(UncapturedHigherOrderOpError):
        operators(strategies=others)
