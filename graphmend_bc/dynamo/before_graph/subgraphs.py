"""The graph of an autograd function's `forward`, which stands inside of the frame's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch.fx import Graph, Node

from graphmend_bc.dynamo.trace.tracing import check_is_outermost, function_around
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode


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


def levels_of(tx: InstructionTranslatorBase) -> Levels:
    """The graphs at a place in a frame from which something may be computed before the graph.

    Args:
        tx: translator of the innermost frame.

    Raises:
        Refused: it is inside of another operator than one autograd function, or a transform.
    """
    tracer = function_around(tx)
    if tracer is None or tracer.parent is None:
        check_is_outermost(tx)
        return Levels((tx.output.graph,))
    check_no_function_mode(tx)
    around = {inner.node: given.node for given, inner in tracer.lifted_freevars.items()}
    return Levels((tracer.parent.graph, tracer.graph), around)
