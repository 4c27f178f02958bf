"""Which tensors outside an arm would get a gradient through it?

In eager Python a tensor that only the untaken arm uses gets no gradient at all; under `where` it
gets zeros, and an optimizer with weight decay or momentum would then move it. So both arms must
send gradients to the same tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from graphmend_bc.reasons import Refused


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


def check_reaches_all(results: Sequence[Tensor], outside: Iterable[Tensor]) -> None:
    """Show that every result depends, differentiably, on every outside tensor.

    The backward of `torch.cond` sends a gradient to each tensor that its arms use, zeros if need
    be, whichever of its results was asked for a gradient.

    Args:
        results: the tensors that one arm gives.
        outside: tensors from before the branch that either arm uses.

    Raises:
        Refused: some result does not depend on some tensor, or needs no gradient.
    """
    edges = {_edge(t) for t in outside if t.requires_grad}
    if not edges and not any(result.requires_grad for result in results):
        return
    for result in results:
        if not result.requires_grad or not edges <= _reached(result, edges):
            raise Refused("gradient-reach", "Not every result of the arms depends on it.")


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
