"""Where Dynamo itself fails on what ours gave it, stock compiles the frame without us."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._dynamo.variables.base import AttributeMutationNew, VariableTracker

from graphmend_bc import session
from graphmend_bc.dynamo.corrections import same_tensors
from tests.faults.planted import warnings_of_ours


def tagged(x: Tensor) -> Tensor:
    y = x.contiguous()
    return x * getattr(y, "tag", 5)


def branching(x: Tensor) -> Tensor:
    if x.sum() > 0:
        x = x * 2
    return tagged(x)


def dynamo_refuses(*args: object) -> None:
    VariableTracker(source=object(), mutation_type=AttributeMutationNew())  # type: ignore[arg-type]


# Of the second, two ways to go on after the break are compiled as well.
@pytest.mark.parametrize(("function", "frames"), [(tagged, 1), (branching, 3)])
def test_stock_compiles_what_dynamo_fails_on(
    function: Callable[[Tensor], Tensor], frames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(same_tensors, "_source", dynamo_refuses)
    x, state = torch.ones(2), session.new_state(mends=True)
    with warnings_of_ours() as warned, session.mending_by(state):
        compiled = torch.compile(function, backend="eager")
        for given in (x, -x, x):
            assert torch.equal(compiled(given), function(given))
    assert "internal-error" in {decline.reason for decline in state.report.declines}
    assert len(warned) == frames, warned


def test_what_dynamo_fails_on_without_us_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(self: object, tx: object, name: str) -> None:
        dynamo_refuses()

    monkeypatch.setattr(torch._dynamo.variables.TensorVariable, "dynamic_getattr", refuses)
    state = session.new_state(mends=True)
    with warnings_of_ours() as warned, session.mending_by(state):
        compiled = torch.compile(tagged, backend="eager")
        with pytest.raises(AssertionError, match="source must be None"):
            compiled(torch.ones(2))
    assert warned == []
