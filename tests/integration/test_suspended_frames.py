"""Coroutines and generators: exact, or refused as loudly as stock refuses them."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch

import graphmend_bc as gm

UP, DOWN = torch.ones(2), -torch.ones(2) * 5


def helper(x: torch.Tensor) -> torch.Tensor:
    if x.sum() < 0:
        raise ValueError("negative")
    print("fine", x)
    return x * 2


async def guarded(x: torch.Tensor) -> torch.Tensor:
    if x.sum() < 0:
        raise ValueError("negative")
    return x + 1


async def waiting(x: torch.Tensor) -> torch.Tensor:
    await asyncio.sleep(0)
    y = x * 2 if x.sum() > 0 else x - 1
    await asyncio.sleep(0)
    return y


async def calling(x: torch.Tensor) -> torch.Tensor:
    return helper(x) + 1


async def awaiting(x: torch.Tensor) -> torch.Tensor:
    return await guarded(x + 1) + 1


@types.coroutine
def older(x: torch.Tensor) -> Generator[None, None, torch.Tensor]:
    y = helper(x)
    yield
    return y


async def asynchronous(x: torch.Tensor) -> AsyncIterator[torch.Tensor]:
    for i in range(2):
        if x.sum() < 0:
            raise ValueError("negative")
        yield x + i


def generator(x: torch.Tensor) -> Iterator[torch.Tensor]:
    for i in range(2):
        print(i)
        yield helper(x) + i


def inlining_generator(x: torch.Tensor) -> list[torch.Tensor]:
    return list(generator(x))


def inlining_coroutine(x: torch.Tensor) -> Any:
    running = guarded(x)
    try:
        running.send(None)
    except StopIteration as stop:
        return stop.value + 1


def _result(value: Any) -> Any:
    """What comes of a call in the end, as lists of numbers."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if hasattr(value, "__aiter__"):
        return _result(_collected(value))
    if isinstance(value, Coroutine) or asyncio.iscoroutine(value):
        return _result(asyncio.run(value))
    if isinstance(value, types.GeneratorType):
        return _result(asyncio.run(_awaited(value)) if value.gi_code.co_flags & 0x100 else [*value])
    return [_result(item) for item in value]


async def _collected(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


async def _awaited(value: Any) -> Any:
    return await value


def _outcomes(function: Callable[..., Any]) -> list[Any]:
    """The numbers, or what is raised, of calls that go both ways."""
    found: list[Any] = []
    for x in (UP, DOWN, UP, DOWN):
        try:
            found.append(_result(function(x)))
        except Exception as error:
            found.append((type(error).__name__, str(error).split("\n")[0]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        *(guarded, waiting, calling, awaiting, older),
        *(asynchronous, generator, inlining_generator, inlining_coroutine),
    ],
)
def test_exact_or_as_stock(
    function: Callable[..., Any],
    fullgraph: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arms = []
    for block in (nullcontext, gm.enabled):
        torch._dynamo.reset()
        with block():
            compiled = torch.compile(function, backend="eager", fullgraph=fullgraph)
            arms.append((_outcomes(compiled), capsys.readouterr().out))
    stock, mended = arms
    assert mended == stock or mended == (_outcomes(function), capsys.readouterr().out)


def test_reason_is_given() -> None:
    with gm.enabled():
        with pytest.raises(Exception, match="Data-dependent branching") as caught:
            asyncio.run(torch.compile(guarded, backend="eager", fullgraph=True)(UP))
        assert {decline.reason for decline in gm.report().declines} == {"frame-suspends"}
    assert "frame-suspends" in "".join(caught.value.__notes__)


def test_function_that_a_coroutine_calls_is_mended() -> None:
    compiled = torch.compile(helper, backend="eager")

    async def main(x: torch.Tensor) -> torch.Tensor:
        await asyncio.sleep(0)
        return compiled(x) + 1

    with gm.enabled():
        assert _outcomes(main) == [[3.0, 3.0], ("ValueError", "negative")] * 2
        assert {mend.strategy for mend in gm.report().mends} == {"speculate", "defer"}
