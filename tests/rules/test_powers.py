"""The builtin `pow` of tensors."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, check
from tests.releases import STOCK_IS_WRONG, since

X = torch.tensor([1.0, -2.0, 3.0])
INTS = torch.tensor([1, 2, 0])

MENDED = "" if since(2, 14) else "polyfill@2"
"""Since torch 2.14 Dynamo traces it by itself."""


@pytest.mark.parametrize(
    "power",
    [
        "pow(x, 2)",
        "pow(2, x)",
        "pow(x.abs(), x)",
        "pow(base=x, exp=3)",
        "pow(x, exp=0.5)",
        "pow(x, 2, None)",
        "pow(x, x.shape[0])",
        "pow(x, -1)",  # raises for integers
    ],
)
def test_pow_is_the_operator(power: str) -> None:
    # Which these releases leave to Python, for an error that is none.
    breaks = (since(2, 14) and "None" in power) or (since(2, 15) and "=" in power)
    mends = "polyfill@2" if "=" in power and not since(2, 15) else MENDED
    calls = [X, -X, INTS, torch.ones(4)]
    check(f"def f(x):\n    return {power}", calls, mends, breaks=int(breaks), grad=True)


@pytest.mark.parametrize("power", ["pow(x, 2, 3)", "pow(x, 'a')", "pow(x)", "pow(x, 2, exp=2)"])
def test_what_is_no_plain_power_raises_as_in_eager_python(power: str) -> None:
    calls_wrongly = power in ("pow(x)", "pow(x, 2, exp=2)") and not since(2, 15)
    declines = "call-not-traced@2" if calls_wrongly or not since(2, 14) else ""
    check(f"def f(x):\n    return {power}", [X, -X], "", declines, breaks=1)


@pytest.mark.parametrize("method", ["__pow__", "__rpow__"])
def test_an_object_of_the_users_answers_itself(method: str) -> None:
    operands = "n, x" if method == "__pow__" else "x, n"
    source = f"""
        class Number:
            def {method}(self, other):
                return other + 1

        n = Number()

        def f(x):
            return pow({operands})
        """
    check(source, [X, -X], "")


@pytest.mark.skipif(since(2, 14), reason=STOCK_IS_WRONG)
def test_another_function_of_that_name() -> None:
    calls = [X, Change("pow = lambda a, b: a - b"), X, Change("del pow"), X]
    check("def f(x):\n    return pow(x, 2)", calls, "polyfill@2", orders=1)


@pytest.mark.skipif(since(2, 14), reason=STOCK_IS_WRONG)
@pytest.mark.skipif(not since(2, 13), reason="stock's break on torch 2.11 is seen by the mode")
def test_a_torch_function_mode_sees_the_call() -> None:
    source = """
        from torch.overrides import TorchFunctionMode

        seen = []

        class Watch(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                seen.append(function.__name__)
                return function(*args, **(kwargs or {}))

        def f(x):
            with Watch():
                return pow(x, 2)
        """
    check(source, [X, -X], "", "inside-transform@12", breaks=1)
