"""Which tensors outside an arm would get a gradient through it?

In eager Python a tensor that only the untaken arm uses gets no gradient at all; under `where` it
gets zeros, and an optimizer with weight decay or momentum would then move it. So both arms must
send gradients to the same tensors.
"""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor
from torch.fx import Node

from graphmend_bc.reasons import Refused


def check_same_reach(
    left: Node, left_arm: Collection[Node], right: Node, right_arm: Collection[Node]
) -> None:
    """Show that the two results depend, differentiably, on the same outside tensors.

    Args:
        left, right: the nodes that are to be chosen from.
        left_arm, right_arm: the nodes recorded in each arm.

    Raises:
        Refused: some tensor is reached from one arm only.
    """
    one, other = _reached(left, left_arm), _reached(right, right_arm)
    for node in one ^ other:
        raise Refused("gradient-reach", f"Only one arm uses '{node.name}' differentiably.")


def _reached(result: Node, arm: Collection[Node]) -> set[Node]:
    inside = set(arm)
    seen: set[Node] = set()
    frontier: set[Node] = set()
    work = [result]
    while work:
        node = work.pop()
        if node in seen or not _needs_gradient(node):
            continue
        seen.add(node)
        if node in inside and node.op not in ("placeholder", "get_attr"):
            work.extend(node.all_input_nodes)
        else:
            frontier.add(node)
    return frontier


def _needs_gradient(node: Node) -> bool:
    value = node.meta.get("example_value")
    leaves = value if isinstance(value, (tuple, list)) else [value]
    return any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves)
