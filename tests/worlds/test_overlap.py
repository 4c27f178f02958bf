"""Inputs that are views of the same memory in one call and apart in another."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])


def views(base: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    memory = base.clone()
    return memory[:], memory[:]


APART_AND_SHARED = [(UP, DOWN), views(UP), views(DOWN), (DOWN, UP)]


def test_chosen_input_that_another_input_may_write() -> None:
    check(
        """
        def f(x, y):
            z = x.view(3) if x.sum() > 0 else x + 1
            y.add_(10)
            return z * 2
        """,
        APART_AND_SHARED,
        mends="where@2",
    )


def test_printed_view_that_another_input_may_write() -> None:
    check(
        """
        def f(x, y):
            v = x.view(3)
            print(v)
            y.add_(10)
            return y * 2
        """,
        APART_AND_SHARED,
        mends="defer@3",
    )


def test_predicate_that_another_input_may_write() -> None:
    flags = torch.tensor([True])
    check(
        """
        def f(x, y, flags):
            on = flags[0]
            if on:
                print("on", x)
            y.fill_(False)
            return x + 1
        """,
        [(UP, ~flags, flags), (UP, *views(flags)), (UP, *views(~flags))],
        mends="where@3 defer@4",
    )


def test_guess_that_another_input_may_write() -> None:
    flags = torch.tensor([True])
    check(
        """
        def f(x, y, flags):
            on = flags[0]
            if on:
                return 1, x
            y.fill_(False)
            return x + 1
        """,
        [(UP, ~flags, flags), (UP, *views(flags)), (UP, *views(~flags))],
        mends="speculate@3",
    )


@pytest.mark.parametrize("calls", [APART_AND_SHARED, [(t, t) for t in (UP, DOWN)]])
def test_writes_through_both_are_taken_back(calls: list[tuple[torch.Tensor, ...]]) -> None:
    check(
        """
        def f(x, y):
            x.add_(1)
            y.mul_(2)
            if x.sum() < 0:
                raise ValueError(f"{x} {y}")
            return x + y
        """,
        calls,
        mends="speculate@4",
    )


def test_version_counters_are_taken_back() -> None:
    def f(x: torch.Tensor) -> object:
        x.add_(1)
        if x.sum() < 0:
            return "negative"
        return x + 1

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        for base in (UP, DOWN, UP):
            x = base.clone()
            compiled(x)
            assert x._version == 1
        assert [mend.strategy for mend in gm.report().mends] == ["speculate"]
