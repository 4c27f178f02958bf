"""Whether a frame can be run a second time on copies, without a trace of it in the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.source import GlobalSource
from torch._dynamo.variables.base import AttributeMutationNew, ValueMutationNew, VariableTracker
from torch._dynamo.variables.misc import CellVariable, NewGlobalVariable
from torch._guards import Source
from torch.fx import GraphModule

from graphmend_bc.dynamo.before_graph.graph_slice import reader
from graphmend_bc.dynamo.deferral.accumulated_state import AccumulatedState, StatePlace
from graphmend_bc.dynamo.deferral.shared_state import SharedState
from graphmend_bc.dynamo.graph.fx_nodes import storages
from graphmend_bc.dynamo.trace.compilation import Compilation, Trace
from graphmend_bc.dynamo.trace.features import Feature

_REPEATED: Final = {"builtins", "logging"}
"""Modules of deferred functions whose effects are kept from the program: print and loggers."""


@dataclass(slots=True, eq=False)
class Isolation(Feature):
    """What a frame changes, and why it cannot be repeated.

    Attributes:
        problem: why not; empty if it can be.
        writes: where it finds the objects that it changes.
        names: globals of the frame that are among them.
    """

    order: ClassVar[int] = 99

    problem: str = "It has no graph."
    writes: list[Source] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        trace, effects = compilation.trace, output.side_effects
        self.problem = _problem(trace, output)
        for item in (*effects.id_to_variable.values(), *effects.store_attr_mutations):
            is_new = isinstance(item.mutation_type, (AttributeMutationNew, ValueMutationNew))
            if item.mutation_type is not None and not is_new and effects.is_modified(item):
                self._note_object(item, output)
        for state in _accumulated(trace):
            self._note(state.owner or state.place)
        written = set() if trace.recorder is None else set(trace.recorder.written)
        for node in gm.graph.nodes:
            given = node.meta.get("grapharg") if node.op == "placeholder" else None
            if given is not None and not written.isdisjoint(storages([node])):
                self._note(given.source)

    def _note_object(self, item: VariableTracker, output: OutputGraph) -> None:
        if isinstance(item, CellVariable) and item.local_name in output.root_tx.f_code.co_freevars:
            return  # the repetition has cells of its own
        self._note(item.source, rebinds=isinstance(item, NewGlobalVariable))

    def _note(self, source: Source | None, *, rebinds: bool = False) -> None:
        if source is None:
            self.problem = self.problem or "It is not known where an object is that it changes."
            return
        root = _root(source)
        if isinstance(root, GlobalSource):
            self.names.add(root.global_name)
        # A name of the frame's own globals that is bound anew is put back.
        if not (rebinds and source is root):
            self.writes.append(source)

    def problem_in(
        self, scope: Mapping[str, Any], module_globals: Mapping[str, Any], copied: Mapping[int, Any]
    ) -> str:
        """Why one call cannot be repeated; empty if it can be.

        Args:
            scope: the frame's variables, by name.
            module_globals: its globals.
            copied: what there are copies of, by `id`.
        """
        found = {"L": dict(scope), "G": dict(module_globals)}
        for source in self.writes:
            if id(reader(source)(found)) not in copied:
                return "It changes an object that is not copied."
        return ""


def _root(source: Source) -> Source:
    base = getattr(source, "base", None)
    return source if base is None else _root(base)


def _problem(trace: Trace, output: OutputGraph) -> str:
    recorder = trace.recorder
    if recorder is not None and recorder.foreign is not None:
        return "Its graph calls what is not torch's own, which may have effects."
    if output.side_effects.tensor_hooks:
        return "It registers hooks on tensors."
    if recorder is not None and recorder.draws and not _draws_as_eager(output.compiler_fn):
        return "Its backend draws other random numbers than eager Python."
    shared = trace.known(SharedState)
    calls = [] if shared is None else shared.calls
    if shared is not None and shared.runs_own_code:
        return "A call that is deferred runs code of the program's, such as a handler."
    known = {site for site, call in calls if call.module in _REPEATED and call.stream is None}
    known |= {state.site for state in _accumulated(trace)}
    if any(site not in known for site in trace.effects):
        return "It makes a call whose effect cannot be kept from the program."
    return ""


def _accumulated(trace: Trace) -> list[StatePlace]:
    """The state that is only added to."""
    accumulated = trace.known(AccumulatedState)
    return [] if accumulated is None else accumulated.found


def _draws_as_eager(compiler_fn: Any) -> bool:
    """Whether a backend draws random numbers as eager Python does; Inductor has its own way."""
    settings = getattr(compiler_fn, "get_compiler_config", None)
    return settings is None or bool(settings().get("fallback_random"))
