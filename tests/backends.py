"""Backends and versions of torch that programs are run with."""

import pytest
import torch

EAGER_AND_AOT = pytest.mark.parametrize(
    "backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.nightly)]
)
"""Both every night, the first one always: most differences are those of the graph."""

TORCH = tuple(map(int, torch.__version__.split(".")[:2]))
"""The version: (2, 13)."""
