"""Room on the interpreter's stack for graphs that launch many kernels.

Generated code makes Python calls for each kernel that it launches on an accelerator, and may have
to map memory for every one of them. The room costs as much as one such call, about 16 us, which is
more than a graph of many operators takes on a CPU, where kernels are called from C.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import torch

from graphmend_bc.runtime.data_stack import call_with_stack_room

MANY: Final = 256
"""Operators that are launched, beside which the room costs little."""


def with_stack_room(graph: Callable[..., Any], launched: int) -> Callable[..., Any]:
    """The same graph, called with room on the stack if it launches many operators.

    Args:
        graph: what the backend returned.
        launched: from `launched_by`.
    """
    return functools.partial(call_with_stack_room, graph) if launched >= MANY else graph


def launched_by(graph: torch.fx.Graph) -> int:
    """How many operators of a graph of Dynamo's give a tensor that is not on the CPU."""
    if len(graph.nodes) < MANY:
        return 0
    given = (node.meta.get("example_value") for node in graph.nodes if node.op != "placeholder")
    return sum(isinstance(value, torch.Tensor) and not value.is_cpu for value in given)
