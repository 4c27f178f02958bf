"""Choose, where the arms of a branch meet, between what they computed."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch._dynamo.current_scope_id import current_scope_id
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.lists import ListVariable, TupleVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import Node

from graphmend_bc.dynamo.calls.higher_order import depth_of
from graphmend_bc.dynamo.graph.cuda_graphs import records_cuda_graphs
from graphmend_bc.dynamo.graph.emit import call, method
from graphmend_bc.dynamo.host_values.chosen_value import (
    ChosenVariable,
    are_choosable,
    storages_in,
)
from graphmend_bc.dynamo.host_values.host_reads import read_predicate
from graphmend_bc.dynamo.predication.arm import TracedArm
from graphmend_bc.dynamo.predication.arm_outputs import check_same_value
from graphmend_bc.dynamo.speculation.checks import is_left_to_chance
from graphmend_bc.dynamo.symbols.selected_numbers import are_selectable, selected
from graphmend_bc.dynamo.trace.alias_notes import note_sharing
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.legality import choose
from graphmend_bc.legality.gradients import check_same_reach, check_zero_gradients_stay_zero
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


class Merge:
    """Where the arms of one branch meet.

    Args:
        tx: translator of the frame that has the branch.
        compilation: what is being compiled.
        site: the branch in the user's code.
        predicate: a 0-dim bool tensor.
        taken: the arm whose values are chosen where it is True.
        other: the arm whose values are chosen where it is False.
    """

    def __init__(
        self,
        tx: InstructionTranslatorBase,
        compilation: Compilation,
        site: Site,
        predicate: TensorVariable,
        taken: TracedArm,
        other: TracedArm,
    ) -> None:
        self.tx = tx
        self.compilation = compilation
        self.trace = compilation.trace
        self.site = site
        self.predicate = predicate
        self.taken = taken
        self.other = other
        self._chosen: dict[tuple[int, int], VariableTracker] = {}
        self._copied: set[int] = set()
        self._kept: set[int] = set()

    def choose(self, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """One value for two, `left` of the arm taken and `right` of the other.

        Raises:
            Refused: no operator chooses between them exactly.
        """
        left, right = left.realize(), right.realize()
        try:
            return self._choose(left, right)
        except Refused:
            known = self._chosen.get((id(left), id(right)))
            if known is None and not (are_choosable(left, right) and self._selects()):
                raise
            return known or self._choose_on_host(left, right)

    def _choose(self, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """One value for two, chosen in the graph."""
        if type(left) is TensorVariable and type(right) is TensorVariable:
            return self._choose_tensor(left, right)
        if type(left) is type(right) and isinstance(left, (TupleVariable, ListVariable)):
            return self._choose_items(left, cast(Any, right))
        if (
            are_selectable(self.trace, left, right)
            and not records_cuda_graphs(self.tx, self.predicate)  # a symbol would split them
            and self._selects()
        ):
            return selected(self.tx, self.compilation, self.predicate, left, right)
        check_same_value(left, right)
        return left

    def _selects(self) -> bool:
        """Whether one of two values is taken in each call: it is known that the condition flips."""
        if depth_of(self.trace):
            return False
        flips = is_left_to_chance(self.tx, self.trace, self.predicate)
        return self.compilation.planner.selects(self.site, flips=flips)

    def _choose_on_host(self, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """One value for two of which the graph makes none."""
        if self.compilation.is_saved or self.tx.export:
            raise Refused("under-export", "It would be chosen outside of the graph.")
        lists = [side for side in (left, right) if isinstance(side, ListVariable)]
        if not all(map(_is_made_in_arm, lists)):
            raise Refused("arms-differ-in-type", "A list that exists outside cannot be chosen.")
        used = {key for pair in self._chosen for key in pair}
        if any(id(side) in used for side in lists):
            raise Refused("arms-differ-in-type", "One arm gives the same list twice.")
        self._kept |= storages_in(left) | storages_in(right)
        self._check_memory()
        is_taken = read_predicate(self.tx, self.compilation, self.site, self.predicate)
        sides = [left, right]
        chosen = ChosenVariable(self.site, self.predicate, is_taken, sides, self.trace)
        self._chosen[id(left), id(right)] = chosen
        return chosen

    def _choose_items(
        self, left: TupleVariable | ListVariable, right: TupleVariable | ListVariable
    ) -> VariableTracker:
        if type(left) not in (TupleVariable, ListVariable) or len(left.items) != len(right.items):
            raise Refused("arms-differ-in-type", "The sequences differ in type or length.")
        is_list = isinstance(left, ListVariable)
        if is_list and not (_is_made_in_arm(left) and _is_made_in_arm(right)):
            raise Refused("arms-differ-in-type", "A list that exists outside cannot be chosen.")
        if (known := self._chosen.get((id(left), id(right)))) is not None:
            return known
        if is_list and any(id(left) == a or id(right) == b for a, b in self._chosen):
            raise Refused("arms-differ-in-type", "One arm gives the same list twice.")
        items = [self.choose(a, b) for a, b in zip(left.items, right.items, strict=True)]
        if not is_list:
            return TupleVariable(items)
        result = ListVariable(items, mutation_type=ValueMutationNew())
        self._chosen[id(left), id(right)] = result
        return result

    def _choose_tensor(self, left: TensorVariable, right: TensorVariable) -> VariableTracker:
        one, two = left.as_proxy().node, right.as_proxy().node
        if one is two:
            return left
        if (known := self._chosen.get((id(one), id(two)))) is not None:
            return known
        a, b = one.meta["example_value"], two.meta["example_value"]
        self._check_may_be_chosen(one, a, two, b)
        predicate = self.predicate
        if predicate.as_proxy().node.meta["example_value"].device != a.device:
            predicate = method(self.tx, "to", predicate, a.device)
        result = call(self.tx, "where", predicate, left, right)
        chosen = result.as_proxy().node.meta["example_value"]
        if chosen.stride() != a.stride() or chosen.dtype != a.dtype:
            raise Refused(
                "arms-differ-in-layout", "The chosen tensor would be laid out differently."
            )
        sides = ((a, self.taken.allocated()), (b, self.other.allocated()))
        self._copied |= {storage_of(a), storage_of(b)}
        self._check_memory()
        note_sharing(self.trace, self.site, result.as_proxy().node, *sides)
        self._chosen[id(one), id(two)] = result
        return result

    def _check_memory(self) -> None:
        """Refuse a tensor that is to be copied and shares memory with one that is kept as it is."""
        if self._copied & self._kept:
            raise Refused("arms-differ-in-type", "A tensor is chosen alone and in a container too.")

    def _check_may_be_chosen(self, one: Node, a: torch.Tensor, two: Node, b: torch.Tensor) -> None:
        if (
            type(a) is not type(b)
            or isinstance(a, torch.nn.Parameter)
            or isinstance(b, torch.nn.Parameter)
        ):
            raise Refused("arms-differ-in-type", "A parameter cannot be chosen.")
        choose.check_can_choose(a, b)
        if a.requires_grad:
            if not torch.is_grad_enabled():
                raise Refused("gradient-reach", "Grad mode is off at the branch.")
            check_same_reach(a, _outside(one, self.taken), b, _outside(two, self.other))
            check_zero_gradients_stay_zero([*self.taken.records, *self.other.records])


def _outside(result: Node, arm: TracedArm) -> list[torch.Tensor]:
    """The tensors from outside that an arm works on, its result included if it is one."""
    inside = set(arm.nodes)
    nodes = {n for node in arm.nodes for n in node.all_input_nodes if n not in inside}
    nodes |= {result} - inside
    leaves = torch.utils._pytree.tree_leaves([n.meta.get("example_value") for n in nodes])
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _is_made_in_arm(value: VariableTracker) -> bool:
    """True for a container that only the arm knows: what it is chosen into may be new too."""
    made = value.mutation_type
    return isinstance(made, ValueMutationNew) and made.scope > current_scope_id()
