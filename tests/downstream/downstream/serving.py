"""A model that is mended where this Python and torch are known."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import assert_type

import torch

import graphmend_bc


class Server:
    """Answers requests by a compiled function."""

    handle: graphmend_bc.Handle | None = None

    def __init__(self, cache: Path) -> None:
        graphmend_bc.config.cache_dir = str(cache)

    def __enter__(self) -> Server:
        try:
            self.handle = graphmend_bc.enable(cache=True)
        except graphmend_bc.UnsupportedVersionError:
            self.handle = graphmend_bc.enable(on_error="warn")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self.handle is not None:
            self.handle.remove()

    def answer(self, x: torch.Tensor) -> torch.Tensor:
        return doubled(x)


@torch.compile(backend="eager")  # pyright: ignore[reportUnknownMemberType] - torch's own
def doubled(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x * 2
    return in_python(x)


@graphmend_bc.leave_alone(reason="its time is measured")
def in_python(x: torch.Tensor) -> torch.Tensor:
    return x - 1


@graphmend_bc.leave_alone
def also_in_python(x: torch.Tensor) -> torch.Tensor:
    return x - 1


@graphmend_bc.enabled()
@graphmend_bc.config.patch(where_op_limit=16)
def within(x: torch.Tensor) -> bool:
    return graphmend_bc.is_enabled() and bool(doubled(x).sum() > 0)


def switch_off() -> graphmend_bc.Report:
    """What was found until now; mending is off afterwards."""
    found = graphmend_bc.report()
    graphmend_bc.disable()
    graphmend_bc.reset()
    return found


assert_type(in_python(torch.ones(1)), torch.Tensor)  # the decorators keep the types of a function
assert_type(also_in_python(torch.ones(1)), torch.Tensor)
assert_type(within(torch.ones(1)), bool)
