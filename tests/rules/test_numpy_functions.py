"""Functions of NumPy that torch has none for."""

from __future__ import annotations

import numpy
import pytest

from tests.oracle import check

POINTS = numpy.array([0.0, 1.0, 1.0, 4.0])
VALUES = numpy.array([3.0, 5.0, 7.0, numpy.inf])
CALLS = [
    numpy.array([-1.0, 0.5, 1.0, 3.9, 4.0, 9.0, numpy.nan]),
    numpy.array([0.25, 1.5]),
    numpy.array([1.0, 2.0], dtype="float32"),
    numpy.array([[1, 2], [3, 4]]),
]
PROGRAM = """
import numpy as np

xp = np.array([0.0, 1.0, 1.0, 4.0])
fp = np.array([3.0, 5.0, 7.0, np.inf])
def f(x):
    y = x + 1
    {body}
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "body",
    [
        "return np.interp(x, xp, fp), y",
        "return np.interp(x=y, xp=xp * 2, fp=fp) + y",
        "return np.interp(y, xp, fp[::-1])[::2]",
        "return np.interp(y, xp[::-1], fp)",
        "return np.digitize(y, xp) + 1",
        "return np.isin(x, fp), np.isin(y, np.array([[1.0, 2.0]]))",
        "z = np.interp(x, xp, fp); z[0] = 2.0; return z, y",
        "return torch.from_numpy(np.interp(x, xp, fp)).to(torch.float32) * 2",
        "return np.interp(x, np.arange(0, len(fp)), np.log(fp)).astype(np.float32)",
    ],
)
def test_functions(body: str, backend: str) -> None:
    outcome = check(PROGRAM.format(body=body), CALLS, None, backend=backend)
    assert outcome.mends == "polyfill@7"


@pytest.mark.parametrize(
    "body",
    [
        "return np.interp(x, xp, fp, left=0.0)",
        "return np.interp(x, [0.0, 1.0], [2.0, 3.0]) + y",
        "return np.interp(x, xp, fp[1:]) + y",
        "return np.interp(x, xp, fp.astype(np.complex128)).real",
        "return np.interp(x, xp[:0], fp[:0]) + y",
        "return np.digitize(x, xp[::2], True) + y",
        "return np.digitize(x, xp[None]) + y",
        "return np.interp(x.sum(), xp, fp) + y",
    ],
)
def test_other_arguments(body: str) -> None:
    outcome = check(PROGRAM.format(body=body), CALLS, None, None, None)
    assert outcome.breaks
    assert "polyfill" not in outcome.mends


def test_bins_out_of_order_raise() -> None:
    body = "return np.digitize(x, np.sin(xp) * y.sum()) + 1"
    outcome = check(PROGRAM.format(body=body), CALLS, "polyfill@7", None, None)
    assert not outcome.breaks


def test_a_speculation_after_it() -> None:
    body = "z = torch.from_numpy(np.interp(x, xp, fp)); return (z, 1) if z.max() > 3 else (z + 1,)"
    check(PROGRAM.format(body=body), CALLS, None, None, None)
