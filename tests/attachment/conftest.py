"""The tests attach to much that is never called: nothing is said of it when they are done."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def no_word_of_unmet_patterns() -> Iterator[None]:
    yield
    attachment = sys.modules.get("graphmend_bc.attachment.attach")  # absent where there is no torch
    if attachment is not None:
        attachment.unmet_patterns()
