"""What goes on after a graph break is the program's own code, with its variables and its stack."""

from __future__ import annotations

from types import CodeType

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo.frames.generated_code import resumed
from tests.oracle import agrees, check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])

BODIES = {
    "operands on the stack": """
        def f(x):
            y = x * 2
            if y.sum() > 0:
                y = y + 1
            return [y, torch._dynamo.graph_break() or y + 2, y * 3]
    """,
    "in a with block": """
        def f(x):
            with torch.no_grad():
                if x.sum() > 0:
                    x = x + 1
                torch._dynamo.graph_break()
                y = x * 2
                if y.sum() > 4:
                    y = y - 1
            return x, y
    """,
    "cells": """
        def f(x):
            n = 1
            if x.sum() > 0:
                x = x + n
            def add(v):
                nonlocal n
                n += v
                return n
            add(2)
            torch._dynamo.graph_break()
            if x.max() > 3:
                x = x * add(3)
            return x, n, add(1)
    """,
    "a speculation before and after": """
        def f(x):
            seen = [1] if x.sum() > 0 else []
            torch._dynamo.graph_break()
            seen += [2] if x.max() > 2 else [3, 4]
            return x * len(seen), seen
    """,
    "in a loop that is unrolled": """
        def f(x):
            for i in range(3):
                if x.sum() > i:
                    x = x - 1
            torch._dynamo.graph_break()
            for i in range(2):
                if x.sum() > i:
                    x = x + 2
            return x
    """,
    "several breaks": """
        def f(x):
            if x.sum() > 0:
                x = x + 1
            torch._dynamo.graph_break()
            if x.sum() > 5:
                x = x * 2
            torch._dynamo.graph_break()
            print("sum", x.sum())
            return x if x.min() > 0 else -x
    """,
    "a loop on a condition": """
        def f(x):
            n = 0
            torch._dynamo.graph_break()
            while n < 3 and x.sum() > 2:
                n = n + 1
                x = x - 1
            torch._dynamo.graph_break()
            return x, n
    """,
}


MENDS = {
    "operands on the stack": "where@3",
    "in a with block": "speculate@3 where@7",
    "cells": "speculate@3 speculate@11",
    "a speculation before and after": "speculate@2 speculate@4",
    "in a loop that is unrolled": "speculate@3 speculate@7",
    "several breaks": "speculate@2 speculate@5 defer@8 speculate@9",
    "a loop on a condition": "hoist@4",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_it_is_what_python_would_go_on_with(name: str) -> None:
    check(BODIES[name], [UP, DOWN, UP], mends=MENDS[name], declines=None, breaks=None)


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_it_is_with_gradients(name: str) -> None:
    calls = [x.clone().requires_grad_() for x in (UP, DOWN, UP)]
    found = check(BODIES[name], calls, mends=None, declines=None, breaks=None, grad=True)
    assert "break-requested" in found.declines


def test_no_more_breaks_than_stock_after_one() -> None:
    """A loop that cannot be mended after the break is the program's again."""
    check(
        """
        import random
        rng = random.Random(3)

        def f(x, k):
            inner = random.Random(7)
            if rng.random() < 0.5:
                x = x * inner.random()
            print("here")
            n = 0
            while n < 3 and x.sum() > k:
                n = n + 1
                x = x + x * rng.random()
            return x, k, n
        """,
        [(UP, 2), (UP, 2), (DOWN, 2)],
        mends="defer@8",
        declines=None,
        breaks=None,
    )


def test_the_code_is_the_functions_own() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x * 2
        torch._dynamo.graph_break()
        return x + 1

    kept: list[CodeType] = []
    handle = torch._dynamo.convert_frame.register_bytecode_hook(lambda code, _: kept.append(code))
    torch._dynamo.reset()
    try:
        with gm.enabled():
            assert torch.equal(torch.compile(f, backend="eager")(UP), f(UP))
    finally:
        handle.remove()
    assert [resumed(code) for code in kept[1:]] == [f.__code__]


@pytest.mark.parametrize("calls", [[UP, DOWN], [DOWN, UP]], ids=["up", "down"])
def test_an_arm_that_is_a_frame_of_its_own_returns_what_is_live_after_it(
    calls: list[torch.Tensor],
) -> None:
    """Python goes on behind the `with` block in rewritten code, where the arms are functions."""
    check(
        """
        def f(x):
            if x.sum() > 0:
                x = x * 2
            with torch._tensor_str.printoptions(precision=2):
                print(x / 3)
                x = x * 3
            if x.sum() > 0:
                x = x + 1
                if x[0] < x[1] and x.sum() > 2:
                    x.note = 1
            print('here')
            return x
        """,
        calls,
        mends=None,
        declines=None,
        breaks=None,
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "after",
    [
        "x + x[: z[0].item()].sum()",
        "x + x[z[0].item() :].sum()",
        "[x, torch._dynamo.graph_break(), x[: z[0].item()]]",
        "torch.stack([x, x])[:, : z[0].item()]",
    ],
)
def test_a_slice_after_breaks_in_a_with_block(after: str, backend: str) -> None:
    """Dynamo makes two instructions of it, and goes on before the first."""
    source = f"""
def f(x, z):
    z = z if z.sum() > 0 else None
    with torch.no_grad():
        torch._dynamo.graph_break()
        x.sum().item()
        rate = x.sum().item()
    x = x * rate
    x[: z[0].item()] = z[1].item()
    return {after}
"""
    found = agrees(source, [(x, torch.tensor([1, 2])) for x in (UP, DOWN, UP)], backend=backend)
    assert "internal-error" not in found.declines
