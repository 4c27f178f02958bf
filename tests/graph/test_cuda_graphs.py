"""Where CUDA graphs are recorded, `torch.cond` is left for what keeps them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo import facts
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


def pretend_to_be_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_a_gpu(device: str, config: Any) -> bool:
        assert device == "cpu"
        return are_recorded("cuda", config)

    monkeypatch.setattr(cuda_graphs, "are_recorded", on_a_gpu)


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
    pretend_to_be_on_a_gpu(monkeypatch)
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


LOOP = """
import torch

def f(x):
    x = x * 2
    while x.abs().sum() > 1:
        x = torch.tanh(x) * 0.25
    return x + 1
"""


@pytest.mark.parametrize(("mode", "kept"), [("reduce-overhead", False), (None, True)])
def test_loops_as_if_on_a_gpu(mode: str | None, kept: bool, monkeypatch: Any) -> None:
    pretend_to_be_on_a_gpu(monkeypatch)
    f, x = load(LOOP).f, torch.ones(4)
    torch._dynamo.reset()
    with gm.enabled(), torch.no_grad():
        gm.reset()
        compiled = torch.compile(f, mode=mode)
        for given in (x, -x, x / 16):
            torch.testing.assert_close(compiled(given), f(given))
        found = [mend.strategy for mend in gm.report().mends]
    assert ("while_loop" in found) is kept


MOLECULES = """
import torch

def f(x, owners):
    for _ in range(3):
        count = int(owners[-1].item()) + 1
        x = x + torch.zeros(count, 2).index_add(0, owners, x)[owners]
    return x
"""


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({"mode": "reduce-overhead"}, ["hoist", "capture"]),
        ({}, ["capture"]),
        ({"backend": "eager"}, ["capture"]),
    ],
)
def test_a_number_is_known_before_the_graph_while_it_does_not_vary(
    options: dict[str, Any], chosen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A symbol would split a CUDA graph; an input that varies would have one for each value."""
    pretend_to_be_on_a_gpu(monkeypatch)
    f, x = load(MOLECULES).f, torch.randn(8, 2)
    torch._dynamo.reset()
    with gm.enabled(), torch.no_grad():
        gm.reset()
        compiled = torch.compile(f, **options)
        for size in (2, 2, 4, 1, 8, 3, 2):
            owners = torch.arange(8) // size
            torch.testing.assert_close(compiled(x, owners), f(x, owners))
            if len(gm.report().mends) == 1 and size == 2:
                assert [mend.strategy for mend in gm.report().mends] == chosen[:1]
        found = gm.report()
    assert [mend.strategy for mend in found.mends] == chosen
    assert ("hoist-and-cuda-graphs" in str(found)) is (len(chosen) > 1)
    assert found.compiled.graphs == len(chosen)
    assert not found.compiled.breaks


def test_where_the_frame_has_its_tensors() -> None:
    """Tensors are found in the frame's locals, in containers of theirs, and in modules."""

    class Inductor:
        @staticmethod
        def get_compiler_config() -> dict[str, Any]:
            return {"triton.cudagraphs": True}

    records, meta = cuda_graphs.frame_records_cuda_graphs, torch.device("meta")
    assert not records(Inductor, [1, "x", None, torch.ones(2), [torch.nn.Linear(2, 2)]])
    known = [{"a": [torch.ones(2)]}, torch.nn.Linear(2, 2, device=meta)]
    assert {*cuda_graphs._devices(known)} == {"cpu", "meta"}
    assert not records(object(), [torch.ones(2)])


@pytest.mark.skipif(not facts.TRACES_BACKWARD, reason="not on torch 2.11")
@pytest.mark.parametrize(("mode", "is_left"), [("reduce-overhead", True), ("default", False)])
def test_a_backward_pass_is_left_as_if_on_a_gpu(
    mode: str, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gradients would lie in memory that the next launch writes."""
    pretend_to_be_on_a_gpu(monkeypatch)
    layer = torch.nn.Linear(3, 2)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = layer(x).sum()
        loss.backward()
        return loss.detach()

    torch._dynamo.reset()
    with gm.enabled():
        torch.compile(step, mode=mode)(torch.ones(3))
        reasons = {decline.reason for decline in gm.report().declines}
    assert reasons == ({"backward-noticed"} if is_left else set())
    assert torch.equal(layer.weight.grad, torch.ones(2, 3))
