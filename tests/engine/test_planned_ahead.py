"""Conditions that are planned before Dynamo meets them, once something else broke the graph."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

CALLS = [torch.ones(3) * 2, torch.ones(3) * 3, torch.zeros(3)]


@pytest.mark.parametrize(
    "call", ["y = pow(x, 2)", "y = pickle.loads(pickle.dumps((1, 2)))[1] * x", "y = x ** Two.get()"]
)
def test_a_condition_after_a_call_has_all_rules(call: str) -> None:
    """Its arms cannot both be computed, so that it is speculated on."""
    source = f"""
    import contextvars, pickle
    Two = contextvars.ContextVar('two', default=2)

    def f(x):
        {call}
        if y.sum() > 3:
            return [y, x]
        return [y]
    """
    outcome = check(source, CALLS, None, None, breaks=None)
    assert "speculate@6" in outcome.mends
    assert "arms-differ-in-type" not in outcome.declines
