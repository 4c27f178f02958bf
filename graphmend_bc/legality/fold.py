"""Predicates whose value is known although they are computed from random numbers.

`torch.rand([]) < self.layerdrop` with a layerdrop of 0.0 is never true: uniform numbers are not
negative.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.fx import Node

_UNIFORM: Final[tuple[Callable[..., Any], ...]] = (torch.rand, torch.rand_like)
_NEGATED: Final[dict[object, object]] = {operator.ge: operator.lt, operator.gt: operator.le}
_SWAPPED: Final[dict[object, object]] = {
    operator.lt: operator.gt,
    operator.gt: operator.lt,
    operator.le: operator.ge,
    operator.ge: operator.le,
}


def fold_truth(predicate: Node) -> bool | None:
    """The truth value of a comparison of a uniform random number with a Python number.

    Args:
        predicate: the node of a comparison.

    Returns:
        The value if every draw gives it, else None. Bounds that a draw may hit by rounding are not
        decided.

    Example:
        `rand([]) < 0.0` is False, `rand([]) >= -1` is True, `rand([]) < 0.1` is None.
    """
    if predicate.op != "call_function" or len(predicate.args) != 2:
        return None
    compare: object = predicate.target
    left, right = predicate.args
    if isinstance(right, Node):
        left, right, compare = right, left, _SWAPPED.get(compare)
    if not _is_uniform(left) or isinstance(right, bool) or not isinstance(right, (int, float)):
        return None
    if compare in _NEGATED:
        below = _is_below(_NEGATED[compare], right)
        return None if below is None else not below
    return _is_below(compare, right)


def _is_uniform(value: object) -> bool:
    return isinstance(value, Node) and value.op == "call_function" and value.target in _UNIFORM


def _is_below(compare: object, bound: float) -> bool | None:
    """Whether every number of [0, 1] is less than (or equal to) the bound, or none is."""
    if compare is operator.lt:
        return False if bound <= 0 else True if bound > 1 else None
    if compare is operator.le:
        return False if bound < 0 else True if bound >= 1 else None
    return None
