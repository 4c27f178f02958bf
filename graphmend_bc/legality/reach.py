"""Which tensors outside an arm would get a gradient through it?

In eager Python a tensor that only the untaken arm uses gets no gradient at all; under `where` it
gets zeros, and an optimizer with weight decay or momentum would then move it. So both arms must
send gradients to the same tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from graphmend_bc.reporting.reasons import Refused


def check_same_reach(
    left: Tensor, left_outside: Iterable[Tensor], right: Tensor, right_outside: Iterable[Tensor]
) -> None:
    """Show that two results depend, differentiably, on the same outside tensors.

    Args:
        left, right: the tensors that are to be chosen from, with their autograd graphs.
        left_outside, right_outside: tensors from before the branch that each arm uses.

    Raises:
        Refused: some tensor is reached from one arm only.
    """
    edges = {_edge(t) for t in [*left_outside, *right_outside] if t.requires_grad}
    if _reached(left, edges) != _reached(right, edges):
        raise Refused("gradient-reach")


def _edge(tensor: Tensor) -> Any:
    """What a gradient of the tensor flows into: its autograd node, or the leaf itself."""
    return tensor.grad_fn if tensor.grad_fn is not None else id(tensor)


def _reached(result: Tensor, edges: set[Any]) -> set[Any]:
    found: set[Any] = set()
    seen: set[Any] = set()
    work = [_edge(result)]
    while work:
        edge = work.pop()
        if edge in seen:
            continue
        seen.add(edge)
        if edge in edges or isinstance(edge, int):
            found.add(edge)
            continue
        if (leaf := getattr(edge, "variable", None)) is not None:
            found.add(id(leaf))
            continue
        work.extend(following for following, _ in edge.next_functions if following is not None)
    return found
