"""Where Dynamo gives up a trace, as its errors tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphmend_bc


def scale(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": lambda f, x: torch.func.grad(lambda y: f(y).sum())(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,))[1],
    "vmap": lambda f, x: torch.func.vmap(f)(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_trace_that_ends_before_its_first_instruction(transform: Callable[..., Any]) -> None:
    """Dynamo refuses to compile with another backend than "eager" inside a transform."""
    x = torch.arange(3.0)
    with graphmend_bc.enabled():
        compiled = torch.compile(scale, backend="aot_eager")
        assert torch.equal(transform(compiled, x), transform(scale, x))
        assert graphmend_bc.report().declines == []
