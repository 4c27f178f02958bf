"""Trace one arm of a branch into the graph, and hold it to changing nothing but the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from torch._dynamo import exc
from torch._dynamo.current_scope_id import current_scope_id, enter_new_scope
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import (
    VariableTracker,
)
from torch._ops import HigherOrderOperator
from torch.fx import Node

from graphmend_bc.dynamo.calls.higher_order import HigherOrder, depth_of
from graphmend_bc.dynamo.graph.fx_nodes import is_in_place, last_node, name_called, nodes_after
from graphmend_bc.dynamo.predication.arm_writes import write_to_copies
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.modes import modes
from graphmend_bc.dynamo.trace.program_objects import existing
from graphmend_bc.legality.record import OpRecord
from graphmend_bc.reporting.reasons import Refused


@dataclass(slots=True, eq=False)
class Arms(Feature):
    """The arms of an attempt; `trace.arms` are those that are being traced.

    Attributes:
        traced: how many were traced since the outermost branch of these was met.
        budgets: of those that are being traced.
    """

    order: ClassVar[int] = 10
    stays: ClassVar[bool] = True

    traced: int = 0
    budgets: list[Budget] = field(default_factory=list)

    def check_budget(self, tx: InstructionTranslatorBase) -> None:
        """Leave an arm that costs too much already, instead of tracing it to its end.

        Args:
            tx: translator of a frame that calls a function.

        Raises:
            Refused: it costs too much.
        """
        if self.budgets:
            self.budgets[-1].check(tx)

    def on_question(self, compilation: Compilation, tensor: VariableTracker, name: str) -> None:
        """Refuse hooks in an arm: Dynamo puts them into the graph around it."""
        arms = compilation.trace.arms
        if arms and name in ("register_hook", "register_post_accumulate_grad_hook"):
            refused = Refused("arm-changes-state", "It registers a hook of a tensor.")
            raise SiteRefused(refused, arms[-1])


@dataclass(frozen=True, slots=True)
class Budget:
    """What an arm has left to spend.

    Attributes:
        allowed: what it may do.
        records: the operators that ran so far.
        modes: those of torch that were on when it began.
        handled: how many exceptions were being handled then.
    """

    allowed: Allowed
    records: Sequence[OpRecord]
    modes: object
    handled: int

    def check(self, tx: InstructionTranslatorBase) -> None:
        """Refuse an arm that has spent too much; not where to leave it would change Dynamo's state.

        Args:
            tx: translator of the frame that has been reached.
        """
        most = self.allowed.most
        if most is None or len(self.records) <= most or len(tx.exn_vt_stack) != self.handled:
            return
        if modes() == self.modes:
            self.allowed.check(self.records)


@dataclass(frozen=True, slots=True)
class TracedArm:
    """What tracing one arm gave.

    Attributes:
        result: the value it returned.
        nodes: the FX nodes it added.
        records: the operators that ran on fake tensors.
        writes: by tensor from outside that it writes to, the copy that it writes to instead.
    """

    result: VariableTracker
    nodes: tuple[Node, ...]
    records: tuple[OpRecord, ...]
    writes: Mapping[Node, Node] = field(default_factory=dict)

    def allocated(self) -> set[int]:
        """Storages that the arm's own operators allocated."""
        return {storage for record in self.records for storage in record.allocated()}


@dataclass(frozen=True, slots=True)
class Allowed:
    """What an arm may do.

    Attributes:
        check: refuses operators that must not stand in the arm.
        most: how many operators it lets pass; None if it does not mind their number.
        writes: names of operators by which the arm may write to tensors from outside.
        copied: whether such tensors become copies.
    """

    check: Callable[[Sequence[OpRecord]], None]
    most: int | None = None
    writes: frozenset[str] = frozenset()
    copied: bool = False


def trace_arm(
    tx: InstructionTranslatorBase,
    trace: Trace,
    function: VariableTracker,
    live_ins: Sequence[VariableTracker],
    allowed: Allowed,
) -> TracedArm:
    """Call an arm's function in the trace.

    Args:
        tx: translator of the frame the branch is in.
        trace: the attempt that is running.
        function: the arm.
        live_ins: its arguments.
        allowed: what it may do.

    Raises:
        Refused: the arm could be noticed although it is not taken.
    """
    output = tx.output
    last = last_node(output.graph)
    recorder, effects = trace.listen(output), len(trace.effects)
    _check_live_ins(live_ins)
    budgets = trace.of(Arms).budgets
    with recorder.recording() as records, _state_unchanged(output), enter_new_scope():
        budgets.append(Budget(allowed, records, modes(), len(tx.exn_vt_stack)))
        try:
            result = function.call_function(tx, list(live_ins), {})
        except exc.ObservedException as error:
            raise Refused("arm-raises", f"It raises {type(error).__name__}.") from error
        finally:
            budgets.pop()
    if depth_of(trace):
        trace.of(HigherOrder).met += existing(output.side_effects)
    nodes = nodes_after(output.graph, last)
    _check_nodes(nodes, writes=allowed.writes)
    allowed.check(records)
    copies = write_to_copies(output, recorder, nodes, records) if allowed.copied else {}
    if copies and len(trace.effects) > effects:
        raise Refused("arm-mutates-tensor", "An effect of the arm may show it.")
    return TracedArm(result.realize(), nodes, tuple(records), copies)


def _check_live_ins(live_ins: Sequence[VariableTracker]) -> None:
    """Refuse iterators and dicts with defaults: reading them changes them untold."""

    def check(value: VariableTracker) -> None:
        name = type(value).__name__
        if any(kind in name for kind in _CHANGED_BY_READING):
            raise Refused("arm-changes-state", f"It may read from a {name}.")

    VariableTracker.visit(check, [value.realize() for value in live_ins])


_CHANGED_BY_READING = ("Iterator", "GeneratorObject", "DefaultDict", "Enumerate", "Cycle", "Islice")


def _check_nodes(nodes: Sequence[Node], *, writes: frozenset[str]) -> None:
    """Refuse what the fake tensor mode does not see as an operator."""
    for node in nodes:
        if isinstance(node.target, HigherOrderOperator):
            raise Refused("arm-op-unknown", f"The operator is {node.target}.")
        if node.op == "call_function" and any(m in str(node.target) for m in _MODE_SWITCHES):
            raise Refused("arm-changes-mode")
        if is_in_place(node) and name_called(node) not in writes:
            raise Refused("arm-mutates-tensor", f"The operator is {node.target}.")


_MODE_SWITCHES = ("_set_grad_enabled", "autocast", "inference_mode")


@contextmanager
def _state_unchanged(output: OutputGraph) -> Iterator[None]:
    """Refuse an arm that changes anything in Dynamo's model of the world outside itself."""
    effects = output.side_effects
    hooks, before, draws = len(effects.tensor_hooks), modes(), len(output.random_calls)
    with attributes_unchanged(effects):
        yield
        if modes() != before:
            raise Refused("arm-changes-mode")
    if len(effects.tensor_hooks) != hooks:
        raise Refused("arm-changes-state", "It registers a hook on a tensor.")
    if len(output.random_calls) != draws:
        raise Refused("arm-draws-random")


@contextmanager
def attributes_unchanged(effects: SideEffects) -> Iterator[None]:
    """Refuse an arm that sets attributes of objects from outside itself.

    Args:
        effects: where Dynamo notes such changes.
    """
    before = {item: dict(names) for item, names in effects.store_attr_mutations.items()}
    scope = current_scope_id()
    yield
    for item, names in effects.store_attr_mutations.items():
        created_here = getattr(item.mutation_type, "scope", 0) > scope
        if not created_here and names != before.get(item, {}):
            shown = ", ".join(sorted(map(repr, names)))
            raise Refused("arm-changes-state", f"It sets {shown}.")
