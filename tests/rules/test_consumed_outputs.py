"""Tensors that leave a function after a backward pass has used up their history."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graphmend_bc import session
from graphmend_bc.dynamo import facts
from tests.rules.test_training_steps import BACKWARD, STEP, calls, program, whole

pytestmark = pytest.mark.skipif(not facts.TRACES_BACKWARD, reason="not on torch 2.11")

RETURNED = STEP.replace("loss.detach()", "loss")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize(
    "body",
    [
        RETURNED,
        "h = m(x)\nloss = mse_loss(h, y)\nloss.backward()\nopt.step()\nreturn h, loss",
        BACKWARD.replace("return loss.detach()", "told.append(loss)\nreturn [loss]"),
        "loss = mse_loss(m(x), y)\nloss.backward()\ntold.append(loss.item())\nprint(loss)\n"
        "return loss",
    ],
)
def test_they_are_whole(body: str, backend: str) -> None:
    assert whole(body, backend=backend) == (0, "")


def both(body: str, then: str, before: str = "") -> list[str]:
    """What comes of what is done with the results of calls: eagerly, and mended."""
    outcomes = []
    for compiles in (False, True):
        torch._dynamo.reset()
        made = program(body, before=before)
        state = session.new_state(mends=compiles)
        with session.mending_by(state):
            f = torch.compile(made["f"], backend="eager") if compiles else made["f"]
            outcomes.append(repr([_then(then, f(*args), made) for args in calls(3)]))
        if compiles:
            assert state.report_now().compiled.graphs == 2
    return outcomes


def _then(then: str, r: Any, made: dict[str, Any]) -> Any:
    try:
        exec(f"result = {then}", made | {"r": r}, (found := dict[str, Any]()))
    except RuntimeError as error:
        return str(error)
    return found["result"]


@pytest.mark.parametrize(
    "then",
    [
        "r.backward()",
        "(r * m[0].weight).sum().backward()",
        "r.requires_grad, r.is_leaf, r.shape, r.detach().requires_grad, (r * 2).requires_grad",
        "r.add_(1).requires_grad, r._version, r._base is None",
        "r.detach().add_(1).item() == r.item()",
    ],
)
def test_what_becomes_of_a_loss(then: str) -> None:
    eager, mended = both(RETURNED, then)
    assert mended == eager


def test_the_same_memory_leaves_twice() -> None:
    body = RETURNED.replace("return loss", "return loss, loss.detach()")
    eager, mended = both(body, "r[0].data_ptr() == r[1].data_ptr()")
    assert mended == eager == "[True, True, True]"
