"""Every test starts and ends with stock torch.compile and empty Dynamo caches."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    if "torch" not in sys.modules:  # the bytecode layers are tested without it
        yield
        return
    import torch

    import graphmend_bc as gm

    torch._dynamo.reset()
    gm.disable()
    gm.reset()
    modes = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    yield
    gm.disable()
    torch._dynamo.reset()
    assert modes == (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"))
