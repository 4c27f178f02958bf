"""Loops whose rounds are speculated on end in the graph once they have added much to it."""

from __future__ import annotations

import pytest
import torch

from graphmend_bc.dynamo.speculation import growth
from tests.oracle import check

SOURCE = """
def f(x):
    n = 0
    for _ in range({rounds}):
        for _ in range(20):
            x = torch.sin(x) + 0.5
        n += 1
        if x.sum() > 100:
            break
    return x * 2, n
"""


@pytest.mark.parametrize(("rounds", "mends"), [(2, "speculate@7"), (9, "")])
def test_operators_are_counted(rounds: int, mends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "_MOST_NODES", 100)
    check(
        SOURCE.format(rounds=rounds),
        [torch.ones(3), -torch.ones(3)],
        mends=mends,
        declines=None,
        breaks=None,
    )
