"""Higher-order operators that we put into the graph: conditions and loops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch.autograd import forward_ad
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from graphmend_bc.dynamo.graph.fx_nodes import tensors_of
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace, is_saving
from graphmend_bc.dynamo.trace.features import Feature, RollbackNeed
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime.deoptimise import Deoptimise

if TYPE_CHECKING:
    from graphmend_bc.runtime import Site


@dataclass(slots=True, eq=False)
class HigherOrder(Feature):
    """The operators of an attempt.

    Attributes:
        functional: operators of ours, which change nothing but their results.
        depth: how many of them are around what is being traced.
        met: the program's objects that were met inside such operators, with their variables.
        counters: ints that a loop in the graph counts, known only at run time.
    """

    order: ClassVar[int] = 45

    functional: dict[Node, Site] = field(default_factory=dict)
    depth: int = 0
    met: list[tuple[object, VariableTracker]] = field(default_factory=list)
    counters: list[tuple[Site, VariableTracker]] = field(default_factory=list)

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Drop guards on how torch flattens the operators' arguments, if the frame is saved.

        torch cannot load such a guard. Tuples and lists, which is all that our operators are
        given, are flattened the same way in every process.
        """
        if compilation.is_saved and self.functional:
            asking: Any = tx.output
            for known in (asking.guards.inner, asking.guard_on_key_order):
                for asked in [asked for asked in known if _REGISTRY in asked.name]:
                    known.discard(asked)

    def rolls_back(self) -> RollbackNeed:
        """If that is free; what is saved is the graph alone then, which needs nothing of ours."""
        asks = self.functional and not is_saving()
        return RollbackNeed.IF_FREE if asks else RollbackNeed.NOT_NEEDED

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        """Refuse operators in which a value is made that is used after them.

        torch 2.11 reads a float of the program's in the arm that needs it first, for all that do.
        """
        for node in gm.graph.nodes if self.functional else ():
            if any(used.graph is not node.graph for used in node.all_input_nodes):
                refused = Refused("arm-does-not-trace", "A number is read in it for other code.")
                raise SiteRefused(refused, *self.functional.values())

    def check_sizes(self, gm: GraphModule) -> None:
        """Refuse sizes that a loop counts: Dynamo takes it that they are not 0 or 1.

        Raises:
            SiteRefused: there is one.
        """
        for node in gm.graph.nodes if self.counters else ():
            if any(map(free_unbacked_symbols, tensors_of(node))):
                site = self.counters[0][0]
                raise SiteRefused(Refused("loop-carries-value", "A size depends on it."), site)

    def guarded(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        return _without_tangents(graph) if self.functional else graph

    def on_commit(self, compilation: Compilation) -> bool:
        return bool(self.functional) and not compilation.is_saved


_REGISTRY = "__import__('torch').utils._pytree."


def depth_of(trace: Trace) -> int:
    """How many operators of ours are around what is being traced."""
    operators = trace.known(HigherOrder)
    return 0 if operators is None else operators.depth


def _without_tangents(graph: Callable[..., Any]) -> Callable[..., Any]:
    """The operators for conditions and loops drop the tangents of forward-mode differentiation."""

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        if forward_ad._current_level >= 0:
            raise Deoptimise
        return graph(*args, **kwargs)

    return run_graph
