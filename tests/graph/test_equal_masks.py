"""Masks that are computed twice: what they select has the same size, unless something was written."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.backends import EAGER_AND_AOT
from tests.oracle import Outcome, check

X = torch.arange(4.0)


def _calls() -> list[object]:
    """All, some, one and no elements are selected."""
    masks = [(1, 1, 0, 0), (1, 1, 1, 0), (0, 1, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0)]
    return [(X, X + n - 1, torch.tensor(mask, dtype=torch.bool)) for n, mask in enumerate(masks)]


def _agree(body: str, backend: str) -> Outcome:
    # Masks of inputs would be computed before the graph.
    with gm.config.patch(rules_off=("hoist",)):
        return check(
            f"""
            def f(x, y, p):
                x = x * 1
                {body}
                return x
            """,
            _calls(),
            mends="capture@3",
            declines=None,
            breaks=None,
            orders=1,
            backend=backend,
        )


@EAGER_AND_AOT
@pytest.mark.parametrize(
    "body",
    [
        "x[~p] += x[~p] * 2",
        "x[y > 2] *= x[y > 2].cumsum(0)",
        "x[p & ~(y == 1)] -= x[p & ~(y == 1)].flip(0)",
        "t = x[~p]; n = t.shape[0]; x[~p] = x[~p] + t * n",
        "x[~p]; x[~p] += 1",
    ],
)
def test_the_same_size(body: str, backend: str) -> None:
    outcome = _agree(body, backend)
    assert (outcome.graphs, outcome.breaks) == (1, 0)
    assert "capture@3" in outcome.mends


@EAGER_AND_AOT
@pytest.mark.parametrize(
    "body",
    [
        "t = x[~p]; p = p.clone(); p.logical_not_(); x = torch.cat([x[~p], t])",
        "t = x[~p]; p.data.logical_not_(); x = torch.cat([x[~p], t])",
        "q = ~p; t = x[q]; q.logical_not_(); x = torch.cat([x[~p], x[q], t])",
        "q = ~p; q.logical_not_(); t = x[q]; x = torch.cat([x[~p], t])",
        "t = x[y > 1]; y.sub_(1); x = torch.cat([x[y > 1], t])",
        "q = ~p; t = x[q & p]; r = ~p; r.logical_not_(); q.fill_(True); x = torch.cat([x[q & p], x[r & p], t])",
        "t = x[y > 1]; y[:2].sub_(1); x = torch.cat([x[y > 1], t])",
    ],
)
def test_another_size_after_a_write(body: str, backend: str) -> None:
    assert "capture@3" in _agree(body, backend).mends
