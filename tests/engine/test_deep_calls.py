"""Calls that are nested so deep that Dynamo needs the whole stack for them: ours takes a part of it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import graphmend_bc

Deep = Callable[[torch.Tensor, int], torch.Tensor]


def plain(x: torch.Tensor, depth: int) -> torch.Tensor:
    return plain(x + 1, depth - 1) if depth else x * 2


class Wrapped:
    """Each level is traced with more frames, and with more of ours among them."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if all(issubclass(kind, (torch.Tensor, Wrapped)) for kind in types):
            return wrapped(args[0].x, args[1] - 1)


def wrapped(x: torch.Tensor, depth: int) -> torch.Tensor:
    return torch.add(Wrapped(x + 1), depth) if depth else x * 2  # type: ignore[call-overload]


def printing(x: torch.Tensor, depth: int) -> torch.Tensor:
    if not depth:
        print("the deepest")
        return x * 2
    return printing(x + 1, depth - 1)


def endless(x: torch.Tensor, depth: int) -> torch.Tensor:
    return endless(x + 1, depth)


@pytest.fixture(autouse=True)
def usual_limit() -> Iterator[None]:
    """Other tests may have left another one."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


def compiled(function: Deep, depth: int) -> Any:
    """The result of a call, or the class of what it raises."""
    torch.compiler.reset()
    try:
        return torch.compile(function, backend="eager", dynamic=False)(torch.ones(2), depth)
    except Exception as error:
        return type(error)


def deepest(function: Deep) -> int:
    """The number of levels that stock can trace."""
    fits, too_deep = 1, 100
    while too_deep - fits > 1:
        middle = (fits + too_deep) // 2
        if isinstance(compiled(function, middle), torch.Tensor):
            fits = middle
        else:
            too_deep = middle
    return fits


@pytest.mark.slow
@pytest.mark.skipif(
    sys.version_info[:2] == (3, 12), reason="CPython 3.12 lets nothing set how deep C may call."
)
@pytest.mark.parametrize("function", [plain, wrapped, printing])
def test_what_stock_can_trace_is_traced(
    function: Deep, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    limit, depth = sys.getrecursionlimit(), deepest(function)
    expected = function(torch.ones(2), depth)
    capsys.readouterr()
    with graphmend_bc.enabled(), caplog.at_level(logging.WARNING, "graphmend_bc"):
        assert torch.equal(compiled(function, depth), expected)
        reasons = {decline.reason for decline in graphmend_bc.report().declines}
    assert reasons == {"does-not-compile"}
    said = "because its calls are nested too deep to be traced with mending: RecursionError("
    told = [r.getMessage() for r in caplog.records if r.name == "graphmend_bc"]
    assert [said in message for message in told] == [True]
    assert sys.getrecursionlimit() == limit
    assert capsys.readouterr().out == ("the deepest\n" if function is printing else "")


def test_a_few_levels_are_mended() -> None:
    with graphmend_bc.enabled():
        assert torch.equal(compiled(printing, 5), torch.full((2,), 12.0))
        assert [mend.strategy for mend in graphmend_bc.report().mends] == ["defer"]
        assert graphmend_bc.report().declines == []


def test_what_has_no_end_raises_what_stock_raises() -> None:
    limit, stock = sys.getrecursionlimit(), compiled(endless, 0)
    with graphmend_bc.enabled():
        assert compiled(endless, 0) is stock
        assert {decline.reason for decline in graphmend_bc.report().declines} == {
            "does-not-compile"
        }
    assert sys.getrecursionlimit() == limit
