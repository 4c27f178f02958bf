"""Parameters that become one between calls of a frame that sets gradients."""

from __future__ import annotations

import pytest
import torch

from graphmend_bc.dynamo import facts
from tests.oracle import Change, agrees

pytestmark = pytest.mark.skipif(not facts.TRACES_BACKWARD, reason="not on torch 2.11")

PROGRAM = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.v = nn.Parameter(torch.ones(2))
        self.w = nn.Parameter(torch.ones(2) * 3)

    def forward(self, x):
        return (x * self.w * 2 + x * self.v).square()

m = Model()
other = nn.Parameter(torch.ones(2))
opt = torch.optim.SGD([{trained}], lr=0.1)

def f(x):
    {zero}
    loss = m(x).sum()
    loss.backward()
    {step}
    return loss.detach()
"""
STEP = {"zero": "opt.zero_grad()", "step": "opt.step()"}
ALONE = {"zero": "pass", "step": "pass"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trained", "pieces", "change"),
    [
        ("other", STEP, "opt.param_groups[0]['params'] = [m.v]"),
        ("other, m.w", STEP, "opt.param_groups[0]['params'] = [m.v, m.w]"),
        ("m.v", STEP, "m.w = m.v"),
        ("m.v, m.w", STEP, "m.w = m.v"),
        ("other", ALONE, "m.w = m.v"),
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_two_parameters_become_one(
    trained: str, pieces: dict[str, str], change: str, backend: str
) -> None:
    x = torch.ones(2)
    calls = [x, -x, Change(change), x, -x]
    outcome = agrees(PROGRAM.format(trained=trained, **pieces), calls, orders=1, backend=backend)
    assert "train@" in outcome.mends
