"""The assertions for programs of users."""

from __future__ import annotations

import logging
import random
import warnings
from typing import Any

import numpy
import pytest
import torch

from graphmend_bc.testing import assert_exact, assert_no_breaks
from tests.releases import since

UP, DOWN = torch.ones(3), -torch.ones(3)


def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    if x.sum() > 0:
        return x * by
    return x - 1


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


class Counted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        y = self.linear(x)
        return y.relu() if y.sum() > 0 else y


def test_one_graph() -> None:
    assert assert_no_breaks(scaled, UP, by=3.0).before.graph_break_count == 1


def test_a_break_that_is_left_is_told() -> None:
    with pytest.raises(
        AssertionError, match=r"broken is not one graph without breaks: 2 graphs, 1 break,"
    ):
        assert_no_breaks(broken, UP)


def test_functions_and_modules() -> None:
    report = assert_exact(scaled, UP, (DOWN, 3.0), {"x": UP, "by": 0.5})
    assert [mend.strategy for mend in report.mends] == ["where"]
    module = Counted()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert_exact(module, UP, DOWN, UP, grad=True)
    assert module.seen == 0
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_state_of_a_function() -> None:
    items: list[float] = []

    def collect(x: torch.Tensor) -> torch.Tensor:
        items.append(x.shape[0])
        return x * 2 if x.sum() > 0 else x

    assert_exact(collect, UP, DOWN, state=lambda: items, setup=items.clear)


def test_random_numbers_of_the_caller_are_kept() -> None:
    before = torch.get_rng_state(), numpy.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    assert_exact(lambda x: x * torch.rand(3) if x.sum() > 0 else x, UP, DOWN)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (numpy.random.get_state()[1].tolist(), random.getstate())  # type: ignore[index]


def in_eager(x: torch.Tensor, other: Any) -> Any:
    """What only eager Python does."""
    return x if torch.compiler.is_compiling() else other(x)


log = logging.getLogger("user")


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("result", lambda x: x + 1),
        ("result", lambda x: x.double()),
        ("result", lambda x: [x]),
        ("arguments", lambda x: (x.add_(1), torch.ones(3))[1]),
        ("identity", lambda x: x.view(-1)),
        ("shared memory", lambda x: x.clone()),
        ("printed", lambda x: print("here") or x),
        ("log records", lambda x: log.warning("here") or x),
        ("warnings", lambda x: warnings.warn("here", stacklevel=1) or x),
        ("exception", lambda x: x.no_such_method()),
        ("random numbers", lambda x: (random.random(), x)[1]),
        ("random numbers", lambda x: (numpy.random.rand(), x)[1]),
        ("random numbers", lambda x: (torch.rand(1), x)[1]),
        ("modes", lambda x: (torch.set_grad_enabled(False), x)[1]),
    ],
)
def test_each_difference_is_told(what: str, other: Any) -> None:
    with pytest.raises(AssertionError, match=f"Call 1 of .* is not eager Python's: {what} differ"):
        assert_exact(lambda x: in_eager(x, other), UP)


def test_gradients_are_compared() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.compiler.is_compiling() else x.detach() * 2 + 0 * x.sum()

    x = UP.clone().requires_grad_()
    with pytest.raises(AssertionError, match="gradients differ"):
        assert_exact(f, x, grad=True)


def test_there_must_be_calls() -> None:
    with pytest.raises(ValueError, match="none is given"):
        assert_exact(scaled)


def test_a_message_attributed_to_the_caller_is_equal() -> None:
    """Its place is in the assertion, in eager Python and mended alike."""
    if not since(2, 13):
        pytest.skip("torch 2.11 breaks at `getLogger`, and what resumes has another caller.")

    def told(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        logging.getLogger("program").warning("here", stacklevel=2)
        return y + 1

    assert_exact(told, UP, DOWN, UP)
