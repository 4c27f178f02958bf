"""These tests need no torch: the bytecode layer is tried on interpreters that have none."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def clean_slate() -> None:
    """In the place of the fixture for all other tests, which needs torch."""
