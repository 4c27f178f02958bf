"""Branches that ask whether there are any rows, where nothing comes of computing with none.

    if rows.shape[0] == 0:
        continue
    out.index_add_(0, rows, expert(x[rows]))     # for no rows it adds nothing

What is done with some rows is then done in every call, and the graph needs no branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy  # type: ignore[import-untyped]
import torch
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from graphmend_bc.dynamo.graph.fx_nodes import input_storages
from graphmend_bc.dynamo.predication.arm import Allowed, TracedArm, trace_arm
from graphmend_bc.dynamo.predication.arm_writes import WrittenBack, may_differentiate
from graphmend_bc.dynamo.predication.site_tracer import SiteTracer
from graphmend_bc.legality.record import OpRecord, draws, written_by
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused

_BY_INDEX = frozenset(
    {
        *("index_add_", "index_copy_", "index_fill_", "index_put_", "scatter_", "scatter_add_"),
        "scatter_reduce_",
    }
)
"""Operators that write to places told by indices; to none if there are no indices."""


def with_empty_selection(
    tracer: SiteTracer,
    condition: SymNodeVariable,
    when_true: VariableTracker,
    when_false: VariableTracker,
    live_ins: Sequence[VariableTracker],
) -> VariableTracker:
    """What a branch gives, which does the same with no rows as if it were not taken.

    Args:
        tracer: of the branch.
        condition: a question about a size, or the size itself.
        when_true, when_false, live_ins: the arms and their arguments.

    Raises:
        Refused: the condition asks something else, or it may matter which arm runs.
    """
    size, answer = _answer_for_none(condition)
    if may_differentiate(tracer.tx.output.graph):
        raise Refused("gradient-reach", "For no rows there would be gradients of zero.")
    none, some = (when_true, when_false) if answer else (when_false, when_true)
    idle = _traced(tracer, none, live_ins, lambda records: None)
    if idle.nodes:
        raise Refused("arm-does-not-trace", "Something is computed if there are no rows.")
    busy = _traced(tracer, some, live_ins, lambda records: _check(tracer, records, size))
    if may_differentiate(tracer.tx.output.graph):
        raise Refused("gradient-reach", "For no rows there would be gradients of zero.")
    if not _are_same(idle.result, busy.result):
        raise Refused("arm-does-not-trace", "It has another result if there are no rows.")
    tracer.trace.used[tracer.site] = "fold"
    return busy.result


def _answer_for_none(condition: SymNodeVariable) -> tuple[sympy.Symbol, bool]:
    """The size that a condition is about, and the answer if it is zero, not that of the others."""
    asked = condition.sym_num.node.expr
    if len(asked.free_symbols) == 1:
        (size,) = asked.free_symbols
        if size.is_integer and condition.sym_num.node.shape_env.bound_sympy(size).lower >= 0:
            asked = asked if condition.python_type() is bool else sympy.Ne(asked, 0)
            answer = asked.subs(size, 0)
            others = bound_sympy(asked, {size: ValueRanges(1, int_oo)})
            decides = others.is_singleton() and answer in (sympy.true, sympy.false)
            if decides and answer != others.lower:
                return size, answer == sympy.true
    raise Refused("arm-does-not-trace", "It does not ask whether there are any rows.")


def _traced(
    tracer: SiteTracer,
    function: VariableTracker,
    live_ins: Sequence[VariableTracker],
    check: Callable[[Sequence[OpRecord]], None],
) -> TracedArm:
    trace = tracer.trace
    effects = len(trace.effects)
    tracer.enter_arm()
    allowed = Allowed(check, writes=_BY_INDEX)
    arm = trace_arm(tracer.tx, trace, function, live_ins, allowed)
    trace.arms.pop()
    if len(trace.effects) > effects:
        raise Refused("arm-changes-state", "It has an effect.")
    return arm


def _check(tracer: SiteTracer, records: Sequence[OpRecord], size: sympy.Symbol) -> None:
    """Show that operators change nothing if a size is zero, but for tensors that they make.

    That they raise for no rows does no harm: the graph is rolled back. A write to nothing still
    counts as one, so the tensor must be the graph's own.
    """
    inputs = input_storages(tracer.tx.output.graph)
    made = {storage for record in records for storage in record.allocated()}
    for record in records:
        name = f"The operator is {record.op}."
        if draws(record):
            raise Refused("arm-draws-random", name)
        if not record.is_aten:
            raise Refused("arm-op-unknown", name)
        outside = {storage_of(tensor) for tensor in written_by(record)} - made
        if outside and not (outside.isdisjoint(inputs) and _writes_none(record, size)):
            raise Refused("arm-mutates-tensor", name)
        if outside:
            tracer.trace.of(WrittenBack).storages |= dict.fromkeys(outside, tracer.site)


def _writes_none(record: OpRecord, size: sympy.Symbol) -> bool:
    if record.name not in _BY_INDEX:
        return False
    given = record.given()
    indices = torch.utils._pytree.tree_leaves([given.get("index"), given.get("indices")])
    return any(
        isinstance(index, torch.Tensor)
        and any(_expression(n).subs(size, 0) == 0 for n in index.shape)
        for index in indices
    )


def _expression(size: int | torch.SymInt) -> sympy.Expr:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def _are_same(one: VariableTracker, other: VariableTracker) -> bool:
    one, other = one.realize(), other.realize()
    if type(one) is TupleVariable and type(other) is TupleVariable:
        pairs = zip(one.items, other.items, strict=False)
        return len(one.items) == len(other.items) and all(_are_same(a, b) for a, b in pairs)
    if isinstance(one, TensorVariable) and isinstance(other, TensorVariable):
        return type(one) is type(other) and one.as_proxy().node is other.as_proxy().node
    if one.is_python_constant() and other.is_python_constant():
        values = one.as_python_constant(), other.as_python_constant()
        return type(values[0]) is type(values[1]) and repr(values[0]) == repr(values[1])
    return one is other
