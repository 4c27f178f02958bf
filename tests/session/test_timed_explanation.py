"""`explain(f, seconds=...)` calls each version again and again, and says what that cannot show."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import graphmend_bc as gm

X = torch.ones(4)


def halve(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x / 2
    return x * 2


def test_three_versions_and_no_word_without_seconds() -> None:
    plain = gm.explain(halve)(X)
    assert (plain.times, plain.untimed) == (None, "")
    found = gm.explain(halve, seconds=0.05)(X)
    assert (found.before, found.after) == (plain.before, plain.after)
    assert found.mends == plain.mends
    assert found.times is not None
    for times in (found.times.eager, found.times.stock, found.times.mended):
        low, middle, high = times.quartiles
        assert 0 < low <= middle <= high
        assert len(times.rest_ns) >= 10
    # Compiling takes far longer than a call.
    assert found.times.stock.first_ns > 10 * found.times.stock.median
    assert found.times.mended.first_ns > 10 * found.times.mended.median
    assert found.times.is_settled
    assert found.times.notes == ()
    assert found.times.gain() in str(found)


def test_arguments_are_copied_for_each_call() -> None:
    x = torch.zeros(2)

    def adds(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)

    found = gm.explain(adds, seconds=0.01)(x)
    assert x.tolist() == [0, 0]
    assert found.times is not None
    assert found.times.notes == ()


def test_random_numbers_are_no_change_of_state() -> None:
    def draws(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(4) + np.random.rand() + random.random()

    found = gm.explain(draws, seconds=0.01)(X)
    assert found.times is not None
    assert not any("gave different results" in note for note in found.times.notes)


def test_a_state_that_changes_the_result_is_told() -> None:
    weight = torch.nn.Parameter(torch.ones(4))

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            weight.mul_(0.999)
        return (weight * x).sum()

    found = gm.explain(step, seconds=0.02)(X)
    assert found.times is not None
    assert [note for note in found.times.notes if "gave different results" in note]


def test_a_function_that_is_compiled_in_each_call_has_no_gain() -> None:
    seen: list[int] = []

    def grows(x: torch.Tensor) -> torch.Tensor:
        seen.append(len(seen))
        return x * len(seen)

    found = gm.explain(grows, seconds=60.0)(X)  # which are not used up
    assert found.times is not None
    assert not found.times.is_settled
    assert found.times.gain().startswith("No gain is stated, because the function does not come")
    assert "(stock and mended)" in found.times.notes[-1]
    assert len(seen) < 200


def test_what_cannot_be_repeated_is_compared_without_times() -> None:
    left = [3]

    def few(x: torch.Tensor) -> torch.Tensor:
        torch.compiler.disable(left.append)(left.pop() - 1)
        return halve(x)

    def checked(x: torch.Tensor) -> torch.Tensor:
        result = few(x)
        if left[0] == 0:
            left[0] = 3
            raise OSError("the disk is full")
        return result

    found = gm.explain(checked, seconds=0.05)(X)
    assert found.times is None
    assert found.untimed.endswith("so no times are given: OSError: the disk is full")
    assert found.untimed in str(found)
    assert found.mends


def test_speculated_calls_are_counted() -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        if x.min() < 0:
            raise ValueError("negative")
        return x + 1

    found = gm.explain(refuses, seconds=0.02)(X)
    (known,) = found.speculations
    assert found.times is not None
    # The first call, those before it comes to rest, and those at rest.
    assert known.calls == 1 + 3 + len(found.times.mended.rest_ns)
    assert (found.speculated.calls, found.speculated.failed) == (known.calls, 0)
    assert f"A check failed in 0 of {known.calls} speculated calls." in str(found)


def test_eager_calls_compile_nothing() -> None:
    compiled = []

    def noting(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        compiled.append(graph)
        return graph.forward

    inner = torch.compile(lambda x: x + 1, backend=noting)

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x) * 2  # the compiled versions have it in their graphs

    found = gm.explain(outer, seconds=0.01)(X)
    assert found.times is not None
    assert len(found.times.eager.rest_ns) >= 10
    assert not compiled
