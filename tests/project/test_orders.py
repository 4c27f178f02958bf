"""The orders of calls that the oracle makes, and that they see what is wrong in one of them alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphmend_bc.dynamo.before_graph import graph_slice
from graphmend_bc.dynamo.graph import input_aliasing, state_snapshot
from graphmend_bc.dynamo.patches import frames
from graphmend_bc.dynamo.predication import merge
from graphmend_bc.dynamo.rollback import graph_proof
from tests import oracle
from tests.oracle import Outcome, agrees, check
from tests.orders import VARIABLE, wanted_in

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of each order, in place of making them; what ends in 0 is speculated on."""
    found: list[str] = []

    def compare(source: str, calls: list[tuple[int]], *args: object, **kwargs: object) -> Outcome:
        found.append("".join(str(number) for (number,) in calls))
        return Outcome(
            graphs=1, breaks=0, mends="speculate@2" if "0" in found[-1] else "", declines=""
        )

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(oracle, "_compare", compare)
    return found


def test_orders_that_are_made(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def orders(*calls: int, **kwargs: Any) -> list[str]:
        made.clear()
        agrees("", calls, **kwargs)
        return [*made]

    assert orders(1, 2, 3) == ["123321"]
    assert orders(1, 0) == ["1001", "01"]
    assert orders(1, 0, orders=1) == ["10"]
    assert orders(1, 2, orders=2) == ["12", "21"]
    assert orders(1, 2, orders=3) == ["12", "21", "1122"]
    monkeypatch.setenv(VARIABLE, "1")
    assert orders(1, 2) == orders(1, 2) == ["12", "21", "1122", "1221"]
    assert orders(1, 2, orders=2) == ["12", "21"]


def test_orders_that_are_told_apart_are_made(made: list[str]) -> None:
    check("", [1, 2], breaks={"forward": 0})
    assert made == ["12", "21", "1122", "1221"]
    with pytest.raises(AssertionError, match="both ways: breaks are 0"):
        check("", [1, 2], breaks={"forward": 0, "both ways": 1})


def test_what_is_wanted_in_an_order() -> None:
    for order, want in (("forward", 1), ("reversed", 1), ("twice", 2), ("both ways", 1)):
        assert wanted_in(order, {"forward": 1, "twice": 2}) == want
        assert wanted_in(order, 3) == 3
        assert wanted_in(order, {"forward": None}) is None
    with pytest.raises(KeyError, match="forward"):
        wanted_in("twice", {"reversed": 0})
    with pytest.raises(ValueError, match="backward"):
        wanted_in("forward", {"forward": 0, "backward": 0})


SPECULATED = """
def f(x):
    x.add_(1)
    if x.sum() > 0:
        return x * 2, "up"
    return x - 1
"""
CHOSEN = """
long, short = torch.ones(3) * 5, torch.ones(3)
current = short

def f(x):
    global current
    current = long if x.sum() > 0 else short
    return x * current
"""
GRADIENT = """
w = nn.Parameter(torch.ones(3))

def f(x):
    return x + w if x.sum() > 0 else x + 2
"""
COUNTED = """
def f(x):
    for i in range(int(x[0].item())):
        x = x + i
    return x
"""
OVERLAP = """
def f(x, y):
    z = x if x.sum() > 0 else x + 1
    y.add_(1)
    return z * 2
"""


def _wrong_speculation_unnoticed(monkeypatch: pytest.MonkeyPatch, likely: bool) -> None:
    stock = frames.watched

    def watched(graph: Callable[..., Any], compilation: Any) -> Callable[..., Any]:
        def blind(*args: Any, **kwargs: Any) -> Any:
            *results, condition = graph(*args, **kwargs)
            return *results, torch.full_like(condition, likely)

        speculations = [speculation.likely for speculation, _ in compilation.trace.speculations]
        return stock(blind if speculations == [likely] else graph, compilation)

    monkeypatch.setattr(frames, "watched", watched)


def _memory_stays_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = state_snapshot.Before.restore
    monkeypatch.setattr(
        state_snapshot.Before, "restore", lambda self: stock(dataclasses.replace(self, memory=()))
    )


def _value_goes_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    stock, first = graph_slice.Slice.fresh, dict[str, Any]()

    def fresh(self: graph_slice.Slice, scope: dict[str, Any]) -> Any:
        return first.setdefault(self.label, stock(self, scope))

    monkeypatch.setattr(graph_slice.Slice, "fresh", fresh)


# A fault of each kind, in a program that shows it.
FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, list[Any], bool]] = {
    "a wrong speculation at True": (
        lambda patch: _wrong_speculation_unnoticed(patch, True),
        SPECULATED.replace("x.add_(1)", "pass"),
        [UP, DOWN],
        False,
    ),
    "a wrong speculation at False": (
        lambda patch: _wrong_speculation_unnoticed(patch, False),
        SPECULATED.replace("x.add_(1)", "pass"),
        [UP, DOWN],
        False,
    ),
    "memory after a miss": (_memory_stays_changed, SPECULATED, [UP, DOWN * 2], False),
    "aliasing": (
        lambda patch: patch.setattr(graph_proof, "check_choice", lambda *_: None),
        CHOSEN,
        [UP, DOWN],
        False,
    ),
    "gradients": (
        lambda patch: patch.setattr(merge, "check_same_reach", lambda *_: None),
        GRADIENT,
        [UP.clone().requires_grad_(), DOWN.clone().requires_grad_()],
        True,
    ),
    "a stale value": (_value_goes_stale, COUNTED, [UP, UP * 3], False),
    "inputs that overlap": (
        lambda patch: patch.setattr(input_aliasing.Layout, "holds", lambda *_: True),
        OVERLAP,
        [(UP.clone(), UP.clone()), (lambda both: (both[:3], both[1:]))(torch.arange(4.0))],
        False,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, source, calls, grad = FAULTS[fault]
    agrees(source, calls, grad=grad)
    make(monkeypatch)
    with pytest.raises(AssertionError, match=r"compiled code: \w+ differs"):
        agrees(source, calls, grad=grad)
