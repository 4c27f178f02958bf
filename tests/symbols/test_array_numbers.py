"""Arrays of NumPy's where torch wants a number: eager Python raises."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees, check

X = torch.arange(12.0)
CALLS = [(X, torch.tensor(2)), (X - 5, torch.tensor(4)), (X.flip(0), torch.tensor(1))]


def _raising(body: str) -> str:
    return f"""
        import numpy as np

        def f(x, n):
            array = n[None].numpy()
            y = x * 1
            {body}
            return y
        """


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "return x[array:]",
        "return x[:array]",
        "return x[::array]",
        "return x.numpy()[array:]",
        "return x.expand(2, 12)[0, array:]",
        "y[array:] = 3",
        "y[array[:1] :] = n",
        "return torch.zeros(array)",
        "return torch.zeros((array, 2))",
        "return torch.ones(2, array)",
        "return torch.eye(array)",
        "return torch.empty(size=array).shape",
        "return x.reshape(-1, array)",
        "return x.expand(array, 12)",
        "return x.repeat(array)",
        "return x.new_zeros(array)",
        "y[n : n + 4] = np.ones(4)",
        "y[2:4] = np.ones(2)",
    ],
)
@pytest.mark.parametrize("before", ["", "y = y[: n.item()]; "])
def test_an_array_is_no_number(body: str, before: str) -> None:
    agrees(_raising(before + body), CALLS)


@pytest.mark.parametrize(
    ("body", "mends"),
    [
        ("return x * array.item()", "capture@6"),
        ("return x * int(n.numpy())", "capture@6"),
        ("return x[x.numpy() > 3]", "capture@6"),
        ("return x[: int(array.sum())]", "capture@6"),
        ("y[n.item()] = int(array[0])", "capture@6"),
    ],
)
def test_numbers_of_arrays(body: str, mends: str) -> None:
    check(_raising(body), CALLS, mends=mends, declines=None)


def test_a_number_of_an_array_is_an_error_where_numpy_says_so() -> None:
    agrees(_raising("return int(array) + x"), CALLS)


def test_a_number_of_numpys_that_is_none_of_pythons_is_not_assigned() -> None:
    agrees(
        """
        def f(x, n):
            y = x[: n.item()] * 1
            try:
                y[0] = x.numpy()[0]
            except TypeError:
                return y + 1
            return y
        """,
        CALLS,
    )
