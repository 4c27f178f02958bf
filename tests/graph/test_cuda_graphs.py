"""Where CUDA graphs are recorded, `torch.cond` is left for what keeps them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo.graph import cuda_graphs
from graphmend_bc.dynamo.graph.cuda_graphs import are_recorded
from tests.oracle import load

EXPENSIVE = """
import torch

weight = torch.eye(4)

def f(x):
    if x.sum() > 0:
        y = torch.mm(x, weight)
    else:
        y = x + 1
    return y * 2
"""


def test_decision() -> None:
    on, off = {"triton.cudagraphs": True}, {"triton.cudagraphs": False}
    assert are_recorded("cuda", lambda: on)
    assert not are_recorded("cuda", lambda: off)
    assert not are_recorded("cpu", lambda: on)
    assert not are_recorded("cuda", lambda: {})
    assert not are_recorded("cuda", None)


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({"mode": "reduce-overhead"}, "speculate"),
        ({"options": {"triton.cudagraphs": True}}, "speculate"),
        ({}, "cond"),
        ({"backend": "eager"}, "cond"),
    ],
)
def test_what_is_chosen_as_if_on_a_gpu(
    options: dict[str, Any], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_a_gpu(device: str, config: Any) -> bool:
        assert device == "cpu"
        return are_recorded("cuda", config)

    monkeypatch.setattr(cuda_graphs, "are_recorded", on_a_gpu)
    f, x = load(EXPENSIVE).f, torch.ones(4, 4)
    torch._dynamo.reset()
    with gm.enabled(), torch.no_grad():
        gm.reset()
        found = torch.compile(f, **options)(x)
        mends = [mend.strategy for mend in gm.report().mends]
        passed_over = str(gm.report().mends)
    assert torch.equal(found, f(x))
    assert mends == [chosen]
    assert ("cond-and-cuda-graphs" in passed_over) is (chosen == "speculate")
