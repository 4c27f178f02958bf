"""Lists of the indices at which a mask is true, as routers of experts make them."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check

ALL = torch.tensor([[3.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, 5.0], [4.0, 2.0, 1.0]])
SOME = torch.tensor([[3.0, 1.0, 0.0], [5.0, 2.0, 1.0], [1.0, 0.0, 5.0], [4.0, 2.0, 1.0]])
NONE = torch.full((4, 3), float("nan"))

# Each row chooses the column of its largest number.
ROUTED = """
        def f(x):
            choice = (x @ torch.eye(3)).argmax(-1)
            masks = torch.nn.functional.one_hot(choice, 3).permute(1, 0)
            counts = masks.sum(-1)
            total = torch.zeros_like(x)
            for e in {list}:
                (rows,) = torch.where(masks[e])
                total.index_add_(0, rows, x[rows] * (e + 1))
            return total
        """


@pytest.mark.slow
@pytest.mark.parametrize(
    "indices",
    [
        "(counts > 0).nonzero(as_tuple=True)[0].tolist()",
        "counts.nonzero(as_tuple=True)[0].tolist()",
        "torch.nonzero(counts, as_tuple=True)[0].tolist()",
        "torch.where(counts > 0)[0].tolist()",
        "(counts > 0).nonzero().flatten().tolist()",
        "(counts > 0).nonzero().squeeze(-1).tolist()",
        "(counts > 0).nonzero()[:, 0].tolist()",
        "torch.nonzero(counts).view(-1).tolist()",
    ],
)
def test_every_index_is_in_the_list(indices: str) -> None:
    source = ROUTED.format(list=indices)
    found = check(
        source,
        [ALL, SOME, ALL + 1],
        mends="capture@6 speculate@6 capture@7",
        declines=None,
        breaks=None,
        orders=1,
    )
    assert "speculate@6" in found.mends
    assert check(source, [ALL], mends="capture@6 speculate@6 capture@7").breaks == 0


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("calls", [[ALL, SOME, ALL], [SOME, ALL], [NONE, ALL]])
def test_what_the_list_steers(calls: list[torch.Tensor], backend: str) -> None:
    full = "capture@6 speculate@6 defer@7"
    first = (
        full if calls[0] is ALL else "hoist@6 defer@7"
    )  # what the first call has is speculated on
    check(
        """
        weights = [torch.ones(3, requires_grad=True) for _ in range(3)]
        seen = []

        def f(x):
            counts = torch.nn.functional.one_hot((x.nan_to_num() @ torch.eye(3)).argmax(-1), 3).sum(0)
            hits = counts.nonzero(as_tuple=True)[0].tolist()
            print("hits", len(hits))
            total = x * 0
            for e in hits:
                seen.append(e)
                total = total + weights[e] * x
            hits.append(7)
            return total, hits
        """,
        [call.clone().requires_grad_() for call in calls],
        mends={"forward": first, "reversed": full},
        declines=None,
        breaks=None,
        backend=backend,
        grad=True,
    )


@pytest.mark.parametrize(
    "change",
    ["counts.zero_()", "hits.add_(1)", "hits[0] = 2", "hits = hits.flip(0)", "hits = hits[1:]"],
)
def test_what_is_changed_between(change: str) -> None:
    check(
        f"""
        def f(x):
            counts = torch.nn.functional.one_hot((x @ torch.eye(3)).argmax(-1), 3).sum(0)
            hits = counts.nonzero(as_tuple=True)[0]
            {change}
            total = x * 0
            for e in hits.tolist():
                total = total * 2 + x * e
            return total
        """,
        [ALL, SOME, ALL],
        mends="capture@3 speculate@6" if change == "counts.zero_()" else "capture@6",
        declines=None,
        breaks=None,
    )


def test_list_that_the_inputs_tell_is_computed_before_the_graph() -> None:
    """A speculation could miss."""
    source = """
        def f(x, mask):
            total = x * 0
            for e in mask.nonzero(as_tuple=True)[0].tolist():
                total = total * 2 + x * e
            return total
        """
    masks = [torch.tensor([True, True, True]), torch.tensor([True, False, True])]
    found = check(source, [(ALL, mask) for mask in masks], mends="capture@3 hoist@3", declines=None)
    assert "hoist@3" in found.mends
    assert "speculate" not in found.mends


def test_list_that_is_not_full_is_declined() -> None:
    found = check(
        ROUTED.format(list="counts.nonzero(as_tuple=True)[0].tolist()"),
        [SOME, SOME + 1],
        mends="capture@6 capture@7",
        declines=None,
        breaks=None,
        orders=1,
    )
    assert "hoist-too-dear@6" in found.declines  # after `list-not-full`
    assert "speculate" not in found.mends


def test_list_in_another_order_is_no_list_of_indices() -> None:
    found = check(
        ROUTED.format(list="counts.argsort().tolist()"),
        [ALL, SOME],
        mends="capture@6 capture@7",
        declines=None,
        breaks=None,
        orders=1,
    )
    assert "speculate" not in found.mends


def test_a_list_of_other_numbers_costs_no_attempt_of_its_own() -> None:
    """It may not be read after the graph, is no list of indices, and is known before the graph."""

    def f(x: torch.Tensor) -> torch.Tensor:
        low, high = (x * 2).tolist()
        return x.clamp(low, high)

    with gm.enabled(cache=False):
        found = torch.compile(f, backend="eager")(torch.tensor([-0.5, 0.5]))
        (frame,) = gm.report().frames
    assert found.tolist() == [-0.5, 0.5]
    assert [one.failed_at.partition(" ")[0] for one in frame.attempts] == ["host-value-used", ""]
