"""What slices of a graph have in common is run once in a lookup."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from graphmend_bc.dynamo.before_graph.shared_steps import SharedSteps, shared_steps

X = torch.tensor([3.0, 1.0])


def traced() -> tuple[Graph, list[Node]]:
    """`(x * 2 + 1).exp().neg()`, and the sum of all of it."""
    graph = Graph()
    nodes = [graph.placeholder("x")]
    nodes.append(graph.call_function(torch.mul, (nodes[-1], 2)))
    nodes.append(graph.call_function(torch.add, (nodes[-1],), {"other": 1}))
    nodes.append(graph.call_method("exp", (nodes[-1],)))
    nodes.append(graph.call_function(torch.neg, (nodes[-1],)))
    nodes.append(graph.call_function(torch.stack, ([nodes[-1], nodes[2]], 1)))
    return graph, nodes


def steps(known: dict[Node, int], nodes: list[Node], outputs: list[Node]) -> SharedSteps | None:
    graph, copies = Graph(), dict[Node, Node]()
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    return shared_steps(known, copies, outputs)


def test_few_steps_are_not_worth_it() -> None:
    known = dict[Node, int]()
    _, nodes = traced()
    assert steps(known, nodes[:4], [nodes[3]]) is None
    assert steps(known, nodes[:5], [nodes[4]]) is None
    assert steps(known, nodes, [nodes[5]]) is not None
    assert len(set(known.values())) == len(known) == 5


def test_steps_of_two_traces_have_nothing_in_common() -> None:
    known = dict[Node, int]()
    for _ in range(2):
        _, nodes = traced()
        assert steps(known, nodes, [nodes[5]]) is None


def test_a_lookup_runs_what_it_has_not_run() -> None:
    known, memo = dict[Node, int](), dict[int, torch.Tensor]()
    _, nodes = traced()
    steps(known, nodes[:5], [nodes[4]])
    first = steps(known, nodes[:5], [nodes[2], nodes[4]])
    second = steps(known, nodes, [nodes[5], nodes[0]])
    assert first is not None
    assert second is not None
    added, negated = first([X], memo)
    assert torch.equal(negated, -(X * 2 + 1).exp())
    assert len(memo) == 4
    memo[known[nodes[4]]] = added
    together, given = second([X], memo)
    assert given is X
    assert torch.equal(together, torch.stack([added, added], 1))
    assert torch.equal(second([X], {})[0], torch.stack([negated, added], 1))
