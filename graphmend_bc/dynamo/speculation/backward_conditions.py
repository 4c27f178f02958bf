"""Conditions in `backward` of an autograd function that `forward` has asked of the same tensors.

The check of such a condition is in the graph of `forward`: wherever the call is not rolled back,
the condition has the value that was assumed. What `backward` computes in the same way from what was
saved is the same, if nobody can have written to what was saved: it was made in the graph, and is
neither given away by it nor written.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch._dynamo.output_graph import OutputGraph, SubgraphTracer
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.graph.fx_nodes import (
    input_storages,
    is_in_place,
    sets_a_mode,
    storages,
    with_ancestors,
)
from graphmend_bc.dynamo.graph.lambda_guards import guard_by
from graphmend_bc.dynamo.speculation.value_numbers import value_numbers
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import backward_around
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


@dataclass(slots=True, eq=False)
class ForwardConditions(Feature):
    """The conditions of an attempt that forward passes ask, and backward passes ask again.

    Attributes:
        values: what conditions in the graphs of forward passes are taken to be, by their nodes.
        rests: the storages that conditions of backward passes are computed from, by site.
    """

    values: dict[Node, bool] = field(default_factory=dict)
    rests: dict[Site, set[int]] = field(default_factory=dict)

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        """Refuse what somebody may write to between the two passes."""
        recorder = compilation.trace.recorder
        if not self.rests or recorder is None:
            return
        given = storages(gm.graph.output_node().all_input_nodes) | input_storages(gm.graph)
        in_place = (node for node in gm.graph.nodes if is_in_place(node))
        changed = set(recorder.written) | storages(n for w in in_place for n in w.all_input_nodes)
        foreign = recorder.foreign or any(map(sets_a_mode, gm.graph.nodes))
        for site, memory in self.rests.items():
            if foreign or recorder.exchanges or not memory.isdisjoint(given | changed):
                raise SiteRefused(Refused("inside-transform", _MAY_CHANGE), site)


_MAY_CHANGE = "What is saved for the backward pass may be changed before it."


def note_condition(trace: Trace, condition: TensorVariable, value: bool) -> None:
    """A condition in the forward pass of an autograd function is taken to have a value.

    Args:
        trace: the attempt that is running.
        condition: as the program computes it.
        value: which the graph checks, or guards.
    """
    trace.of(ForwardConditions).values[condition.as_proxy().node] = value


def forward_value(
    tx: InstructionTranslatorBase, compilation: Compilation, condition: TensorVariable, site: Site
) -> bool | None:
    """The value of a condition in a backward pass that the forward pass has asked.

    Args:
        tx: translator of the frame that asks.
        compilation: what is being compiled.
        condition: a tensor of which a truth value is asked.
        site: where.

    Returns:
        None if it is not such a condition.

    Raises:
        Refused: the forward pass has asked it, but its value may be another one by then.
    """
    passes, asked = backward_around(tx), compilation.trace.known(ForwardConditions)
    recorder = compilation.trace.recorder
    if passes is None or asked is None or recorder is None:
        return None
    check_no_function_mode(tx)
    backward, forward = passes
    saved = _saved(forward, backward)
    numbers = value_numbers((forward.graph, backward.graph), saved, recorder)
    node = condition.as_proxy().node
    number = numbers.get(node)
    same = [f for f in asked.values if f.graph is forward.graph and numbers.get(f) == number]
    if number is None or not same:
        return None
    _check_modes()
    nodes = with_ancestors([node, *same])
    rests = storages(saved[each] for each in nodes if each in saved)
    given = storages(forward.graph.output_node().all_input_nodes)
    if not rests.isdisjoint(given) or not storages(nodes).isdisjoint(recorder.written):
        raise Refused("inside-transform", _MAY_CHANGE)
    asked.rests.setdefault(site, set()).update(rests)
    compilation.trace.used[site] = "speculate"
    return asked.values[same[0]]


def _saved(forward: SubgraphTracer, backward: SubgraphTracer) -> dict[Node, Node]:
    """From inputs of a backward pass to the nodes of its forward pass that they are."""
    lifted = forward.lifted_freevars
    return {
        inner.node: lifted[outer].node if outer in lifted else outer.node
        for outer, inner in backward.lifted_freevars.items()
    }


def _check_modes() -> None:
    """Show that eager Python computes in both passes in the same way, with what was saved.

    Raises:
        Refused: a mode that may be another one in the backward pass, or hooks that change tensors.
    """
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        raise Refused("inside-transform", "The forward pass is computed in another precision.")
    if _sees_saved_tensors():
        raise Refused("inside-transform", "Hooks see what is saved for the backward pass.")
    guard_by(lambda L, G: not _sees_saved_tensors(), "no hooks see what is saved for backward")


def _sees_saved_tensors() -> bool:
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
