"""Are the gradients of a branch those of eager Python, whichever arm is taken?

In eager Python a tensor that only the untaken arm uses gets no gradient at all; under `where` it
gets zeros, and an optimizer with weight decay or momentum would then move it. So both arms must
send gradients to the same tensors. What a `where` sends into the other arm is exactly zero, and
must stay so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from graphmend_bc.legality import ops
from graphmend_bc.legality.record import OpRecord
from graphmend_bc.reporting.reasons import Refused


def check_same_reach(
    left: Tensor, left_outside: Iterable[Tensor], right: Tensor, right_outside: Iterable[Tensor]
) -> None:
    """Show that two results depend, differentiably, on the same outside tensors.

    Args:
        left, right: the tensors that are to be chosen from, with their autograd graphs.
        left_outside, right_outside: tensors from before the branch that each arm uses.

    Raises:
        Refused: some tensor is reached from one arm only.
    """
    edges = {_edge(t) for t in [*left_outside, *right_outside] if t.requires_grad}
    if _reached(left, edges) != _reached(right, edges):
        raise Refused("gradient-reach")


def _edge(tensor: Tensor) -> Any:
    """What a gradient of the tensor flows into: its autograd node, or the leaf itself."""
    return tensor.grad_fn if tensor.grad_fn is not None else id(tensor)


def _reached(result: Tensor, edges: set[Any]) -> set[Any]:
    found: set[Any] = set()
    seen: set[Any] = set()
    work = [_edge(result)]
    while work:
        edge = work.pop()
        if edge in seen:
            continue
        seen.add(edge)
        if edge in edges or isinstance(edge, int):
            found.add(edge)
            continue
        if (leaf := getattr(edge, "variable", None)) is not None:
            found.add(id(leaf))
            continue
        work.extend(following for following, _ in edge.next_functions if following is not None)
    return found


def check_zero_gradients_stay_zero(records: Iterable[OpRecord]) -> None:
    """Show that a zero gradient at the arm's results is a zero gradient at its inputs.

    The backward of a `where` sends exact zeros into the arm not taken. They must not meet an
    infinite or undefined derivative on the way, because zero times infinity is NaN.

    Raises:
        Refused: with the operator for which it could not be shown.
    """
    for record in records:
        if not any(t.is_floating_point() or t.is_complex() for t in record.results()):
            continue
        if not any(t.is_floating_point() or t.is_complex() for t in record.tensors()):
            continue
        if record.name in ops.LINEAR | ops.VIEWS | ops.MASKED | ops.FACTORIES:
            if all(_is_finite(factor, record) for factor in _factors(record)):
                continue
        elif record.name in ops.SCALABLE and _scales_by_number(record):
            continue
        raise Refused("gradient-not-finite", f"The operator is {record.op}.")


def _factors(record: OpRecord) -> list[object]:
    """The numbers an addition multiplies its second operand by."""
    return (
        [record.kwargs["alpha"]]
        if "alpha" in record.kwargs
        else list(record.args[2:3]) * (record.name in ("add", "sub", "rsub"))
    )


def _scales_by_number(record: OpRecord) -> bool:
    if len(record.args) < 2 or not isinstance(record.args[1], (int, float)):
        return False
    factor = record.args[1]
    if record.name != "div":
        return _is_finite(factor, record)
    if record.kwargs.get("rounding_mode") is not None or factor == 0:
        return False
    return _is_finite(factor, record) and _is_finite(1 / factor, record)


def _is_finite(factor: object, record: OpRecord) -> bool:
    """True if the number is finite, and not lost, in every dtype the operator works in."""
    if not isinstance(factor, (int, float)):
        return False
    dtypes = [t.dtype for t in [*record.tensors(), *record.results()] if t.is_floating_point()]
    smallest = min((torch.finfo(dtype).max for dtype in dtypes), default=math.inf)
    return math.isfinite(factor) and abs(factor) <= smallest
