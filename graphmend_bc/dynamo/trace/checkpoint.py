"""What a trace was like at a moment, so that the operators that were added since can be taken back.

What is known of classes, names and settings stays known, and so do guards and inputs of the graph:
they only make the compiled code ask more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch._dynamo.output_graph import OutputGraph
from torch.fx import Graph, Node

from graphmend_bc.dynamo.graph.fx_nodes import last_node, nodes_after
from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.modes import modes

_RESTORED = ("arms", "used", "gb_types", "choices", "predicates", "refused")
"""What a trace notes of the sites that it comes by."""

_OF_INPUTS = ("placeholder", "get_attr")
"""Nodes of what is outside the graph: Dynamo knows them from then on, and uses them again."""

_UNCHANGED = ("effects", "speculations", "kept", "questions")
"""What it notes that more than the graph depends on."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a graph ended, and which names its nodes had.

    Attributes:
        last: its last node.
        names, counts: what FX noted to keep names apart.
    """

    last: Node | None
    names: frozenset[str]
    counts: Mapping[str, int]

    @classmethod
    def in_graph(cls, graph: Graph) -> Position:
        """The end of a graph as it is now."""
        space = graph._graph_namespace
        return cls(last_node(graph), frozenset(space._used_names), dict(space._base_count))

    def free_names(self, graph: Graph) -> None:
        """Let the names of nodes that were taken back be given again.

        Another process may know by then which rule works here. Its graph must have the same names,
        or torch's caches would not find what was compiled.
        """
        space = graph._graph_namespace
        space._used_names = {*self.names, *(node.name for node in graph.nodes)}
        space._base_count = dict(self.counts)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Taken before something is traced that may be refused.

    Attributes:
        trace: the attempt.
        output: Dynamo's side of it.
        position: where the graph ended by then.
        world: what cannot be taken back; see `is_restorable`.
        notes: what is noted of sites.
    """

    trace: Trace
    output: OutputGraph
    position: Position
    world: object
    notes: Mapping[str, Any]

    @classmethod
    def of(cls, trace: Trace, output: OutputGraph, position: Position | None = None) -> Checkpoint:
        """A trace as it is now.

        Args:
            trace: the attempt.
            output: Dynamo's side of it.
            position: an earlier end of the graph, to which operators are taken back.
        """
        notes = {name: getattr(trace, name).copy() for name in _RESTORED}
        position = position or Position.in_graph(output.graph)
        return cls(trace, output, position, _world(trace, output), notes)

    def is_restorable(self) -> bool:
        """Whether nothing has changed but the graph and what is noted of sites."""
        return _world(self.trace, self.output) == self.world

    def restore(self) -> None:
        """Take back the operators that were added since."""
        added = nodes_after(self.output.graph, self.position.last)
        for node in reversed(added):
            if node.op not in _OF_INPUTS:
                self.output.remove_node(node)
        self.position.free_names(self.output.graph)
        if (recorder := self.trace.recorder) is not None:
            recorder.forget(added)
        for name, noted in self.notes.items():
            setattr(self.trace, name, noted.copy())


def _world(trace: Trace, output: OutputGraph) -> object:
    """Dynamo's model of what is outside the graph, and what features found out that rest on it."""
    effects, env, recorder = output.side_effects, output.shape_env, trace.recorder
    attributes = {
        id(item): {name: id(value) for name, value in names.items()}
        for item, names in effects.store_attr_mutations.items()
        if names
    }
    return (
        attributes,
        len(effects.tensor_hooks),
        len(effects.save_for_backward),
        len(output.random_calls),
        len(output.current_tracer.bound_symbols),
        sum(map(_has_operator, output.graph.find_nodes(op="placeholder"))),
        0 if env is None else sum(map(len, env.deferred_runtime_asserts.values())),
        id(output.current_tracer),
        modes(),
        () if recorder is None else (len(recorder.written), len(recorder.draws)),
        [len(getattr(trace, name)) for name in _UNCHANGED],
        {type(state): _held(state) for state in trace.features.all() if _held(state)},
    )


def _has_operator(node: Node) -> bool:
    """Whether an input is a number or an array: Dynamo makes an operator for it as well."""
    return bool(getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False))


def _held(state: Feature) -> list[object]:
    """How much a feature has found out; nothing of one whose findings stay true."""
    if state.stays:
        return []
    values = [getattr(state, name) for name in getattr(state, "__dataclass_fields__", ())]
    return [len(value) if hasattr(value, "__len__") else value for value in values if value]
