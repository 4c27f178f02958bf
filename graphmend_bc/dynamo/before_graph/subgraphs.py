"""The graphs of autograd functions' `forward`, which stand inside of the frame's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch._dynamo.output_graph import SubgraphTracer
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.fx import Graph, Node

from graphmend_bc.dynamo.graph.fx_nodes import storages
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import check_is_outermost, functions_around
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


@dataclass(frozen=True)
class Levels:
    """The graphs that a frame is traced into, where what is computed in one is computed once.

    Attributes:
        graphs: outermost first.
        around: from inputs of an inner graph to the nodes of the outer one that they stand for.
    """

    graphs: tuple[Graph, ...]
    around: Mapping[Node, Node] = field(default_factory=dict)

    @property
    def is_nested(self) -> bool:
        """Whether an autograd function is being traced."""
        return len(self.graphs) > 1


@dataclass(slots=True, eq=False)
class CheckpointedSites(Feature):
    """Sites inside of blocks with activation checkpointing.

    The recomputation of such a block draws other random numbers with some backends, and does not
    change a second time what the block changes in place, as it does in eager Python. Where a break
    leaves the block to eager Python, both are as they should be.

    Attributes:
        inside: by what traces the block.
        before: for each block that is being traced, the sites that were mended before it.
    """

    inside: dict[SubgraphTracer, list[Site]] = field(default_factory=dict)
    before: list[frozenset[Site]] = field(default_factory=list)

    def note(self, tx: InstructionTranslatorBase, site: Site) -> None:
        """A site is mended; nothing is kept of one that no such block is around."""
        for tracer in functions_around(tx):
            if tracer.source_target is tag_activation_checkpoint:
                self.inside.setdefault(tracer, []).append(site)

    def check(self, tracer: SubgraphTracer, trace: Trace) -> None:
        """The results of a subgraph are known.

        Raises:
            SiteRefused: sites are inside of a block that draws, or writes to what it is given.
        """
        sites, recorder = self.inside.pop(tracer, []), trace.recorder
        if tracer.source_target is tag_activation_checkpoint and self.before:
            sites += [site for site in trace.used if site not in self.before[-1]]
        if not sites or recorder is None:
            return
        outside, outer = set[Graph](), tracer.parent
        while outer is not None:
            outside.add(outer.graph)
            outer = outer.parent
        if any(node is not None and node.graph not in outside for node in recorder.drawing):
            self._refuse(sites, "Random numbers are drawn in a checkpointed block.")
        given = storages(node for node in tracer.graph.nodes if node.op == "placeholder")
        if not given.isdisjoint(recorder.written):
            self._refuse(sites, "A checkpointed block writes to a tensor that it is given.")

    def _refuse(self, sites: Iterable[Site], detail: str) -> None:
        raise SiteRefused(Refused("inside-function", detail), *dict.fromkeys(sites))

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Refuse sites of a block that was not looked at."""
        for sites in self.inside.values():
            self._refuse(sites, "")


def call_checkpoint(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`CheckpointHigherOrderVariable._call_function`: which sites are inside of the block."""

    def call(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        if (compilation := current()) is None:
            return stock(self, tx, args, kwargs)
        blocks = compilation.trace.of(CheckpointedSites)
        blocks.before.append(frozenset(compilation.trace.used))
        try:
            return stock(self, tx, args, kwargs)
        finally:
            blocks.before.pop()

    return call


def levels_of(tx: InstructionTranslatorBase) -> Levels:
    """The graphs at a place in a frame from which something may be computed before the graph.

    Args:
        tx: translator of the innermost frame.

    Raises:
        Refused: it is inside of another operator than autograd functions, or a transform.
    """
    functions = functions_around(tx)
    if not functions:
        check_is_outermost(tx)
        return Levels((tx.output.graph,))
    check_no_function_mode(tx)
    around = {
        inner.node: given.node
        for function in functions
        for given, inner in function.lifted_freevars.items()
    }
    graphs = (tx.output.root_tracer.graph, *(function.graph for function in functions))
    return Levels(graphs, around)
