"""Where a graph switches modes: before the graph they are as the frame found them."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch._guards import TracingContext
from torch.fx import Graph, Node

from graphmend_bc.dynamo.graph.fx_nodes import name_called
from graphmend_bc.reporting.reasons import Refused


def check_modes(graph: Graph, nodes: Collection[Node], *, numbers: bool) -> None:
    """Refuse to compute something before the graph that the graph computes in another mode.

    Args:
        graph: what is traced so far; what is to be computed stands at its end.
        nodes: what it is computed from.
        numbers: whether it is no tensor: inference mode makes other tensors, but no other numbers.

    Raises:
        Refused: it may be something else in the mode that the frame begins in.
    """
    entered: list[Node] = []
    ambient = _may_be_cast(graph)

    def differs() -> bool:
        blocks = [b for b in entered if not (numbers and name_called(b) == _INFERENCE)]
        return any(ambient or _matters(block) for block in blocks)

    for node in graph.nodes:
        name = name_called(node)
        if name in _ENTER:
            entered.append(node)
        elif name in _EXIT and entered:
            entered.pop()
        elif node in nodes and differs():
            raise Refused("hoist-not-input", f"{node.name} is computed in another mode.")
    if differs():
        raise Refused("hoist-not-input", f"It is inside {name_called(entered[-1])}.")


_INFERENCE = "_enter_inference_mode"
_ENTER = frozenset(("_enter_autocast", _INFERENCE))
_EXIT = frozenset(("_exit_autocast", "_exit_inference_mode"))


def _may_be_cast(graph: Graph) -> bool:
    """True unless it is sure that autocast was off when the frame began."""
    names = [name_called(node) for node in graph.nodes]
    if names.count("_enter_autocast") > names.count("_exit_autocast"):
        return _was_cast()  # what is set now is the block's
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


def _was_cast() -> bool:
    """Whether autocast was on when the trace began; True if that is not known."""
    context = TracingContext.try_get()
    began = {} if context is None else context.global_context.global_state
    known = [began.get(name, (None, True)) for name in _AUTOCAST]
    return any(value for _, value in known)


_AUTOCAST = ("autocast_enabled", "autocast_cpu_enabled")
"""Dynamo's names of the modes that it notes when a trace begins: the accelerator's, the CPU's."""


def _matters(block: Node) -> bool:
    """False for a block that switches autocast off where it is off."""
    return name_called(block) != "_enter_autocast" or block.args[2:3] != (False,)
