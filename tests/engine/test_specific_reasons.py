"""A decline says what was met, by name, and hints at what helps with a break of that kind."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.releases import since

X = torch.ones(2, 16)
LAYER = torch.nn.Linear(16, 16)


def declines_of(function: Callable[..., Any], *args: Any) -> list[gm.Decline]:
    with gm.enabled():
        torch._dynamo.reset()
        torch.compile(function, backend="eager")(*args)
        return gm.report().declines


def steps(x: torch.Tensor) -> torch.Tensor:
    loss = LAYER(x).pow(2).mean()
    loss.backward(create_graph=True)
    return loss.detach() * 2


def asks_for_it(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def moves(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    with contextlib.chdir("/"):
        y = y * 2
    return y


def drops(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    gc.collect()
    return y * 2


def uses(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    found = gc.collect()
    return y * 2 if found >= 0 else y


def test_a_backward_pass_is_no_effect_to_defer() -> None:
    (decline, *_) = declines_of(steps, X)
    assert decline.reason == ("backward-noticed" if since(2, 13) else "call-not-traced")
    assert ("with arguments" if since(2, 13) else "'backward' is called.") in decline.explanation
    assert decline.hints[-1].endswith(
        "ompile the function that computes the loss, and call backward() outside of it."
    )


def test_a_break_that_the_program_asks_for_is_its_own_wish() -> None:
    (decline,) = declines_of(asks_for_it, X)
    assert decline.reason == "break-requested"
    assert decline.site.lineno == asks_for_it.__code__.co_firstlineno + 2
    assert not any("effects" in hint for hint in decline.hints)
    (left,) = gm.explain(asks_for_it)(X).declines
    assert left.reason == "break-requested"


def test_a_break_in_a_library_names_the_line_that_leads_there() -> None:
    declines = declines_of(moves, X)
    line = moves.__code__.co_firstlineno + 2
    place = f"The program comes there from {__file__}:{line} in moves."
    inside = [d for d in declines if d.site.filename == contextlib.__file__]
    assert inside
    for decline in inside:
        assert place in decline.explanation
        assert "' is called." in decline.explanation
        assert decline.hints == ("Enter the context manager outside the compiled function.",)
    own = [d for d in declines if d.site.filename == __file__]
    assert not any("comes there from" in d.explanation for d in own)


@pytest.mark.slow
@pytest.mark.parametrize(("function", "helps"), [(drops, True), (uses, False)])
def test_effects_are_hinted_at_where_the_result_is_dropped(
    function: Callable[..., Any], helps: bool
) -> None:
    (decline,) = declines_of(function, X)
    assert decline.reason == "call-not-traced"
    assert "'collect' is called." in decline.explanation
    (hint,) = decline.hints
    assert ("add the function to graphmend_bc.config.effects" in hint) is helps
    assert ("If 'collect' changes nothing" in hint) is helps
    if helps:  # following it helps
        with gm.config.patch(effects=[gc.collect]):
            assert declines_of(function, X) == []


def test_a_lock_is_no_effect_to_defer() -> None:
    lock = threading.Lock()

    def holds(x: torch.Tensor) -> torch.Tensor:
        lock.acquire()
        y = x * 2
        lock.release()
        return y

    declines = declines_of(holds, X)
    assert {decline.reason for decline in declines} == {"call-not-traced"}
    for decline in declines:
        assert decline.hints == (
            "Call it outside the compiled function: a graph has no place at which to hold or wait.",
        )
    assert not lock.locked()


def test_a_callee_without_a_name_matters_only_where_calls_are_deferred() -> None:
    def picks(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return (x + 1)[:, int(at[0] % 16) : 3 + at[1].item()].tolist()

    with gm.config.patch(strategies=("where", "speculate", "defer")):
        declines = declines_of(picks, X, torch.tensor([18, 2]))
    assert declines
    assert "callee-not-found" not in {decline.reason for decline in declines}


def test_a_function_that_is_called_by_another_name_is_named() -> None:
    def through(x: torch.Tensor, func: Callable[[], int] = gc.collect) -> torch.Tensor:
        y = x + 1
        func()
        return y * 2

    (decline,) = declines_of(through, X)
    assert "'func' is called, which is 'gc.collect'." in decline.explanation
