"""Functions of NumPy that torch has none for."""

from __future__ import annotations

import numpy
import pytest
import torch

from tests.oracle import Change, agrees, check

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


QUADRATURES = """
import warnings
import numpy as np
from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre

leggauss = legendre.leggauss
def f(x, n=4):
    {body}
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "body",
    [
        "p, w = legendre.leggauss(4); return x + torch.from_numpy(p * w)",
        "return x * torch.tensor((0.5 * np.polynomial.legendre.leggauss(n)[1]).tolist())",
        "return sum(a * x for a in (0.5 * (1 + legendre.leggauss(n)[0])).tolist())",
        "return hermite.hermgauss(4), hermite_e.hermegauss(4), x + 1",
        "p = laguerre.laggauss(4)[0]; p[0] = 7.0; return p, laguerre.laggauss(4)[0], x * 2",
        "return x + torch.as_tensor(chebyshev.chebgauss(4)[0], dtype=torch.float32)",
        "p, w = hermite.hermgauss(int(x.shape[0])); return x * torch.from_numpy(p), w",
    ],
)
def test_quadratures(body: str, backend: str) -> None:
    calls = [torch.arange(4.0), torch.ones(4), torch.arange(4.0, 8.0)]
    outcome = check(QUADRATURES.format(body=body), calls, None, grad=True, backend=backend)
    assert "polyfill@7" in outcome.mends


def test_numbers_of_points_that_change() -> None:
    body = "p, w = legendre.leggauss(n); return x * float(p[0]), w"
    calls = [(torch.ones(2), count) for count in (2, 3, 4, 5, 2)]
    agrees(QUADRATURES.format(body=body), calls)


def test_another_function_by_that_name() -> None:
    body = "return x + torch.from_numpy(leggauss(3)[0])"
    x = torch.ones(3)
    other = Change("leggauss = lambda n: (np.ones(n), None)")
    calls = [x, other, x, Change("leggauss = legendre.leggauss"), x, x]
    agrees(QUADRATURES.format(body=body), calls)


@pytest.mark.filterwarnings("ignore:.*encountered in")
@pytest.mark.parametrize(
    "body",
    [
        "p = legendre.leggauss(True)[0]; return x + torch.from_numpy(p)",
        "p = legendre.leggauss(deg=2)[0]; return x + p.sum()",
        "p, w = hermite.hermgauss(500); return x + 1, p, w",
        "p = legendre.leggauss(x.shape[0] / 2)[0]; return x + 1, p",
    ],
)
def test_numbers_that_are_left_to_numpy(body: str) -> None:
    outcome = agrees(QUADRATURES.format(body=body), [torch.ones(2), torch.ones(2)])
    assert outcome.breaks


def test_no_number_of_points() -> None:
    body = (
        "try:\n        legendre.leggauss(n)\n    except ValueError as error: return x, str(error)"
    )
    x = torch.ones(2)
    agrees(QUADRATURES.format(body=body), [(x, 0), (x, 2), (x, -1), (x, 0)])
