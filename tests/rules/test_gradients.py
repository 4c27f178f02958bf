"""`torch.autograd.grad` in one graph, as eager Python does it."""

from __future__ import annotations

import pytest

from graphmend_bc.dynamo import facts
from tests.rules.test_training_steps import whole

pytestmark = pytest.mark.skipif(not facts.TRACES_BACKWARD, reason="not on torch 2.11")

BY_HAND = """
loss = mse_loss(m(x), y)
grads = torch.autograd.grad(loss, list(m.parameters()))
with torch.no_grad():
    for p, g in zip(m.parameters(), grads):
        p -= 0.1 * g
return loss.detach(), grads[0]
"""
PENALTY = """
opt.zero_grad()
x = x.clone().requires_grad_()
out = m(x)
(g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
loss = mse_loss(out, y) + ((g.norm(dim=1) - 1) ** 2).mean()
loss.backward()
opt.step()
return loss.detach(), g.detach()
"""
GRAD = "return torch.autograd.grad({}, {})[0]"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize(
    "body",
    [
        BY_HAND,
        BY_HAND.replace("loss.detach(), ", "loss, "),
        PENALTY,
        GRAD.format("m(x).sum()", "m[0].weight"),
        GRAD.format("[m(x).sum(), (y @ m[2].weight).mean()]", "(m[2].weight, m[0].weight)"),
        GRAD.format("m(x)", "m[0].bias, torch.ones(6, 2)"),
        GRAD.format("m(x).sum()", "[m[0].bias, more[0]], allow_unused=True"),
    ],
)
def test_gradients_are_whole(body: str, backend: str) -> None:
    assert whole(body, before="more = [nn.Parameter(torch.ones(3))]", backend=backend)[0] == 0


@pytest.mark.parametrize(
    ("body", "before", "reason"),
    [
        (GRAD.format("m(x).sum()", "m[0].weight"), "m[0].weight.register_hook(lambda g: g * 2)",
         "backward-noticed"),
        (GRAD.format("m(x).sum()", "m[0].weight, create_graph=True"), "", "backward-noticed"),
        ("loss = m[0].bias.sum() + m(x).sum()\n" + GRAD.format("loss", "m[2].bias") + ", loss", "",
         "backward-noticed"),
        ("with torch.no_grad(): " + GRAD.format("m(x).sum()", "m[0].bias"), "", ""),
    ],
)  # fmt: skip
def test_gradients_that_could_be_told_are_left(body: str, before: str, reason: str) -> None:
    left, reasons = whole(body, before=before)
    assert left
    assert reason in reasons
