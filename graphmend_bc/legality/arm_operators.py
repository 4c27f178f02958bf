"""May the operators of an arm run although the arm is not taken?"""

from __future__ import annotations

from collections.abc import Sequence

from graphmend_bc.legality import ops
from graphmend_bc.legality.kernels import may_fail
from graphmend_bc.legality.record import OpRecord, draws, is_total
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.reasons import Refused


def check_runs_untaken(records: Sequence[OpRecord], most_ops: int, *, writes: bool = False) -> None:
    """Show that the operators are functional, deterministic, total and cheap.

    Args:
        records: the arm's operators in the order in which they ran.
        most_ops: how many of them are still cheap.
        writes: whether they may write in place what is a result otherwise.

    Raises:
        Refused: with the first operator for which it could not be shown, but rather with one that
            must not run in `torch.cond` either.
    """
    try:
        _check_runs_untaken(records, most_ops, writes)
    except Refused:
        check_runs_taken(records, grad=False)
        raise


def _check_runs_untaken(records: Sequence[OpRecord], most_ops: int, writes: bool) -> None:
    for record in records:
        name = f"The operator is {record.op}."
        writes_known = writes and record.is_aten and record.name in ops.IN_PLACE
        if record.op._schema.is_mutable and not writes_known:
            raise Refused("arm-mutates-tensor", name)
        if draws(record):
            raise Refused("arm-draws-random", name)
        if record.is_aten and record.name in ops.DEAR:
            raise Refused("arm-too-dear", name)
        if not writes_known and (not record.is_aten or record.name not in ops.KNOWN):
            raise Refused("arm-op-unknown", name)
        if not is_total(record):
            raise Refused("arm-may-raise", f"{name} It fails on some integers.")
        if problem := may_fail(record):
            raise Refused("arm-may-raise", f"{name} {problem}")
    if len(records) > most_ops:
        raise Refused("arm-too-dear", f"It has more than {many(most_ops, 'operator')}.")


def check_runs_taken(records: Sequence[OpRecord], *, grad: bool) -> None:
    """Show that operators may run inside `torch.cond`, where only the taken arm runs.

    Args:
        records: the arm's operators in the order in which they ran.
        grad: whether gradients may be asked for. The operator then runs the arm again for the
            backward, which would draw new random numbers.

    Raises:
        Refused: with the first operator for which it could not be shown.
    """
    for record in records:
        name = f"The operator is {record.op}."
        if record.op._schema.is_mutable:
            raise Refused("arm-mutates-tensor", name)
        if grad and draws(record):
            raise Refused("arm-draws-random", name)
        if not record.is_aten:
            raise Refused("arm-op-unknown", name)
