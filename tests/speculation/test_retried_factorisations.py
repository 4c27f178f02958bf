"""A factorisation that is tried again with jitter, and that raises when no try is left."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check

SAFE = """
import warnings
import torch

class NotPositive(ValueError):
    pass

def safe(a, out=None, tries=3):
    factor, info = torch.linalg.cholesky_ex(a, out=out)
    if not torch.any(info):
        return factor
    if torch.isnan(a).any():
        raise ArithmeticError(f"{torch.isnan(a).sum().item()} of {a.numel()} are NaN")
    shifted, last = a.clone(), 0
    for i in range(tries):
        jitter = 1e-3 * 10**i
        added = ((info > 0) * (jitter - last)).unsqueeze(-1).expand(*shifted.shape[:-1])
        shifted.diagonal(dim1=-1, dim2=-2).add_(added)
        last = jitter
        warnings.warn(f"added jitter of {jitter:.1e}")
        factor, info = torch.linalg.cholesky_ex(shifted, out=out)
        if not torch.any(info):
            return factor
    raise NotPositive(f"not positive after adding {jitter:.1e}")
"""

GOOD = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
NEARLY = torch.tensor([[1.0, 1.0], [1.0, 1.0]])  # needs one round
MORE = torch.tensor([[1.0, 1.05], [1.05, 1.0]])  # needs three
BAD = torch.tensor([[-1.0, 0.0], [0.0, 1.0]])  # raises at the end
NAN = torch.tensor([[float("nan"), 0.0], [0.0, 1.0]])  # raises before the first round

WHOLE = SAFE + "\ndef f(a):\n    return safe(a) * 2\n"
WRITTEN = SAFE + "\ndef f(a):\n    a.add_(0)\n    return safe(a) * 2\n"
"""What has been written to is not looked at while compiling."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "calls",
    [
        [GOOD, GOOD, BAD, GOOD, NAN, NEARLY, GOOD],
        [NEARLY, NEARLY, GOOD, MORE, BAD],
        [BAD, GOOD, GOOD],
        [NAN, MORE, MORE, GOOD],
    ],
)
@pytest.mark.parametrize("source", [WHOLE, WRITTEN], ids=["inputs", "written"])
def test_each_way_is_eager_pythons(source: str, calls: list[torch.Tensor]) -> None:
    check(source, calls, mends=None, declines=None, breaks=None, grad=source is WHOLE)


@pytest.mark.parametrize(
    ("source", "mends"),
    [(WHOLE, "speculate@9"), (WRITTEN, "speculate@9 speculate@11 defer@19 speculate@21")],
    ids=["inputs", "written"],
)
def test_no_break_is_left(source: str, mends: str) -> None:
    """Where nothing is known of the condition, a round is assumed that makes an end of the loop."""
    check(source, [GOOD, GOOD, GOOD + 1], mends, orders=2)


def test_out_of_none_is_looked_at_while_compiling() -> None:
    """The first call is known to be good, so that no check fails."""
    scope: dict[str, object] = {}
    exec(WHOLE, scope)
    with gm.enabled():
        compiled = torch.compile(scope["f"], backend="eager", fullgraph=True)  # type: ignore[call-overload]
        compiled(GOOD)
        compiled(GOOD + 1)
        (found,) = gm.report().speculations
    assert (found.calls, found.failed_checks) == (2, 0)
