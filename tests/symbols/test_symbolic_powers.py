"""`math.pow` with a count that changes in every call: three compilations, and Python's numbers."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees
from tests.settling import live

CALLS = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, 2.0, -3.0])] * 6

COUNTED = """
    import math

    class Counted:
        count = 0

    counted = Counted()
    state = counted.__dict__

    def f(x):
        counted.count += 1
        n = counted.count
        if x.sum() > 0:
            x = x * 2
        {use}
"""

STAYS = [
    "return x * math.pow(0.9, n)",
    "return x / (1.0 - math.pow(0.9, n)), 1.0 - math.pow(0.9, n)",
    "return x * (0.1 * math.sqrt(1.0 - math.pow(0.999, n)) / (1.0 - math.pow(0.9, n)))",
    "return x.add(x, alpha=-0.01 * math.pow(n, -0.8))",
    "return x * min(0.99, 1.0 - math.pow(n, -0.8))",
    "return x * max(0.5, math.pow(0.9, n))",
    "return x * math.pow(0.9, n + 1000000)",
    "return x * math.pow(1, n) * math.pow(0.5, n * 2)",
    "v = math.pow(0.9, n); return x * (1.0 - v + v), 1.0 - v + v",
    "return x + math.pow(True, n)",
]

ASKS = [
    "v = math.pow(0.9, n); return x + (1.0 - v + v < 1.0)",
    "v = math.pow(0.9, n); return x + int((v + 0.1 + 0.2 - v) * 10)",
    "v = math.pow(0.9, n); return x[: int((1.0 - v) * 3)]",
    "v = math.pow(0.9, n); return x + len(str(v + 0.1 - v))",
    "v = math.pow(0.9, n); return x + math.exp(v + 0.3 - v)",
    "v = math.pow(0.9, n); return x * 2 if v * 3.0 / 3.0 == v else x",
    "v = math.pow(0.9, n); return x * {v: 2}[v]",
    "v = math.pow(0.9, n); return x * 2 if v + 0.7 - v - 0.7 else x",
    "v = math.pow(0.999, n); return x if 1999 - 2 * n * v / (1.0 - v) >= 5 else x * 2",
    "return x / (1.0 - math.pow(0.9, n - 3))",
    "return x * (1.0 / (1.0 - math.pow(0.9, n - 3)))",
    "return x * math.sqrt(0.5 - math.pow(0.9, n))",
    "return x * (math.pow(0.9, n) / int(x.sum()))",
    "return x * (math.pow(0.9, n) + x.sum().item() - x.sum().item())",
    "return x * (math.pow(0.9, n) % 0.3)",
    "return x * round(math.pow(0.9, n), 2) + x * (math.pow(0.9, n) // 0.1)",
    "return x * math.pow(0.9, n) ** 2, math.pow(0.9, n) * math.pow(0.9, n)",
    "return x * math.pow(2, n)",
    "return x * math.pow(0.5, -n)",
    "return x * math.pow(-0.5, n)",
    "return x * math.pow(0, n - 3)",
    "return x * math.pow(2.0, n * 200)",
    "return x * math.pow(x.sum(), n)",
    "return x * math.pow(0.5, x.abs().sum().item())",
    "return x * math.pow(n)",
    "return x * math.pow('2', n)",
]


@pytest.mark.parametrize("use", [*STAYS, *ASKS])
def test_powers_are_those_of_python(use: str) -> None:
    agrees(COUNTED.format(use=use), CALLS[:8])


@pytest.mark.parametrize("use", STAYS)
def test_a_count_is_compiled_for_three_times(use: str) -> None:
    calls = [(x,) for x in CALLS]
    counts = live(COUNTED.format(use=use), calls, len(calls) - 3, mends=True)
    assert counts.total.graphs <= 3
    assert counts.rest.attempts == 0


def test_with_aot_autograd_and_a_gradient() -> None:
    use = "return x * (0.1 * math.sqrt(1.0 - math.pow(0.5, n)))"
    agrees(COUNTED.format(use=use), CALLS[:6], backend="aot_eager", grad=True)
