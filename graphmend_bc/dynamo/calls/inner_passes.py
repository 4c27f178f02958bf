"""Gradients that `backward` of an autograd function computes by `torch.autograd.grad`.

Eager Python runs such a pass within the backward pass. So does the graph of `backward`. Nobody is
told of either, if it is for tensors that `backward` has made itself: only what leads to them runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch._dynamo import config as dynamo_config
from torch._dynamo.exc import Unsupported
from torch._dynamo.output_graph import OutputGraph, SubgraphTracer
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch.fx import Graph, GraphModule

from graphmend_bc.dynamo.calls.backward_pass import (
    Pass,
    check_recorded,
    check_unnoticed,
    unwatched,
)
from graphmend_bc.dynamo.graph.fx_nodes import is_input, tensors_of
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


@dataclass(slots=True, eq=False)
class InnerPasses(Feature):
    """The passes of an attempt that stand in the backward pass of an autograd function.

    Attributes:
        sites: where they were asked for.
    """

    sites: list[Site] = field(default_factory=list)

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        inner = (m for m in gm.modules() if isinstance(m, GraphModule) and m is not gm)
        check_unnoticed((node for module in inner for node in module.graph.nodes), self.sites)

    def on_commit(self, compilation: Compilation) -> bool:
        return True

    def guarded(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        return unwatched(graph, ())


def traced_inside(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    backward: SubgraphTracer,
    asked: Pass,
    trace: Callable[[], VariableTracker],
) -> VariableTracker:
    """Trace a pass as a part of the backward pass of an autograd function.

    Args:
        tx: translator of the frame that asks for it.
        compilation: what is being compiled.
        backward: what traces the backward pass.
        asked: the pass.
        trace: Dynamo's way to trace it.

    Returns:
        What `trace` does.

    Raises:
        Refused: something would be told of it, or it is for more than `backward` has made.
    """
    check_recorded(compilation)
    if asked.ends is None or not {*map(id, asked.ends)} <= _made_in(backward.graph):
        raise Refused("backward-noticed", "It is for a tensor that the backward pass is given.")
    if asked.retains:
        raise Refused("backward-noticed", "It leaves what it needs for another.")
    # What leads from other tensors to the result does not run, and is not used up.
    used_up = set(tx.output.autograd_grad_consumed_grad_fns)
    try:
        with dynamo_config.patch(trace_autograd_ops=True):
            result = trace()
    except Unsupported as error:
        raise Refused("backward-noticed", str(error).partition("\n")[0]) from error
    finally:
        tx.output.autograd_grad_consumed_grad_fns = used_up
    compilation.trace.of(InnerPasses).sites.append(asked.site)
    return result


def _made_in(graph: Graph) -> set[int]:
    """The tensors that a graph makes: a method may give the very tensor that it is called on."""
    given, made = set[int](), set[int]()
    for node in graph.nodes:
        (given if is_input(node) else made).update(map(id, tensors_of(node)))
    return made - given
