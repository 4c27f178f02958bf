"""What guards compute is computed once in a call, however many versions of the frame there are."""

from __future__ import annotations

import threading

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo.before_graph.graph_slice import Slice

SIGNS = [torch.tensor([a, b]) for a in (1.0, -1.0) for b in (1.0, -1.0)]


def waves(x: torch.Tensor) -> torch.Tensor:
    a = torch.sin if x[0] > 0 else torch.cos
    b = torch.exp if x[1] > 0 else torch.neg
    return b(a(x) + 1)


def settled() -> object:
    """The function compiled in as many versions as there are values of its conditions."""
    compiled = torch.compile(waves, backend="eager")
    for x in SIGNS * 10:
        compiled(x)
    return compiled


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was computed, by its label."""
    found, stock = [], Slice.run

    def run(self: Slice, *args: object) -> object:
        found.append(self.label)
        return stock(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Slice, "run", run)
    return found


def test_each_condition_is_asked_once_in_a_call(runs: list[str]) -> None:
    with gm.enabled():
        compiled = settled()
        for x in SIGNS * 2:
            runs.clear()
            assert torch.equal(compiled(x), waves(x))
            assert len(runs) == len(set(runs)) == 2


def test_the_same_tensor_with_another_value(runs: list[str]) -> None:
    """NumPy writes to its memory, of which no version counter tells."""
    x = torch.ones(2)
    memory = x.numpy()
    with gm.enabled():
        compiled = settled()
        for signs in SIGNS * 2:
            memory[:] = signs.numpy()
            assert torch.equal(compiled(x), waves(x))
        del runs[:]


def test_locals_are_as_they_were_when_nothing_is_found() -> None:
    met = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        met.append(
            sorted(torch._dynamo.symbolic_convert.InstructionTranslator.current_tx().f_locals)
        )
        return graph

    with gm.enabled():
        compiled = torch.compile(waves, backend=backend)
        for x in SIGNS * 10:
            compiled(x)
    assert met
    assert met == [["x"]] * len(met)


def test_gradients_are_on_after_a_condition_was_asked() -> None:
    x = torch.ones(2, requires_grad=True)
    with gm.enabled():
        compiled = settled()
        compiled(x).sum().backward()
    eager = torch.ones(2, requires_grad=True)
    waves(eager).sum().backward()
    assert x.grad is not None
    assert eager.grad is not None
    assert torch.equal(x.grad, eager.grad)


def test_threads_that_look_at_once() -> None:
    wrong = []

    def run(x: torch.Tensor) -> None:
        wrong.extend(x for _ in range(50) if not torch.equal(compiled(x), waves(x)))

    with gm.enabled():
        compiled = settled()
        threads = [threading.Thread(target=run, args=(x,)) for x in SIGNS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
