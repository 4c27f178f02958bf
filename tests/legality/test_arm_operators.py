"""Operators that may run although their arm is not taken, and those that may run in `torch.cond`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._ops import OpOverload
from torch.nn import functional as F

from graphmend_bc.legality.arm_operators import check_runs_taken, check_runs_untaken
from graphmend_bc.legality.record import OpRecord, draws
from graphmend_bc.reporting.reasons import Refused
from tests.legality.test_gradients import records_of

OUT = torch.empty(3)
LIBRARY = torch.library.Library("tests_of_arm_operators", "FRAGMENT")  # type: ignore[no-untyped-call]


def foreign(schema: str) -> OpOverload:
    """An operator of another library, which takes no negative number."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        if (x < 0).any():
            raise ValueError(x)
        return x.clone()

    name = LIBRARY.define(schema)  # type: ignore[no-untyped-call]
    LIBRARY.impl(name, kernel, "CPU")  # type: ignore[no-untyped-call]
    found = getattr(torch.ops.tests_of_arm_operators, name).default
    assert isinstance(found, OpOverload)
    return found


SIN = foreign("sin(Tensor x) -> Tensor")
ADD_ = foreign("add_(Tensor(a!) x) -> Tensor")


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda x: x.add_(1), "arm-mutates-tensor"),
        (lambda x: torch.rand_like(x), "arm-draws-random"),
        (lambda x: x.view(1, 3) @ x, "arm-too-dear"),
        (lambda x: x.masked_select(x > 1), "arm-op-unknown"),
        (lambda x: x.long() // (x.long() + 1), "arm-may-raise"),
        (lambda x: [x + i for i in range(9)], "arm-too-dear"),
        (lambda x: torch.sin(x, out=OUT), "arm-mutates-tensor"),
        (lambda x: (x > 1).to("meta").argmax(), "arm-may-raise"),
        (lambda x: SIN(x), "arm-op-unknown"),
    ],
)
def test_refused_where_both_arms_run(function: Callable[[torch.Tensor], object], code: str) -> None:
    with pytest.raises(Refused) as found:
        check_runs_untaken(records_of(function), 8)
    assert found.value.reason.code == code


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 1).sin().relu().sum(),
        lambda x: torch.zeros_like(x) - x,
        lambda x: [x + i for i in range(7)],
    ],
)
def test_allowed_where_both_arms_run(function: Callable[[torch.Tensor], object]) -> None:
    check_runs_untaken(records_of(function), 8)


def test_writes_that_may_be_made_to_copies() -> None:
    records = records_of(lambda x: x.add_(1).clamp_(max=3))
    check_runs_untaken(records, 8, writes=True)
    with pytest.raises(Refused):
        check_runs_untaken(records, 8)


@pytest.mark.parametrize(
    ("function", "good", "bad"),
    [
        (lambda x, n: x.put_(torch.tensor([n]), torch.ones(1)), 1, 3),
        (lambda x, n: x.index_fill_(0, torch.tensor([n]), 1.0), 1, 3),
        (lambda x, n: ADD_(x * n), 1, -1),
    ],
)
@pytest.mark.parametrize("writes", [False, True])
def test_writes_that_may_raise(
    function: Callable[[torch.Tensor, int], object], good: int, bad: int, writes: bool
) -> None:
    records = records_of(lambda x: function(x, good))
    with pytest.raises((IndexError, ValueError)):
        function(torch.ones(3), bad)
    with pytest.raises(Refused) as found:
        check_runs_untaken(records, 8, writes=writes)
    assert found.value.reason.code == "arm-mutates-tensor"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_kernels_that_are_missing(dtype: torch.dtype) -> None:
    def largest(x: torch.Tensor) -> torch.Tensor:
        return x.to(dtype).argmax()

    records = records_of(lambda x: largest(x.to("meta")))
    try:
        largest(torch.ones(3))
    except RuntimeError:
        with pytest.raises(Refused):
            check_runs_untaken(records, 8)
    else:
        check_runs_untaken(records, 8)


def test_operators_of_other_libraries() -> None:
    """Whatever their names are: they may raise, and they may not run in `torch.cond`."""
    with pytest.raises(ValueError, match="-1"):
        SIN(-torch.ones(3))
    record = OpRecord(SIN, (torch.ones(3),), {}, torch.ones(3))
    with pytest.raises(Refused) as untaken:
        check_runs_untaken([record], 8)
    with pytest.raises(Refused) as taken:
        check_runs_taken([record], grad=False)
    assert untaken.value.reason.code == taken.value.reason.code == "arm-op-unknown"


def test_what_neither_way_allows_is_told_rather_than_what_one_way_does() -> None:
    """`cond` is not tried then."""
    with pytest.raises(Refused) as found:
        check_runs_untaken(records_of(lambda x: (x.masked_select(x > 1), x.add_(1))), 8)
    assert found.value.reason.code == "arm-mutates-tensor"


def test_draws_in_an_arm_that_runs_alone() -> None:
    records = records_of(lambda x: torch.rand_like(x) + x.masked_select(x > 5).sum())
    check_runs_taken(records, grad=False)
    check_runs_taken([record for record in records if not draws(record)], grad=True)
    with pytest.raises(Refused) as found:
        check_runs_taken(records, grad=True)
    assert found.value.reason.code == "arm-draws-random"


@pytest.mark.parametrize(
    ("function", "is_drawn"),
    [
        (lambda x: torch.rand_like(x), True),
        (lambda x: torch.native_dropout(x, 0.5, True), True),
        (lambda x: torch.native_dropout(x, 0.5, None), True),
        (lambda x: torch.native_dropout(x, 0.5, False), False),
        (lambda x: x * 2, False),
        (lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5), True),
        (lambda x: F.scaled_dot_product_attention(x, x, x), False),
    ],
)
def test_what_draws_random_numbers(
    function: Callable[[torch.Tensor], object], is_drawn: bool
) -> None:
    def on_rows(x: torch.Tensor) -> object:
        return function(x.expand(1, 2, 3, 3))

    assert any(map(draws, records_of(on_rows))) is is_drawn
    state = torch.get_rng_state()
    on_rows(torch.ones(3))
    assert torch.equal(state, torch.get_rng_state()) is not is_drawn
