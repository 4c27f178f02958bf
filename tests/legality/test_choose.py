"""What `torch.where` may choose between, asked with real tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from graphmend_bc.legality.choose import check_can_choose, check_predicate
from graphmend_bc.reporting.reasons import Refused

X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (X[:1], "shape"),
        (X.long(), "dtype"),
        (X.to("meta"), "device"),
        (X.to_sparse(), "layout"),
        (X.t().contiguous().t(), "strides"),
    ],
)
def test_the_first_difference_is_named(other: torch.Tensor, difference: str) -> None:
    with pytest.raises(Refused, match=difference) as found:
        check_can_choose(X, other)
    assert found.value.reason.code == "arms-differ-in-layout"


@pytest.mark.parametrize(
    "both",
    [
        X.to_sparse(),
        X[:, ::2],
        X[:1].expand(2, 3),
        torch.complex(X, X).conj(),
        torch.complex(X, X).imag,
        X[:0],
        torch.quantize_per_tensor(X, 0.1, 0, torch.quint8),
        X.to_mkldnn(),
        torch._neg_view(X),
        torch.ones(1).to_sparse(),
    ],
    ids="sparse gaps overlapping conjugate view_of_a_complex empty quantized opaque negated sparse_of_one".split(),
)
def test_what_where_would_lay_out_otherwise(both: torch.Tensor) -> None:
    with pytest.raises(Refused):
        check_can_choose(both, both)


def test_a_gradient_of_one_arm_only() -> None:
    with pytest.raises(Refused) as found:
        check_can_choose(X, X.clone().requires_grad_())
    assert found.value.reason.code == "gradient-reach"


@pytest.mark.parametrize("both", [X, X.t(), X[0, :0], torch.tensor(3), X.clone().requires_grad_()])
def test_equal_layouts(both: torch.Tensor) -> None:
    check_can_choose(both, both.clone(memory_format=torch.preserve_format))
    chosen = torch.where(torch.tensor(True), both, both)
    assert chosen.stride() == both.stride()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_predicates_of_one_element(shape: tuple[int, ...]) -> None:
    check_predicate(torch.ones(shape))


@pytest.mark.parametrize("bad", [X, X[:0], torch.ones(1).to_sparse()])
def test_other_predicates(bad: torch.Tensor) -> None:
    with pytest.raises(Refused) as found:
        check_predicate(bad)
    assert found.value.reason.code == "predicate-not-scalar"


# Sizes that are symbols


def unknown(number: int) -> list[Any]:
    """Sizes known only at run time; to ask one for a guard raises."""
    env = ShapeEnv()
    sizes = [env.create_unbacked_symint() for _ in range(number)]
    for size in sizes:
        torch._check(size >= 0)
    return sizes


def fake(size: tuple[Any, ...], stride: tuple[Any, ...]) -> torch.Tensor:
    env = next(s.node.shape_env for s in (*size, *stride) if isinstance(s, torch.SymInt))
    with FakeTensorMode(shape_env=env):
        return torch.empty_strided(size, stride)


def test_equal_symbols() -> None:
    n, m = unknown(2)
    check_can_choose(fake((n, 3), (3, 1)), fake((n, 3), (3, 1)))
    check_can_choose(fake((2, n), (n, 1)), fake((2, n), (n, 1)))
    check_can_choose(fake((1, n), (5 * m, 1)), fake((1, n), (5 * m, 1)))


def test_symbols_that_may_differ() -> None:
    n, m = unknown(2)
    for one, other in [
        (fake((n,), (1,)), fake((m,), (1,))),
        (fake((n,), (1,)), torch.ones(3)),
        (torch.ones(3), fake((n,), (1,))),
        (fake((n, 1), (1, 1)), fake((n,), (1,))),
        (fake((n,), (1,)), fake((n, 1), (1, 1))),
    ]:
        with pytest.raises(Refused, match="shape"):
            check_can_choose(one, other)
    for left, right in [((n, 1), (m, 1)), ((1, n), (n, 1)), ((n, 1), (3, 1))]:
        with pytest.raises(Refused, match="strides"):
            check_can_choose(fake((n, n), left), fake((n, n), right))
    gaps = fake((n, 3), (6, 2))
    with pytest.raises(Refused, match="strides"):
        check_can_choose(gaps, gaps)


def test_a_predicate_of_unknown_size() -> None:
    (n,) = unknown(1)
    with pytest.raises(Refused):
        check_predicate(fake((n,), (1,)))
