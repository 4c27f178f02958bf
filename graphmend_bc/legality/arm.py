"""May the operators of an arm run although the arm is not taken?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Number

import torch

from graphmend_bc.legality import ops
from graphmend_bc.legality.ops import OpRecord
from graphmend_bc.reasons import Refused


def check_runs_untaken(records: Sequence[OpRecord], most_ops: int) -> None:
    """Show that the operators are functional, deterministic, total and cheap.

    Args:
        records: the arm's operators in the order in which they ran.
        most_ops: how many of them are still cheap.

    Raises:
        Refused: with the first operator for which it could not be shown.
    """
    for record in records:
        name = f"The operator is {record.op}."
        if record.op._schema.is_mutable:
            raise Refused("arm-mutates-tensor", name)
        if torch.Tag.nondeterministic_seeded in record.op.tags:
            raise Refused("arm-draws-random", name)
        if record.is_aten and record.name in ops.DEAR:
            raise Refused("arm-too-dear", name)
        if not record.is_aten or record.name not in ops.KNOWN:
            raise Refused("arm-op-unknown", name)
        if record.name in ops.TOTAL_ON_FLOATS and not _is_total(record):
            raise Refused("arm-may-raise", f"{name} It fails on some integers.")
    if len(records) > most_ops:
        raise Refused("arm-too-dear", f"It has {len(records)} operators; the limit is {most_ops}.")


def _is_total(record: OpRecord) -> bool:
    if record.name == "div" and record.kwargs.get("rounding_mode") is None:
        return True
    return all(tensor.is_floating_point() for tensor in record.results())


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
            continue
        if record.name in ops.SCALABLE and _scales_by_number(record):
            continue
        raise Refused("gradient-not-finite", f"The operator is {record.op}.")


def _scales_by_number(record: OpRecord) -> bool:
    if len(record.args) < 2:
        return False
    factor = record.args[1]
    if not isinstance(factor, Number) or isinstance(factor, complex):
        return False
    value = float(factor)  # type: ignore[arg-type]
    if record.name == "div":
        return (
            record.kwargs.get("rounding_mode") is None and value != 0 and math.isfinite(1 / value)
        )
    return math.isfinite(value)
