"""Backends that programs are run with."""

import pytest

EAGER_AND_AOT = pytest.mark.parametrize(
    "backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.nightly)]
)
"""Both every night, the first one always: most differences are those of the graph."""
