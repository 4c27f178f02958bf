"""A package that knows nothing of torch.compile, for the tests to attach to."""

from __future__ import annotations

from collections.abc import Callable

import torch


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def outer(x: torch.Tensor) -> torch.Tensor:
    return double(x) + 1


def branching(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        x = x * 2
    return x + 1


@torch._dynamo.disable
def opaque(call: Callable[[], object] | None = None) -> None:
    """A call that Dynamo cannot look into."""
    if call is not None:
        call()


def broken(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    opaque()
    return x * 2


@torch.no_grad()
def without_grad(x: torch.Tensor) -> torch.Tensor:
    return x + 7


def multiplier(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def multiply(x: torch.Tensor) -> torch.Tensor:
        return x * factor

    return multiply


def plain_number(n: int) -> int:
    return n + 1


class Scaled(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(factor), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Thing:
    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @staticmethod
    def static(x: torch.Tensor) -> torch.Tensor:
        return x + 2

    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x + 3
