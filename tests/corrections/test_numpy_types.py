"""Functions of NumPy's of whose result torch's stand-in makes another type."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

UP, DOWN = torch.ones(2), -torch.ones(2)

PROGRAM = """
import numpy as np

def f(x):
    if x.sum() > 0:
        x = x * 2
    a, b, m = np.array([2, 3, 5]), np.array([3, 4, 7]), np.array([[2, 1], [1, 3]])
    t, u = np.array([True, False]), np.array([0.5, 2.5, 4.0])
    v = {expression}
    return x, v
"""

DIFFERENT = ("a / 3", "1 / a", "np.square(a)", "np.cov(m)", "np.modf(a)[0]", "np.exp(t)")
SAME = ("a // 2", "u / a", "np.sqrt(a * a)", "np.maximum(a, b)")


@pytest.mark.slow
@pytest.mark.parametrize("expression", DIFFERENT)
def test_the_graph_breaks_there(expression: str) -> None:
    outcome = check(
        PROGRAM.format(expression=expression), [UP, DOWN], mends=None, declines=None, breaks=None
    )
    assert outcome.breaks


@pytest.mark.parametrize("expression", SAME)
def test_what_has_the_same_type_is_in_the_graph(expression: str) -> None:
    check(PROGRAM.format(expression=expression), [UP, DOWN], mends=None, declines=None, orders=1)
