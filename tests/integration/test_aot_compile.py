"""`torch.compile(f).aot_compile(...)` keeps a graph without what we put around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.exc import Unsupported

import graphmend_bc as gm

UP, DOWN = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])


def listed(x: torch.Tensor) -> list[torch.Tensor]:
    if x.sum() > 0:
        return [x * 2]
    return [x - 1, x]


def refuses(x: torch.Tensor) -> torch.Tensor:
    if (x < 0).any():
        raise ValueError("negative")
    return x + 1


def doubled(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    if x.sum() > 0:
        x = x * 2
    return x


@pytest.fixture(autouse=True)
def aot() -> Any:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(enable_aot_compile=True), gm.enabled():
        yield


def ahead_of_time(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled: Any = torch.compile(function, fullgraph=True, backend="eager")
    result: Callable[..., Any] = compiled.aot_compile(((UP,), {}))
    return result


@pytest.mark.parametrize("function", [listed, refuses])
def test_a_speculation_is_declined(function: Callable[..., Any]) -> None:
    with pytest.raises(Unsupported, match="Data-dependent branching") as raised:
        ahead_of_time(function)
    assert any("under-export" in note for note in raised.value.__notes__)
    assert {decline.reason for decline in gm.report().declines} == {"under-export"}
    assert gm.report().mends == []


def test_a_selection_is_mended() -> None:
    compiled = ahead_of_time(doubled)
    for x in (UP, DOWN, UP):
        assert torch.equal(compiled(x), doubled(x))
    assert [mend.strategy for mend in gm.report().mends] == ["where"]
