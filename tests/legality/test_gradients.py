"""Gradients of a branch, asked with real tensors and operators that really ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode

from graphmend_bc.legality.gradients import check_same_reach, check_zero_gradients_stay_zero
from graphmend_bc.legality.record import OpRecord
from graphmend_bc.reporting.reasons import Refused

A, B = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)


class Recording(TorchDispatchMode):
    """The operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[OpRecord] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.records.append(OpRecord(func, tuple(args), dict(kwargs or {}), result))
        return result


def records_of(function: Callable[[torch.Tensor], object]) -> list[OpRecord]:
    with Recording() as mode:
        function(torch.tensor([0.5, 1.0, 2.0]))
    return mode.records


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: x - x * 2.5,
        lambda x: x.view(1, 3).t().sum(),
        lambda x: x.relu(),
        lambda x: x / 4,
        lambda x: (x > 1).long().sum() * 3,
        lambda x: x * torch.finfo(torch.float32).max,
        lambda x: x.double() * 1e300,
        lambda x: x.half() * 65504.0,
        lambda x: x / -2.0,
        lambda x: x * 0.0,
        lambda x: torch.view_as_complex(torch.stack([x, x], -1)) * 2.0,
        lambda x: torch.exp(torch.arange(3)),  # no gradient flows into integers
        lambda x: torch.add(x, x, alpha=-3),
        lambda x: torch.clamp(x, min=0.5).neg(),
    ],
)
def test_zero_stays_zero(function: Callable[[torch.Tensor], object]) -> None:
    check_zero_gradients_stay_zero(records_of(function))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sqrt(),
        lambda x: x.log(),
        lambda x: 1 / x,
        lambda x: x * x,
        lambda x: x * float("inf"),
        lambda x: x / 0.0,
        lambda x: torch.add(x, x, alpha=float("nan")),
        lambda x: torch.view_as_complex(torch.stack([x, x], -1)).exp(),
        lambda x: torch.view_as_complex(torch.stack([x, x], -1)).log().abs(),
        lambda x: torch.view_as_complex(torch.stack([x, x], -1)) * float("inf"),
        lambda x: x * float("nan"),
        lambda x: x * 1e39,  # infinite in this dtype
        lambda x: x.half() * 65505.0,
        lambda x: x / 1e-320,  # whose inverse is infinite
        lambda x: x.half() / 1e-6,
        lambda x: x / float("inf"),
        lambda x: x / -0.0,
        lambda x: torch.div(x, 2.0, rounding_mode="floor"),
        lambda x: torch.mul(x, torch.tensor(float("inf"))),
        lambda x: x**2.0,
        lambda x: torch.sub(x, x, alpha=float("inf")),
        lambda x: torch.rsub(x, x, alpha=float("inf")),
    ],
)
def test_zero_may_become_nan(function: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises(Refused) as found:
        check_zero_gradients_stay_zero(records_of(function))
    assert found.value.reason.code == "gradient-not-finite"


def test_a_factor_that_is_a_symbol() -> None:
    (record,) = records_of(lambda x: torch.add(x, x, alpha=2))[-1:]
    known = replace(record, kwargs={"alpha": ShapeEnv().create_unbacked_symfloat()})
    with pytest.raises(Refused):
        check_zero_gradients_stay_zero([known])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (A + 1, A * 2),
        (A + B, B - A),
        ((A + B).exp(), A * B),
        (A, A.view(1, 3)),
        (A, A),
        ((A + A) * (A + 1), A.exp()),
    ],
)
def test_both_arms_reach_the_same(left: torch.Tensor, right: torch.Tensor) -> None:
    check_same_reach(left, [A, B], right, [A, B])


@pytest.mark.parametrize(
    ("left", "right"),
    [(A + 1, B + 1), (A + B, A + 1), (A * 2, A.detach() * 2), (A, B), (A, A * B), (A.exp(), A + B)],
)
def test_one_arm_reaches_more(left: torch.Tensor, right: torch.Tensor) -> None:
    with pytest.raises(Refused) as found:
        check_same_reach(left, [A, B], right, [A, B])
    assert found.value.reason.code == "gradient-reach"


def test_what_lies_behind_a_tensor_of_both_counts_once() -> None:
    """A tensor from before the branch stands for all that it was computed from."""
    shared = A * B
    check_same_reach(shared + 1, [shared], shared * 2, [shared])
    with pytest.raises(Refused):
        check_same_reach(shared + A, [shared, A], shared * 2, [shared])


def test_a_leaf_that_no_arm_uses_by_name() -> None:
    """One that was made before the branch, and lies behind one result alone."""
    inner = torch.ones(3, requires_grad=True)
    behind = A * inner
    with pytest.raises(Refused):
        check_same_reach(behind + A, [A], A * 2, [A])
