"""Let only the arm that is taken run: the branch becomes a `torch.cond` in the graph.

The higher-order operator wants arms that give tuples of fresh tensors. So each arm is traced as a
function that keeps its Python values aside, clones what is not its own, and gives the tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import UserFunctionVariable
from torch._dynamo.variables.higher_order_ops import TorchHigherOrderOperatorVariable
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._ops import HigherOrderOperator
from torch.fx import Node, Proxy

from graphmend_bc.dynamo.calls.higher_order import HigherOrder
from graphmend_bc.dynamo.graph.cuda_graphs import check_keeps_cuda_graphs
from graphmend_bc.dynamo.graph.emit import method
from graphmend_bc.dynamo.predication.arm import Allowed, TracedArm, attributes_unchanged, trace_arm
from graphmend_bc.dynamo.predication.arm_outputs import ArmOutput, outputs_of, rebuilt
from graphmend_bc.dynamo.trace.alias_notes import note_sharing
from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.legality.arm_operators import check_runs_taken
from graphmend_bc.legality.choose import check_can_choose
from graphmend_bc.legality.record import OpRecord
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


class ArmFunctionVariable(UserFunctionVariable):
    """One arm as the higher-order operator wants it.

    Attributes:
        arm: what tracing it gave.
        leaves: the values in its result, in order.
        tensors: its tensor leaves, in order, as they were when it was traced; the operator changes
            what the variables say later.
        given: the tensors it gives to the operator, in order; the same as its tensor leaves or
            clones of them.
        outside: tensors from before the branch that it uses or gives back.
    """

    def __init__(
        self, trace: Trace, function: VariableTracker, live_ins: Sequence[VariableTracker]
    ) -> None:
        super().__init__(cast(Any, stand_in))
        self.trace = trace
        self.function = function
        self.live_ins = live_ins
        self.arm: TracedArm | None = None
        self.leaves: list[ArmOutput] = []
        self.tensors: list[torch.Tensor] = []
        self.given: list[torch.Tensor] = []
        self.outside: list[torch.Tensor] = []

    def call_function(
        self,
        tx: Any,
        args: Sequence[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        """Trace the arm inside the operator's subgraph."""
        del args, kwargs
        self.arm = trace_arm(tx, self.trace, self.function, self.live_ins, Allowed(_check))
        self.leaves = list(outputs_of(self.arm.result))
        own, seen = self.arm.allocated(), set[int]()
        given = []
        for leaf in self.leaves:
            if not isinstance(leaf.value, TensorVariable):
                continue
            self.tensors.append(example(leaf.value))
            storage = storage_of(self.tensors[-1])
            fresh = storage in own and storage not in seen
            seen.add(storage)
            given.append(leaf.value if fresh else method(tx, "clone", leaf.value))
        self.given = [example(value) for value in given]
        self.outside = _outside(self.arm, self.tensors)
        return TupleVariable(cast(list[VariableTracker], given))


def stand_in() -> None:
    """Never called: Dynamo asks what kind of function an arm is."""


def _check(records: Sequence[OpRecord]) -> None:
    check_runs_taken(records, grad=torch.is_grad_enabled())


def trace_cond(
    tx: InstructionTranslatorBase,
    trace: Trace,
    site: Site,
    predicate: TensorVariable,
    arms: tuple[VariableTracker, VariableTracker],
    live_ins: Sequence[VariableTracker],
) -> VariableTracker:
    """The value of a branch whose arms are run by `torch.cond`.

    Args:
        tx: translator of the frame the branch is in.
        trace: the attempt that is running.
        site: the branch.
        predicate: a 0-dim bool tensor.
        arms: the functions for true and for false.
        live_ins: their arguments.

    Raises:
        Refused: it could not be shown to be exact.
    """
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        raise Refused("cond-under-autocast")
    check_keeps_cuda_graphs(tx, predicate)
    taken, other = (ArmFunctionVariable(trace, arm, live_ins) for arm in arms)
    operator = TorchHigherOrderOperatorVariable.make(torch.ops.higher_order.cond)
    operators = trace.of(HigherOrder)
    operators.depth += 1
    with side_effects_kept(tx, trace):
        result = operator.call_function(tx, [predicate, taken, other, TupleVariable([])], {})
    operators.depth -= 1
    note_operator(tx, trace, site, torch.ops.higher_order.cond)
    assert isinstance(result, TupleVariable)
    return _joined(trace, site, taken, other, cast(list[TensorVariable], result.items))


@contextmanager
def side_effects_kept(tx: InstructionTranslatorBase, trace: Trace) -> Iterator[None]:
    """Keep the object in which Dynamo notes the program's changes, and what it knows of objects.

    The operators go on with a copy of it, while variables for `__dict__` go on with the first one:
    a change of an attribute before the operator would not be seen after it, and one inside it would
    be lost. So would all changes of an object that was first met inside it.
    """
    met = trace.of(HigherOrder).met
    first, known = tx.output.side_effects, len(met)
    with attributes_unchanged(first):
        yield
    if (copy := tx.output.side_effects) is not first:
        vars(first).update(vars(copy))
        tx.output.side_effects = first
    for item, variable in met[known:]:
        if id(item) not in first.id_to_variable:
            first.id_to_variable[id(item)] = variable
            first.keepalive.append(item)


def note_operator(
    tx: InstructionTranslatorBase, trace: Trace, site: Site, operator: HigherOrderOperator
) -> Node:
    """The last node of an operator; it is remembered that it is ours, so known to be functional."""
    nodes = reversed(tx.output.graph.nodes)
    found: Node = next(node for node in nodes if node.target is operator)
    trace.of(HigherOrder).functional[found] = site
    return found


def _joined(
    trace: Trace,
    site: Site,
    taken: ArmFunctionVariable,
    other: ArmFunctionVariable,
    results: list[TensorVariable],
) -> VariableTracker:
    """The result of the arms, with the operator's tensors in the place of theirs."""
    assert taken.arm is not None
    assert other.arm is not None
    if [leaf.path for leaf in taken.leaves] != [leaf.path for leaf in other.leaves]:
        raise Refused("arms-differ-in-type", "The containers differ.")
    # The operator's backward sends zeros where eager sends nothing, has no second order, and keeps
    # what eager need not keep.
    if torch.is_grad_enabled() and any(t.requires_grad for t in [*taken.outside, *other.outside]):
        raise Refused("gradient-reach", "torch.cond has another backward than its arms.")
    values: list[VariableTracker] = []
    position = 0
    for left, right in zip(taken.leaves, other.leaves, strict=True):
        if not isinstance(left.value, TensorVariable):
            left.check_same(right)
            values.append(left.value)
            continue
        if not isinstance(right.value, TensorVariable):
            raise Refused("arms-differ-in-type")
        a, b, result = taken.given[position], other.given[position], results[position]
        one, two = taken.tensors[position], other.tensors[position]
        position += 1
        if _is_outside(left.value) and left.value.as_proxy() is right.value.as_proxy():
            values.append(left.value)
            continue
        _check_alike(a, b, result)
        sides = ((one, taken.arm.allocated()), (two, other.arm.allocated()))
        note_sharing(trace, site, result.as_proxy().node, *sides)
        values.append(result)
    return rebuilt(taken.arm.result, iter(values))


def _check_alike(a: torch.Tensor, b: torch.Tensor, result: TensorVariable) -> None:
    check_can_choose(a, b)
    chosen = example(result)
    if (chosen.shape, chosen.stride(), chosen.dtype) != (a.shape, a.stride(), a.dtype):
        raise Refused("arms-differ-in-layout", "The chosen tensor would be laid out differently.")
    if chosen.requires_grad != a.requires_grad:
        raise Refused("gradient-reach", "torch.cond would not pass the gradient.")


def _outside(arm: TracedArm, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    made = {id(t) for record in arm.records for t in record.results()}
    tensors = [*given, *(t for record in arm.records for t in record.tensors())]
    return [t for t in tensors if id(t) not in made]


def _is_outside(value: TensorVariable) -> bool:
    proxy: Proxy = value.as_proxy()
    return proxy.node.op == "placeholder" or getattr(proxy.tracer, "parent", None) is None


def example(value: TensorVariable) -> torch.Tensor:
    """The fake tensor that a variable stands for."""
    return cast(torch.Tensor, value.as_proxy().node.meta["example_value"])
