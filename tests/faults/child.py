"""What a spawned process computes, mended or not."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import torch

import graphmend_bc as gm


def branching(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    y = x * 2
    if y.sum() > 0:
        y = y + 1
        print("up", y.max().item())
    return y, 1 if y.max() > 3 else 2


def answers(mends: bool) -> list[Any]:
    """What some calls give and print."""
    up, down = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
    out = io.StringIO()
    with contextlib.redirect_stdout(out), gm.config.patch(disk_cache=False, enabled=mends):
        with gm.enabled():
            f = torch.compile(branching, backend="eager") if mends else branching
            found = [(y.tolist(), n) for y, n in map(f, (up, down, up))]
        assert bool(gm.report().mends) is mends
    return [*found, out.getvalue()]
