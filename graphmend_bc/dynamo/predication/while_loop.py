"""A `while` loop on a tensor condition becomes a `torch.while_loop` in the graph.

The operator carries a flag, whether there is another round, and the loop's tensors and ints; the
flag is left out again where it can be (`while_condition.py`). Other values must be the same after
every round. Rounds whose condition is a Python value are unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import UserFunctionVariable
from torch._dynamo.variables.higher_order_ops import TorchHigherOrderOperatorVariable
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable

from graphmend_bc.dynamo.calls.higher_order import HigherOrder
from graphmend_bc.dynamo.graph.cuda_graphs import check_keeps_cuda_graphs
from graphmend_bc.dynamo.graph.emit import call, method
from graphmend_bc.dynamo.predication.arm import Allowed, Arms, trace_arm
from graphmend_bc.dynamo.predication.arm_outputs import check_same_value, type_name
from graphmend_bc.dynamo.predication.cond import example, note_operator, side_effects_kept, stand_in
from graphmend_bc.dynamo.predication.site_tracer import SiteTracer
from graphmend_bc.dynamo.predication.while_condition import compute_condition
from graphmend_bc.dynamo.trace.alias_notes import note_sharing
from graphmend_bc.dynamo.trace.tracing import inline, is_true
from graphmend_bc.legality.arm_operators import check_runs_taken
from graphmend_bc.legality.choose import check_can_choose
from graphmend_bc.legality.record import OpRecord
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Loop, Speculate


def loop(
    tracer: SiteTracer,
    primitive: Loop,
    condition: VariableTracker,
    step: VariableTracker,
    variables: Sequence[VariableTracker],
) -> VariableTracker:
    """The carried variables after the loop.

    Args:
        tracer: of the loop's site.
        primitive: the loop.
        condition: whether there is a first round.
        step: one round, as a function.
        variables: the carried variables, then those that a round only reads.

    Raises:
        Refused: it could not be shown to be exact.
    """
    state, fixed = list(variables[: primitive.carried]), variables[primitive.carried :]
    goes_on, is_first = primitive.enters, True
    while True:
        condition = condition.realize()
        if isinstance(condition, TensorVariable):
            if not (is_first and primitive.entered):
                break
            enter = Speculate(primitive.site, likely=goes_on, firm=True)
            enters = tracer.speculate(condition, enter).as_python_constant()
        else:
            enters = inline(tracer.tx, is_true, condition).as_python_constant()
        if enters is not goes_on:
            return TupleVariable(state)
        result = step.call_function(cast(Any, tracer.tx), [*state, *fixed], {}).realize()
        assert isinstance(result, TupleVariable)
        condition, *state = result.items
        goes_on, is_first = primitive.again, False
    truth = _goes_on(tracer, condition, goes_on)
    return _graph_loop(tracer, _Body(tracer, primitive, step, state, fixed), truth)


def _goes_on(tracer: SiteTracer, condition: TensorVariable, value: bool) -> TensorVariable:
    truth = tracer.truth(condition)
    return truth if value else call(tracer.tx, "logical_not", truth)


def _graph_loop(tracer: SiteTracer, body: _Body, flag: TensorVariable) -> VariableTracker:
    tx, trace = tracer.tx, tracer.trace
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        raise Refused("cond-under-autocast")
    check_keeps_cuda_graphs(tx, flag)
    operator = TorchHigherOrderOperatorVariable.make(torch.ops.higher_order.while_loop)
    carried = [body.state[position] for position in body.positions]
    trace.of(Arms)
    trace.arms.append(tracer.site)
    operators = trace.of(HigherOrder)
    operators.depth += 1
    with side_effects_kept(tx, trace):
        result = operator.call_function(
            cast(Any, tx),
            [_Flag(), body, TupleVariable([*carried, flag]), TupleVariable([])],
            {},
        )
    trace.arms.pop()
    operators.depth -= 1
    assert isinstance(result, TupleVariable)
    node = note_operator(tx, trace, tracer.site, torch.ops.higher_order.while_loop)
    assert trace.recorder is not None
    compute_condition(tx.output, trace.recorder, node)
    state = list(body.state)
    for position, value in zip(body.positions, result.items[:-1], strict=True):
        if isinstance(value, TensorVariable):
            before = cast(TensorVariable, state[position])
            check_can_choose(example(before), example(value))
            # Without a further round it is what it was; else what a round gave.
            sides = [(example(before), set[int]()), *body.given[position]]
            note_sharing(trace, tracer.site, value.as_proxy().node, *sides)
        else:
            operators.counters.append((tracer.site, value))
        state[position] = value
    trace.used[tracer.site] = "while_loop"
    return TupleVariable(state)


class _Flag(UserFunctionVariable):
    """Whether there is another round: the last carried value."""

    def __init__(self) -> None:
        super().__init__(cast(Any, stand_in))

    def call_function(
        self, tx: Any, args: Sequence[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        del kwargs
        return method(tx, "clone", args[-1])


class _Body(UserFunctionVariable):
    """One round as the operator wants it.

    Attributes:
        state: the carried variables before the first round.
        positions: which of them the operator carries.
        given: by position, the tensors that a round gives, each with the storages it allocates.
    """

    def __init__(
        self,
        tracer: SiteTracer,
        primitive: Loop,
        step: VariableTracker,
        state: Sequence[VariableTracker],
        fixed: Sequence[VariableTracker],
    ) -> None:
        super().__init__(cast(Any, stand_in))
        self.tracer = tracer
        self.primitive = primitive
        self.step = step
        self.state = [value.realize() for value in state]
        self.fixed = fixed
        self.positions = [i for i, value in enumerate(self.state) if _is_carried(value)]
        self.given: dict[int, list[tuple[torch.Tensor, set[int]]]] = {}

    def call_function(
        self, tx: Any, args: Sequence[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """Trace the round inside the operator's subgraph."""
        del kwargs
        state = list(self.state)
        for position, value in zip(self.positions, args[:-1], strict=True):
            state[position] = value
        trace = self.tracer.trace
        arm = trace_arm(tx, trace, self.step, [*state, *self.fixed], Allowed(_check))
        assert isinstance(arm.result, TupleVariable)
        condition, *after = (item.realize() for item in arm.result.items)
        own, seen, given = arm.allocated(), set[int](), list[VariableTracker]()
        for position, value in enumerate(after):
            if position not in self.positions:
                _check_stays(self.state[position], value)
                continue
            before = state[position]
            if isinstance(before, TensorVariable):
                if type(value) is not TensorVariable:
                    raise Refused("loop-carries-value", f"It becomes a {type_name(value)}.")
                check_can_choose(example(before), example(value))
                self.given[position] = [(example(value), own)]
                storage = storage_of(example(value))
                if storage not in own or storage in seen:
                    value = method(tx, "clone", value)
                seen.add(storage)
            given.append(value)
        if not isinstance(condition, TensorVariable):
            raise Refused("loop-carries-value", "Its condition does not stay a tensor.")
        tracer = SiteTracer(tx, self.tracer.compilation, self.tracer.site)
        flag = _goes_on(tracer, condition, self.primitive.again)
        return TupleVariable([*given, flag])


def _is_carried(value: VariableTracker) -> bool:
    if isinstance(value, TensorVariable) and type(value) is not TensorVariable:
        raise Refused("loop-carries-value", f"It is a {type_name(value)}.")
    if isinstance(value, (TensorVariable, SymNodeVariable)):
        return True
    return value.is_python_constant() and type(value.as_python_constant()) is int


def _check_stays(before: VariableTracker, after: VariableTracker) -> None:
    try:
        check_same_value(before, after)
    except Refused as refused:
        raise Refused("loop-carries-value", refused.detail) from refused


def _check(records: Sequence[OpRecord]) -> None:
    check_runs_taken(records, grad=torch.is_grad_enabled())
    # A loop without a round leaves its tensors without a gradient, the operator gives them zeros.
    if any(t.requires_grad for record in records for t in (*record.tensors(), *record.results())):
        raise Refused("gradient-reach", "A loop on tensors that require gradients.")
