"""Dropout that drops nothing gives its argument itself, with every backend."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

CALLS = [torch.ones(2, 3, 4, 4), -torch.ones(2, 3, 4, 4)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        "F.dropout(x, 0.5, False)",
        "F.dropout(x, p=0.0)",
        "F.alpha_dropout(x)",
        "F.feature_alpha_dropout(x, 0.5, training=False)",
        "F.dropout2d(x, 0.5, False)",
        "torch.dropout(x, 0.5, False)",
        "torch.feature_dropout(x, 0.0, True)",
        "nn.Dropout(0.1).eval()(x)",
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_result_is_the_argument(call: str, backend: str) -> None:
    check(
        f"""
        gate = nn.Dropout(0.1).eval()
        def f(x):
            y = {call.replace("nn.Dropout(0.1).eval()", "gate")}
            if y.sum() > 0:
                y = y * 2
            return y, y is x
        """,
        calls=CALLS,
        mends="speculate@4",
        backend=backend,
    )


def test_a_write_to_the_result_reaches_the_argument() -> None:
    check(
        """
        def f(x):
            y = F.dropout(x, 0.5, False)
            print(x.sum())
            y.add_(1)
            return x.sum()
        """,
        calls=CALLS,
        mends="defer@3",
    )


def test_dropout_that_drops_still_draws() -> None:
    check(
        """
        def f(x):
            y = F.dropout(x, 0.5)
            print(x.sum())
            return y
        """,
        calls=CALLS,
        mends="defer@3",
    )
