"""Calls that lack an argument until the function has a default for it."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees

X = torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize("signature", ["x, *, by", "x, by", "x, by, *, plus=1.0"])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("__kwdefaults__", ("None", "{'by': 2.0, 'plus': 1.0}", "{'plus': 4.0}", "{'by': 3.0}")),
        ("__defaults__", ("None", "(2.0,)", "None", "(3.0,)")),
    ],
)
def test_defaults_that_come_and_go(signature: str, name: str, values: tuple[str, ...]) -> None:
    steps = "\n".join(
        f"            if number == {at}: scaled.{name} = {value}"
        for at, value in enumerate(values, 1)
    )
    agrees(
        f"""
        def scaled({signature}):
            return x * by

        def f(x):
            try:
                x = scaled(x)
            except TypeError:
                print('no default')
            print(x.sum())
            return x

        def change(number):
{steps}
        """,
        [X] * 6,
        orders=1,
    )
