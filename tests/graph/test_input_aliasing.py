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


def test_speculation_that_another_input_may_write() -> None:
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
def test_writes_through_both_are_rolled_back(calls: list[tuple[torch.Tensor, ...]]) -> None:
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


def test_version_counters_are_rolled_back() -> None:
    def f(x: torch.Tensor) -> object:
        x.add_(1)
        if x.sum() < 0:
            return torch.cat([x, x])
        return x + 1

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        for base in (UP, DOWN, UP):
            x = base.clone()
            compiled(x)
            assert x._version == 1
        assert [mend.strategy for mend in gm.report().mends] == ["speculate"]


def row(start: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Three elements of a matrix from one of them on, and the matrix."""
    matrix = torch.arange(6.0).reshape(2, 3)
    return matrix.flatten()[start : start + 3], matrix


def rows(first: int, second: int) -> tuple[torch.Tensor, torch.Tensor]:
    memory = torch.arange(9.0)
    return memory[first : first + 3], memory[second : second + 3]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "calls",
    [
        [row(0), row(1), row(3), row(0)],
        [row(1), (UP, torch.stack([UP, DOWN])), row(1)],
        [(UP, torch.stack([UP, DOWN])), row(1), row(2)],
    ],
    ids=["elsewhere", "apart later", "shared later"],
)
def test_writes_to_a_row_that_is_elsewhere_in_another_call(
    calls: list[tuple[torch.Tensor, ...]], backend: str
) -> None:
    check(
        """
        def f(x, y):
            y[0].add_(10)
            print("between", len(x))
            x.mul_(2)
            return y * 1
        """,
        calls,
        mends="defer@3",
        backend=backend,
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_writes_to_parts_of_memory_that_overlap_in_another_call(backend: str) -> None:
    check(
        """
        def f(x, y):
            x.add_(10)
            z = x + 1 if y.sum() > 0 else x - 1
            y.mul_(2)
            return z
        """,
        [rows(0, 3), rows(0, 1), rows(2, 0), rows(0, 3)],
        mends="where@3",
        backend=backend,
    )
