"""Branches that ask whether there are any rows: what is done with none does nothing."""

from __future__ import annotations

import pytest
import torch

from tests.backends import EAGER_AND_AOT
from tests.oracle import check

X = torch.arange(12.0).reshape(4, 3) - 5
ALL, SOME, NONE = (torch.tensor(c) for c in ([0, 1, 2, 1], [2, 2, 0, 2], [7, 7, 7, 7]))
CALLS = [(X, ALL), (X, SOME), (X, NONE), (X, ALL)]

ROUTED = """
    import torch
    experts = [torch.nn.Linear(3, 3) for _ in range(3)]
    for i, expert in enumerate(experts):
        with torch.no_grad():
            expert.weight.copy_(torch.eye(3) * (i + 2))
        expert.requires_grad_(False)
    log = []
    def f(x, choice):
        out = torch.zeros_like(x)
        n = 0
        for e in range(3):
            (rows,) = torch.where(choice == e)
            {body}
        return out, n
    """
ADD = "out.index_add_(0, rows, experts[e](x[rows]).tanh())"


@EAGER_AND_AOT
@pytest.mark.parametrize(
    "body",
    [
        f"if rows.shape[0] == 0: continue\n            {ADD}",
        f"if not rows.numel(): continue\n            {ADD}",
        f"if len(rows) > 0:\n                {ADD}",
        f"if rows.size(0):\n                {ADD}",
        f"if rows.numel() < 1: continue\n            {ADD}",
        "if rows.shape[0] == 0: continue\n            out[rows] = experts[e](x[rows])",
        "if rows.shape[0] == 0: continue\n            out[rows] += x[rows].softmax(-1) * (e + 1)",
        f"if x[rows].numel() == 0: continue\n            y = x[rows] * 2; {ADD}; out[rows, 0] = y[:, 1]",
    ],
)
def test_done_with_any_number(body: str, backend: str) -> None:
    check(ROUTED.format(body=body), CALLS, "capture@12 fold@13", backend=backend, fullgraph=True)


def test_under_inductor() -> None:
    body = "if rows.shape[0] == 0: continue\n            out.index_add_(0, rows, x[rows] * 2)"
    check(ROUTED.format(body=body), CALLS, "capture@12 fold@13", backend="inductor", orders=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        f"if rows.shape[0] < 2: continue\n            {ADD}",
        f"if rows.shape[0] == 0: continue\n            {ADD}; n += 1",
        f"if rows.shape[0] == 0: continue\n            {ADD}; log.append(e)",
        f"if rows.shape[0] == 0: continue\n            {ADD}; print(e)",
        f"if rows.shape[0] == 0: continue\n            {ADD}; out.mul_(2)",
        "if rows.shape[0] == 0: continue\n            out = out + x[rows].sum(0)",
        "if rows.shape[0] == 0: continue\n            out[e] = x[rows].mean(0)",
        "if rows.shape[0] == 0: out.add_(1)\n            else: out[rows] = x[rows]",
        "if rows.shape[0] == 0: continue\n            out[rows] = torch.rand_like(x[rows])",
        "if rows.shape[0] == 0: continue\n            x.index_add_(0, rows, x[rows])",
        f"if rows.shape[0] == 0: continue\n            {ADD}; n = out._version",
        f"k = choice[e].item() - 1\n            if k == 0: continue\n            {ADD}",
    ],
)
def test_where_it_matters_it_is_speculated_on(body: str) -> None:
    calls = [(X.clone(), ALL), (X.clone(), SOME), (X.clone(), NONE), (X.clone(), ALL)]
    if body.startswith("k ="):
        mends = "capture@12 capture@13 speculate@14"
    else:
        also = " defer@14" * ("print" in body) + " capture@14" * ("_version" in body)
        also += " accumulate@14" * ("append" in body)
        mends = f"capture@12 speculate@13{also}"
    # With more calls the masks of rounds that flip are computed before the graph.
    wanted = {"forward": mends, "twice": None, "both ways": None}
    check(ROUTED.format(body=body), calls, wanted, None, None)


def test_gradients_of_experts_without_rows_stay_none() -> None:
    body = f"if rows.shape[0] == 0: continue\n            {ADD}"
    source = ROUTED.format(body=body).replace("requires_grad_(False)", "requires_grad_(True)")
    check(source, CALLS, "capture@12 speculate@13", None, None, grad=True)
