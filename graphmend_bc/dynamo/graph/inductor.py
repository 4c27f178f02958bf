"""What Inductor keeps for the next compilation, so that its time is not that of the first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def empty_caches(backend: object) -> Iterator[None]:
    """Let Inductor compile as if it had compiled nothing before; other backends keep nothing.

    Args:
        backend: that of `torch.compile`. One of the program's may use Inductor, if it is loaded.
    """
    if backend != "inductor" and "torch._inductor.utils" not in sys.modules:
        yield
        return
    from torch._inductor.utils import fresh_cache

    with fresh_cache():
        yield


def load(backend: object) -> None:
    """Import what only the first compilation of a process imports.

    Args:
        backend: that of `torch.compile`; nothing is done if it is not Inductor.
    """
    if backend == "inductor" and "torch._inductor.compile_fx" not in sys.modules:
        torch.compile(torch.neg)(torch.ones(1))
