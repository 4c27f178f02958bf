"""Ranges of integers, compared with what real tensors of several sizes hold."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges

from graphmend_bc.legality.integers import (
    TRUTHS,
    UNKNOWN,
    Size,
    all_of,
    between,
    fits,
    is_integral,
    is_within,
    union,
)

ENV = ShapeEnv()
SIZES: dict[str, Size] = {
    "s": ENV.create_unbacked_symint(),
    "t": ENV.create_unbacked_symint(),
    "4": 4,
}
OPERANDS = list(itertools.product((0, 1), SIZES))
DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64),
]


@pytest.mark.parametrize(("one", "other"), list(itertools.product(OPERANDS, repeat=2)))
def test_a_union_has_all_elements(one: tuple[int, str], other: tuple[int, str]) -> None:
    """It is said to lie between two bounds if it does so for all sizes, and only then."""
    found = union(*(between(low, SIZES[stop]) for low, stop in (one, other)))
    for low, stop in OPERANDS:
        known = True
        for s, t in itertools.product(range(1, 8), repeat=2):
            sizes = {"s": s, "t": t, "4": 4}
            joined = torch.cat([torch.arange(low, sizes[stop]) for low, stop in (one, other)])
            known &= bool(((joined >= low) & (joined < sizes[stop])).all())
        assert is_within(found, low, SIZES[stop]) is known


@pytest.mark.parametrize("stop", [SIZES["s"], 4, 2**63])
def test_what_is_not_known_is_within_no_bounds(stop: Size) -> None:
    assert not is_within(UNKNOWN, -(2**63), stop)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_of_integers(dtype: torch.dtype) -> None:
    half = torch.tensor(0.5).to(dtype)
    holds_half = dtype is not torch.bool and bool(half == 0.5)
    assert is_integral(half) is not holds_half
    assert (all_of(dtype) is UNKNOWN) is holds_half


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "bounds", [(0, 1), (-1, 0), (0, 255), (0, 256), (-128, 127), (-(2**31), 0), (0, 2**63 - 1)]
)
def test_a_range_fits_a_dtype_of_integers_that_holds_its_bounds(
    dtype: torch.dtype, bounds: tuple[int, int]
) -> None:
    numbers = torch.tensor(bounds)
    found = numbers.to(dtype)
    holds = is_integral(found) and torch.equal(found.to(torch.int64), numbers)
    assert fits(ValueRanges(*bounds), dtype) is holds


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_known_fits_no_dtype(dtype: torch.dtype) -> None:
    assert not fits(UNKNOWN, dtype)
    assert fits(TRUTHS, dtype) is is_integral(torch.empty(0, dtype=dtype))
