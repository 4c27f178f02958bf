"""Copies of tensors on which a function is tried, to see whether it changes what it is given.

Version counters do not tell: batch normalisation updates its statistics without counting, and so
does NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphmend_bc.reporting.reasons import Refused


@torch.no_grad()
def copies_of(values: Sequence[Any]) -> list[Any]:
    """The same values, with copies for the tensors among them."""
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


@torch.no_grad()
def check_unchanged(copies: Sequence[Any], values: Sequence[Any]) -> None:
    """Check that copies are still what they were made of.

    Args:
        copies: from `copies_of`.
        values: what it was given.

    Raises:
        Refused: one was changed.
    """
    for copy, value in zip(copies, values, strict=True):
        if isinstance(value, torch.Tensor) and not _are_equal(copy, value):
            raise Refused("hoist-not-input", "It changes an argument in place.")


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())
