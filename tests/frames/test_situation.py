"""In which situation a frame is compiled: what tells two apart, and what does not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphmend_bc.dynamo.frames.situation import situation_of

X = torch.ones(2, 3)
SAME = [X, torch.zeros(4, 5), torch.ones(3, 2).t()]
OTHERS = [
    X.double(),
    X[0],
    X.to("meta"),
    X.to_sparse(),
    X.clone().requires_grad_(),
    X.clone().requires_grad_() * 2,
    nn.Parameter(X),
    nn.Linear(2, 3),
    nn.Linear(2, 3).eval(),
    3,
    3.0,
    None,
]


def test_sizes_and_values_are_the_same_situation() -> None:
    assert len({situation_of({"x": x, "n": n}) for n, x in enumerate(SAME)}) == 1


def test_whatever_else_rules_ask_makes_another() -> None:
    found = {situation_of({"x": value}) for value in (X, *OTHERS)}
    assert len(found) == len(OTHERS) + 1


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_modes_make_another(mode: type) -> None:
    usual = situation_of({"x": X})
    with mode():
        assert situation_of({"x": X}) != usual
    with torch.autocast("cpu"):
        assert situation_of({"x": X}) != usual
    assert situation_of({"x": X}) == usual
