"""What only a guarded value used: the guards of a call have run it, so the graph need not."""

from __future__ import annotations

from collections.abc import Iterable

from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.graph.fx_nodes import has_out, is_writing, tensors_of


def drop_unused(gm: GraphModule, nodes: Iterable[Node]) -> None:
    """Take nodes of a slice out of a graph that nothing uses, and what only they use.

    What autograd may know of stays: hooks on saved tensors are told of it.

    Args:
        gm: the complete graph.
        nodes: those to begin with, if they are still in it.
    """
    graph, dropped = gm.graph, False
    work, alive = list(nodes), set(graph.nodes)
    while work:
        node = work.pop()
        calls = node.op in ("call_function", "call_method") and not is_writing(node)
        if node not in alive or node.users or not calls or has_out(node):
            continue
        if any(tensor.requires_grad for tensor in tensors_of(node)):
            continue
        work += node.all_input_nodes
        alive.discard(node)
        graph.erase_node(node)
        dropped = True
    if dropped:
        gm.recompile()
