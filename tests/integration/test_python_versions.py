"""Forms of code that some versions of CPython compile in a way of their own, compiled and mended."""

from __future__ import annotations

import dis
import sys

import pytest
import torch

from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -3.0])
CALLS = [UP, DOWN, UP]
DEFERRED = sys.version_info >= (3, 14)


@pytest.mark.parametrize("annotation", ["int", "'text'", "Local", "not_there"])
def test_annotations_of_inner_functions(annotation: str) -> None:
    if annotation == "not_there" and not DEFERRED:
        pytest.skip("This version looks annotations up as it makes the function.")
    source = f"""
    def f(x):
        Local = type(x)
        def g(y: {annotation}, *, z: float = 2.0) -> list[int]:
            return y * z
        if x.sum() > 0:
            x = g(x)
        return x - 1, Local.__name__
    """
    check(source, CALLS, mends="where@5")


def test_a_condition_in_with_blocks() -> None:
    source = """
    import torch
    class Count:
        def __init__(self): self.n = 0
        def __enter__(self):
            self.n += 1
            return self
        def __exit__(self, *error):
            self.n += 10
            return False
    def f(x):
        count = Count()
        with torch.no_grad(), count as c:
            if x.sum() > 0:
                y = x * 2
            else:
                y = x - 1
            c.n += 100
        return y, count.n
    """
    check(source, CALLS, mends="where@13")


def test_a_return_out_of_with_blocks() -> None:
    source = """
    import torch
    def f(x):
        with torch.no_grad():
            for i in range(3):
                if x.sum() > i:
                    return x * i
                x = x + 1
        return x
    """
    check(source, CALLS, mends="speculate@5")


def test_a_loop_whose_condition_is_made_in_it() -> None:
    source = """
    def f(x):
        done = False
        while not done:
            x = x + 1
            done = x.abs().sum() > 10
        return x
    """
    check(source, CALLS, mends="while_loop@3")


def test_all_and_any_of_a_generator_expression() -> None:
    source = """
    def f(x):
        if all(v.item() > 0 for v in x):
            return x * 2
        return x + 1
    """
    check(source, CALLS, mends="speculate@2")


@pytest.mark.skipif("BUILD_TEMPLATE" not in dis.opmap, reason="This version has no t-strings.")
def test_a_template_string_breaks_the_graph_as_in_stock() -> None:
    source = """
    def f(x):
        if x.sum() > 0:
            y = x * 2
        else:
            y = x + 2
        t = t"a{y}b{x!r:>10}"
        return y + 1, t.values, [i.expression for i in t.interpolations]
    """
    check(source, CALLS, mends="where@2", declines="unhandled-instruction@6", breaks=1)
