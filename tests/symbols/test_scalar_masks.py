"""Subscripts by a truth value that a tensor without a dimension holds."""

from __future__ import annotations

import pytest
import torch

from tests.backends import EAGER_AND_AOT
from tests.oracle import agrees, check

X = torch.arange(1.0, 7.0).reshape(2, 3)
YES, NO = torch.tensor(True), torch.tensor(False)
CALLS = [(X, YES), (X, NO), (-X, YES)]


@EAGER_AND_AOT
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "return x[c]",
        "return x[c] * 2, x[~c].sum()",
        "return x.sum()[c]",
        "y = x * 2; y[c] = 1.0; return y",
        "y = x * 2; y[c] = x[c] + 1; return y",
        "y = x * 2; y[c] = x; return y",
        "y = x.sum(); y[c] = 0.0; return y",
        "y = x.sum(); y[c] = x[0, 0]; return y",
        "y = x * 2; y[c] += 3; return y",
        "y = x * 2; z = y[0]; y[c & ~(c & False)] = x[c & ~(c & False)]; return y, z",
    ],
)
def test_whatever_it_holds(statement: str, grad: bool, backend: str) -> None:
    source = f"def f(x, c):\n    c = c & True\n    {statement}"
    outcome = check(source, CALLS, None, breaks=0, grad=grad, backend=backend, fullgraph=True)
    assert set(outcome.mends.split()) == {"capture@3"}


def test_a_sum_of_squares_as_metrics_compute_it() -> None:
    source = """
        def f(rss, tss):
            zeros = torch.zeros_like(rss)
            has_rss, has_tss = ~torch.isclose(rss, zeros), ~torch.isclose(tss, zeros)
            both = has_rss & has_tss
            scores = torch.ones_like(rss)
            scores[both] = 1 - rss[both] / tss[both]
            scores[has_rss & ~has_tss] = 0.0
            return scores.mean()
        """
    numbers = [torch.tensor(3.0), torch.tensor(0.0)]
    calls = [(one, other) for one in numbers for other in numbers]
    assert agrees(source, calls, grad=True, fullgraph=True).breaks == 0


def test_the_mask_changes_between_two_uses() -> None:
    source = """
        def f(x, c):
            c = c & True
            one = x[c]
            c.logical_not_()
            return one.sum(), x[c].sum()
        """
    assert agrees(source, CALLS, fullgraph=True).breaks == 0


def test_values_of_another_shape_raise_as_in_eager_python() -> None:
    source = """
        def f(x, c):
            c = c & True
            y = x * 2
            y[c] = torch.ones(2)
            return y
        """
    agrees(source, CALLS)


def test_what_is_written_is_an_input() -> None:
    agrees("def f(x, c):\n    c = c & True\n    x[c] = 1.0\n    return x.sum()", CALLS)


@pytest.mark.parametrize("value", ["y[0]", "y", "y.flip(0)", "y[:1].expand(2, 3)", "y.view(6)[0]"])
def test_a_tensor_is_set_to_a_part_of_itself(value: str) -> None:
    """Most of these raise."""
    agrees(
        f"def f(x, c):\n    c = c & True\n    y = x * 2\n    y[c] = {value}\n    return y", CALLS
    )
