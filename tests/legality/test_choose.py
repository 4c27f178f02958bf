"""What `torch.where` may choose between, asked with real tensors."""

from __future__ import annotations

import pytest
import torch

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
    ],
    ids=["sparse", "gaps", "overlapping", "conjugate", "view of a complex", "empty"],
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
