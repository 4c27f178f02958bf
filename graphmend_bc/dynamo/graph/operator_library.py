"""The library of torch that operators of ours are defined in."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch


@cache
def operator_library() -> Any:
    """The library; what it defines is there as long as it is."""
    return torch.library.Library("graphmend_bc", "FRAGMENT")  # type: ignore[no-untyped-call]
