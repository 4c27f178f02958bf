"""Loops over the indices at which a mask is true, as routers of experts make them."""

from __future__ import annotations

import pytest
import torch

from tests.contrib.test_moe_lists import ALL, NONE, SOME
from tests.oracle import check

FIRST = torch.tensor([[3.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 5.0, 0.0], [4.0, 2.0, 1.0]])

# Each row chooses the column of its largest number.
ROUTED = """
        experts = torch.nn.ModuleList(torch.nn.Identity() for _ in range(3))

        def f(x):
            choice = (x @ torch.eye(3)).argmax(-1)
            masks = torch.nn.functional.one_hot(choice, 3).permute(1, 0)
            counts = masks.sum(-1)
            total = torch.zeros_like(x)
            for e in {rows}:
                {index}
            return total

        named = torch.nn.ModuleDict((f"expert_{{n}}", experts[n]) for n in range(3))
        columns = dict((f"{{n:03d}}", n) for n in range(3))
        """
ADD = "(rows,) = torch.where({mask}); total.index_add_(0, rows, x[rows] * (e + 1))"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "index"),
    [
        ("(counts > 0).nonzero()", ADD.format(mask="masks[e].squeeze(0)")),
        ("counts.nonzero()", "e = e[0]; " + ADD.format(mask="masks[e]")),
        ("torch.nonzero(counts)", "n = e.item(); " + ADD.format(mask="masks[n]")),
        ("torch.where(counts > 0)[0]", ADD.format(mask="masks[e, :]")),
        ("(counts > 0).nonzero().flatten()", ADD.format(mask="masks[int(e)]")),
        ("counts.nonzero()[:, 0]", "total[e] += e * 2"),
        ("counts.nonzero()[:]", "total = total + x * e[0]"),
        ("counts.nonzero()", "total = total + experts[e](x) * e"),
        ("counts.nonzero()", "total = total + x if e == 2 else total - x"),
        ("counts.nonzero()", "total = total + named[f'expert_{e[0]}'](x) * e"),
        ("counts.nonzero().flatten()", "total[columns[f'{e:03d}']] += x[0]"),
        ("counts.nonzero().squeeze(-1)", "total = total if e == 3 else total + [x, -x, 2 * x][e]"),
    ],
)
def test_every_row_is_known(rows: str, index: str) -> None:
    source = ROUTED.format(rows=rows, index=index)
    # A mask's rows have a size that is captured; a branch on a row's number is folded.
    also = " capture@9" if "torch.where" in index else " fold@9" if " if " in index else ""
    mends = f"capture@8 speculate@8{also}"
    check(source, [ALL, SOME, ALL + 1], mends, declines=None, breaks=None, orders=1)
    check(source, [ALL], mends)


SENTINEL = """
        weights = torch.nn.Parameter(torch.ones(4, 3))

        def f(x):
            choice = (x.detach().nan_to_num() @ torch.eye(3)).{choice}
            hits = torch.nn.functional.one_hot(choice, {classes}).sum(0).nonzero()
            total = x * 0
            for e in hits:
                e = e[0]
                if e == 3:
                    continue
                total = total + weights[e] * x
            return total
        """


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("calls", [[ALL, SOME, FIRST, ALL], [FIRST, ALL], [NONE, ALL]])
def test_a_place_behind_the_last_index(calls: list[torch.Tensor], backend: str) -> None:
    """Where no number can be the last class, the first speculation leaves it out."""
    source = SENTINEL.format(choice="argmax(-1)", classes=4)
    inputs = [call.clone().requires_grad_() for call in calls]
    check(
        source,
        inputs,
        mends={"forward": "capture@5 speculate@7 fold@9", "both ways": None},
        declines=None,
        breaks=None,
        backend=backend,
        grad=True,
    )
    check(source, [ALL], mends="capture@5 speculate@7 fold@9")


def test_a_place_behind_the_last_index_that_is_found_by_a_miss() -> None:
    source = SENTINEL.format(choice="argmax(-1).clamp(max=3) * 1", classes=4).replace(
        "choice, 4", "choice.to(torch.int32).long() % 4, 4"
    )
    check(
        source,
        [FIRST, ALL, ALL, SOME],
        mends="capture@5 speculate@7 fold@9",
        declines=None,
        breaks=None,
        grad=False,
    )


@pytest.mark.parametrize(
    "change",
    [
        "counts.zero_()",
        "hits.add_(1)",
        "hits[0] = 2",
        "hits = hits.flip(0)",
        "hits = hits[1:]",
        "hits = hits + 0",
    ],
)
def test_what_is_changed_before_the_loop(change: str) -> None:
    check(
        f"""
        def f(x):
            counts = torch.nn.functional.one_hot((x @ torch.eye(3)).argmax(-1), 3).sum(0)
            hits = counts.nonzero()
            {change}
            total = x * 0
            for e in hits:
                total = total * 2 + x * e
            return total, hits
        """,
        [ALL, SOME, ALL],
        mends="capture@3 speculate@6" if change == "counts.zero_()" else "",
        declines=None,
        breaks=None,
    )


@pytest.mark.parametrize(
    "change",
    ["e.add_(1)", "hits.add_(1)", "e[0] = 1", "e = e + 1", "hits[2] = 1", "kept.append(e)"],
)
def test_what_is_changed_in_the_loop(change: str) -> None:
    """A row is a part of what the loop goes over."""
    check(
        f"""
        def f(x):
            counts = torch.nn.functional.one_hot((x @ torch.eye(3)).argmax(-1), 3).sum(0)
            hits = counts.nonzero()
            total, kept = x * 0, []
            for e in hits:
                {change}
                total = total * 2 + [x, -x, x * 3, x - 1, x + 1][e]
            return total, hits, kept
        """,
        [ALL, SOME, ALL],
        mends="capture@3 speculate@5" if change in ("e = e + 1", "kept.append(e)") else "",
        declines=None,
        breaks=None,
    )


def test_gradients_of_what_no_row_chooses() -> None:
    check(
        """
        weights = [torch.ones(3, requires_grad=True) for _ in range(3)]

        def f(x):
            counts = torch.nn.functional.one_hot((x @ torch.eye(3)).argmax(-1), 3).sum(0)
            total = x * 0
            for e in counts.nonzero():
                print("expert", e.item())
                total = total + weights[e] * x
            return total
        """,
        [
            SOME.clone().requires_grad_(),
            ALL.clone().requires_grad_(),
            SOME.clone().requires_grad_(),
        ],
        mends="capture@6 speculate@6 defer@7",
        declines=None,
        breaks=None,
        grad=True,
    )


def test_rows_that_are_few_are_declined() -> None:
    source = ROUTED.format(rows="counts.nonzero()", index="total = total + x * e")
    found = check(
        source,
        [SOME, SOME + 1, SOME],
        mends="capture@8 speculate@8",
        declines=None,
        breaks=None,
        orders=1,
    )
    assert found.breaks > 0


def test_pairs_of_indices_are_declined() -> None:
    source = """
        def f(x):
            total = x * 0
            for i, j in (x > 1).nonzero():
                total = total + x[i, j]
            return total
        """
    found = check(
        source, [ALL, SOME], mends="hoist@3 capture@4", declines=None, breaks=None, orders=1
    )
    assert "speculate" not in found.mends
