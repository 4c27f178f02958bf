"""A call that is deferred in an arm: its arguments are made if the arm was taken, and only then."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo.host_values import autograd_repr
from tests.oracle import check

UP, DOWN, FAR = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0]), torch.tensor([-9.0, 8.0])


@pytest.mark.slow
@pytest.mark.parametrize("calls", itertools.permutations([UP, DOWN, FAR]))
def test_values_that_several_arms_and_the_result_share(calls: tuple[torch.Tensor, ...]) -> None:
    source = """
    log = []

    def f(x):
        total = x.sum()
        shown = [x, (total, "sum")]
        if total > 0:
            print(f"{total:.2f}", shown, sep="|")
            if x.max() > 1.5:
                print("far up", total, shown)
        else:
            print("down", shown)
        if x.max() > 5:
            print("far", f"{total}", log)
        log.append(total.item())
        return total, x, shown
    """
    mends = "where@6 defer@7 where@8 defer@9 defer@11 where@12 defer@13 defer@14"
    check(source, calls=list(calls), mends=mends)


def test_only_a_call_that_is_made_gets_a_tensor_that_shows_its_node(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[str] = []
    stock = autograd_repr.stand_in

    def counted(tensor: torch.Tensor, node: str) -> torch.Tensor:
        made.append(node)
        return stock(tensor, node)

    monkeypatch.setattr(autograd_repr, "stand_in", counted)
    logger = logging.getLogger("arm")

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.max() > 1e4:
            logger.warning("The largest is %s.", y.max())
        return y + 1

    torch._dynamo.reset()
    with gm.enabled():
        step = torch.compile(f, backend="eager", fullgraph=True)
        for scale in (1.0, 1e5, 1.0, 1e5):
            step(torch.full((2,), scale, requires_grad=True))
    assert made == ["MaxBackward1"] * 2
    assert [record.getMessage() for record in caplog.records if record.name == "arm"] == [
        "The largest is tensor(200000., grad_fn=<MaxBackward1>)."
    ] * 2


LEAF = torch.ones(2, requires_grad=True)
KINDS = [LEAF, LEAF * 2, torch.nn.Parameter(torch.ones(2))]


@pytest.mark.parametrize("order", itertools.permutations(range(3)))
def test_a_tensor_that_is_a_leaf_in_one_call_only(
    order: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its text names a node, or that it requires a gradient; Dynamo does not guard on that."""

    def f(x: torch.Tensor) -> torch.Tensor:
        print(x, [x])
        return x * 2

    def printed(function: Callable[[torch.Tensor], torch.Tensor]) -> str:
        for index in (*order, *order):
            function(KINDS[index])
        return capsys.readouterr().out

    expected = printed(f)
    torch._dynamo.reset()
    with gm.enabled():
        assert printed(torch.compile(f, backend="eager")) == expected
