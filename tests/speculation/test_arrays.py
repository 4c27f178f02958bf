"""Conditions on NumPy arrays that the program is given, where the arms cannot be merged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.oracle import agrees, check

UP = np.arange(1.0, 7.0).reshape(2, 3)


def _program(condition: str, before: str = "") -> str:
    return f"""
import numpy as np

def f(m, *more):
    {before or "pass"}
    if {condition}:
        return torch.from_numpy(m * 2)
    return torch.from_numpy(m[:1])
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_speculated_then_guarded(backend: str) -> None:
    outcome = check(
        _program("np.any(m > 0)"), [UP, -UP, UP, -UP], "hoist@5 speculate@5", backend=backend
    )
    assert outcome.breaks == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "before"),
    [
        ("(m > 0).all()", ""),
        ("np.any(~(m > 0).any(axis=1)) or m[0, 0] > 5", ""),
        ("m.sum() > 0", "m = m + 1"),
        ("m.sum() > 0", "m[0, 0] = 3.0"),
        ("m.sum() > 0 and (m * 2).max() > 1", "m = np.asarray(m)"),
    ],
)
def test_forms(condition: str, before: str) -> None:
    calls = [UP, -UP, UP, UP.astype(np.float32), -UP[:, ::2], UP.T.copy()]
    agrees(_program(condition, before), [(call.copy(),) for call in calls], orders=1)


@pytest.mark.parametrize("first", [np.float64(2.0), 2.0])
def test_a_number_beside_the_array(first: Any) -> None:
    source = _program("np.any(m > more[0])")
    agrees(source, [(UP, first), (-UP, first), (UP, np.float64(9.0)), (UP, first)])
