"""Where a site stands in a trace, and how plain Python functions are traced there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from torch._dynamo import exc
from torch._dynamo.output_graph import SubgraphTracer
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import UserFunctionVariable
from torch._higher_order_ops.wrap import tag_activation_checkpoint

from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.references import reference
from graphmend_bc.runtime import Site


@dataclass(slots=True, eq=False)
class Forwards(Feature):
    """How many forward passes are being traced in which eager Python records no gradients.

    Where no argument asks for one, stock traces them as any other function.
    """

    depth: int = 0


def check_is_outermost(tx: InstructionTranslatorBase, ours: int = 0) -> None:
    """Refuse sites inside a subgraph of a higher-order operator or a torch.func transform.

    The proofs look at the root graph, and values of the inner levels must not leave them.

    Args:
        tx: translator of the frame that has the site.
        ours: how many operators of our own are around it, where that does not matter.
    """
    depth, tracer = 0, tx.output.current_tracer
    while tracer.parent is not None:
        depth, tracer = depth + 1, tracer.parent
    if torch._C._functorch.peek_interpreter_stack() is not None or depth != ours:
        raise Refused("inside-function" if functions_around(tx) else "inside-transform")
    check_no_function_mode(tx)


def functions_around(tx: InstructionTranslatorBase) -> tuple[SubgraphTracer, ...]:
    """What traces `forward` of the autograd functions around a site, outermost first.

    Returns:
        Nothing if there are none, or something else is around the site: the backward pass of one,
        another operator, a transform.
    """
    found: list[SubgraphTracer] = []
    tracer = tx.output.current_tracer
    while tracer.parent is not None:
        # The graph of a backward pass lies inside of that of the forward pass, which is complete.
        is_complete = any(node.op == "output" for node in tracer.graph.nodes)
        if tracer.source_target not in _INLINED or is_complete:
            return ()
        found.append(tracer)
        tracer = tracer.parent
    is_transformed = torch._C._functorch.peek_interpreter_stack() is not None
    return () if is_transformed else tuple(reversed(found))


def backward_around(
    tx: InstructionTranslatorBase,
) -> tuple[SubgraphTracer, SubgraphTracer] | None:
    """What traces the backward pass of an autograd function that a site is in.

    Returns:
        It, and what has traced the forward pass; None if the site is in no backward pass, or
        something else is around its function.
    """
    backward = tx.output.current_tracer
    forward = backward.parent
    if forward is None or forward.parent is not tx.output.root_tracer:
        return None
    both = (backward.source_target, forward.source_target) == ("autograd.Function",) * 2
    if not both or torch._C._functorch.peek_interpreter_stack() is not None or functions_around(tx):
        return None
    return backward, forward


_INLINED: Final = ("autograd.Function", tag_activation_checkpoint)
"""Operators whose body runs once in the forward pass, as Dynamo names them."""


def inline(
    tx: InstructionTranslatorBase,
    function: Callable[..., Any],
    /,
    *args: VariableTracker,
    **kwargs: VariableTracker,
) -> VariableTracker:
    """Trace a call of a plain Python function."""
    return UserFunctionVariable(cast(Any, function)).call_function(tx, list(args), kwargs)


def as_break(
    compilation: Compilation,
    site: Site,
    refused: Refused,
    gb_type: str = "Data-dependent branching",
) -> exc.Unsupported:
    """The graph break that a refused site is, if tracing has to go on without us."""
    compilation.trace.refused[site] = refused
    why = f"{refused} ({reference(refused.reason.code)})"
    return exc.Unsupported(f"graphmend_bc left {site}: {why}", gb_type)


def is_true(value: object) -> bool:
    """Traced by Dynamo, which guards on what the truth value depends on."""
    return True if value else False  # noqa: SIM210
