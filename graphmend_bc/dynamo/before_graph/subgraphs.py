"""The graphs of autograd functions' `forward`, which stand inside of the frame's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.fx import Graph, Node

from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
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

    Some backends draw other random numbers in the recomputation of such a block. Where a break
    leaves the block to eager Python, it draws the same.
    """

    sites: list[Site] = field(default_factory=list)

    def note(self, tx: InstructionTranslatorBase, site: Site) -> None:
        """A site is mended; nothing is kept of one that no such block is around."""
        operators = (tracer.source_target for tracer in functions_around(tx))
        if any(operator is tag_activation_checkpoint for operator in operators):
            self.sites.append(site)

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Refuse them if an operator of the graph draws inside."""
        recorder = compilation.trace.recorder
        if not self.sites or recorder is None:
            return
        if any(node is not None and node.graph is not tx.output.graph for node in recorder.drawing):
            detail = "Random numbers are drawn in a checkpointed block."
            raise SiteRefused(Refused("inside-function", detail), *dict.fromkeys(self.sites))


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
