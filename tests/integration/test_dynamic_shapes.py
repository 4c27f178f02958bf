"""Symbolic sizes, new shapes and dtypes, and the limits on recompiling."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
SHAPES = [UP, DOWN, torch.ones(5), -torch.ones(7), UP / 0, torch.ones(3, 2).t(), torch.ones(1)]

MIXED = """
def f(x):
    y = x + x.shape[0]
    if torch.isinf(y).any():
        y = torch.clamp(y, max=1e4)
    if y.sum() < -3:
        return y * 2, y.shape[0]
    print("largest", y.max())
    return y * 3
"""


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [True, False, None])
def test_new_shapes(dynamic: bool | None) -> None:
    # Of the transposed input, symbolic strides of the arms are not known to be the same.
    first = "" if dynamic is False else "speculate@3 "
    check(MIXED, SHAPES, mends=f"{first}where@3 speculate@5 defer@7", dynamic=dynamic, orders=2)


def test_symbolic_sizes_keep_the_cheap_rung() -> None:
    check(
        """
        def f(x):
            if x.sum() > 0:
                x = x * x.shape[0]
            else:
                x = x - 1
            return x + 1
        """,
        SHAPES[:4],
        mends="where@2",
        dynamic=True,
    )


def test_new_dtypes() -> None:
    check(
        MIXED,
        [UP, UP.double(), DOWN.half(), -UP.long(), UP.bfloat16()],
        mends="speculate@3 where@3 speculate@5 defer@7",
        orders=2,
    )


def test_loop_on_symbolic_sizes() -> None:
    check(
        """
        def f(x):
            n = x.shape[0]
            y = x + 1
            while y.sum() < 50:
                y = y.abs() * 2 + n
            return y - n
        """,
        SHAPES[:4],
        mends="while_loop@4",
        dynamic=True,
    )


GROWS = """
def f(x):
    x.add_(1)
    if x.sum() < 0:
        raise ValueError("negative")
    return x * 2
"""
SIZES = [sign * torch.ones(size) for size in (3, 4, 9, 5) for sign in (1, -3)]


@pytest.mark.parametrize("dynamic", [None, True])
def test_written_inputs_of_symbolic_sizes(dynamic: bool | None) -> None:
    """How much is copied is guarded: what is larger than the limit is compiled as stock has it."""
    assert check(GROWS, SIZES, "speculate@3", breaks=None, dynamic=dynamic).breaks == 0
    # Where the largest comes first, the others take what was compiled for it.
    mends = {"forward": "speculate@3", "reversed": ""}
    breaks = {"forward": 1, "reversed": 2 if dynamic is None else 1}
    with gm.config.patch(snapshot_limit=16):
        check(GROWS, SIZES, mends, "speculation-writes-input@3", breaks, dynamic=dynamic)


@pytest.mark.parametrize(("limit", "reasons"), [(64, set()), (32, {"speculation-writes-input"})])
def test_written_inputs_of_marked_sizes(limit: int, reasons: set[str]) -> None:
    """A guard for a size between the bounds would violate the mark."""

    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        if x.sum() < 0:
            raise ValueError("negative")
        return x * 2

    patch = torch._dynamo.config.patch(error_on_recompile=True)
    with gm.enabled(), patch, gm.config.patch(snapshot_limit=limit):
        compiled = torch.compile(f, backend="eager")
        for size in (3, 16, 2):
            x = torch.ones(size)
            torch._dynamo.mark_dynamic(x, 0, min=2, max=16)
            assert torch.equal(compiled(x), torch.full((size,), 4.0))
            x.fill_(-3)
            with pytest.raises(ValueError, match="negative"):
                compiled(x)
            assert torch.equal(x, torch.full((size,), -2.0))
        assert {decline.reason for decline in gm.report().declines} == reasons


def test_marked_dimension_stays_dynamic() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x * x.shape[0]
        assert x.max() < 100, f"{x.shape}"
        return x

    sizes = (3, 5, 9)
    with gm.enabled(), torch._dynamo.config.patch(error_on_recompile=True):
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for size in sizes:
            x = torch.ones(size)
            torch._dynamo.mark_dynamic(x, 0)
            assert torch.equal(compiled(x), f(x))
            assert torch.equal(compiled(-x), f(-x))
    with gm.enabled(), pytest.raises(AssertionError, match=r"\[3\]"):
        compiled(UP * 1000)


def test_changed_speculation_is_no_recompilation() -> None:
    def f(x: torch.Tensor) -> object:
        if x.sum() > 0:
            return "positive"
        return x + 1

    with gm.enabled(), torch._dynamo.config.patch(error_on_recompile=True, recompile_limit=1):
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for x in (UP, DOWN, UP, UP, DOWN, DOWN) * 20:
            assert str(compiled(x)) == str(f(x))


def test_past_the_recompile_limit() -> None:
    """It is left to stock before, and then nothing of it counts as mended."""
    with torch._dynamo.config.patch(recompile_limit=2):
        check(
            MIXED,
            [torch.ones(n) * s for n in (2, 3, 4, 5) for s in (1, -9)],
            mends="",
            declines="mending-does-not-pay@1",
            breaks=5,
        )
