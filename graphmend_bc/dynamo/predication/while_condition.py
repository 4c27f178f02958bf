"""Make a `torch.while_loop` compute its condition from what it carries, in the place of a flag.

A traced round computes the condition of the next one at its end, as CPython's bytecode does, and
the operator carries it as a flag. If the condition depends on the other carried values only, and
the flag before the first round is the same function of them, the operator's condition can compute
it, as one would write by hand: the flag goes, and with it a kernel and a copy in each round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._ops import HigherOrderOperator
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_flatten

from graphmend_bc.dynamo.graph.fx_nodes import has_out, is_in_place, tensors_of
from graphmend_bc.dynamo.trace.op_recorder import Recorder


def compute_condition(output: OutputGraph, recorder: Recorder, loop: Node) -> bool:
    """Take the flag out of a loop if its condition can be computed from what it carries.

    Args:
        output: the graph that is being traced.
        recorder: its operators so far.
        loop: the operator's node; its last carried value is the flag.

    Returns:
        False if everything was left as it was.
    """
    # What was written, drawn or switched since the flag was computed might change what it is.
    if recorder.written or recorder.draws or _switches_mode(loop.graph):
        return False
    test, body = (_module(output, name) for name in loop.args[:2])
    *state, first = _items(loop.args[2])
    operands = [*state, first, *_items(loop.args[3])]
    inputs = [node for node in body.graph.nodes if node.op == "placeholder"]
    *after, flag = map(_uncopied, _items(_end(body).args[0]))
    # What the condition may be computed from, with its place among the operands.
    known = {value: place for place, value in enumerate(after) if isinstance(value, Node)}
    known |= {node: place for place, node in enumerate(inputs) if place > len(state)}
    before = {value: operands[place] for value, place in known.items()}
    tail = _tail(flag, known)
    if inputs[len(state)].users or not tail or not _is_same(flag, _uncopied(first), before):
        return False
    _ask(test, tail, known, flag, len(state))
    _drop_flag(body, tail)
    loop.args = (*loop.args[:2], tuple(state), loop.args[3])
    loop.meta["example_value"] = loop.meta["example_value"][:-1]
    return True


def _switches_mode(graph: Graph) -> bool:
    """True if a call in a graph has no value: those that enter and leave modes have none."""
    return any(
        node.op == "call_function" and "example_value" not in node.meta for node in graph.nodes
    )


def _module(output: OutputGraph, attribute: Any) -> GraphModule:
    found = output.nn_modules[attribute.target]
    assert isinstance(found, GraphModule)
    return found


def _items(values: Any) -> list[Any]:
    return list(values)


def _end(module: GraphModule) -> Node:
    return cast(Node, next(node for node in module.graph.nodes if node.op == "output"))


def _uncopied(value: Any) -> Any:
    """What a copy was made of that is there for the operator's sake."""
    is_copy = isinstance(value, Node) and value.target == "clone"
    return value.args[0] if is_copy else value


def _tail(flag: Any, known: Mapping[Any, int]) -> list[Node]:
    """The operators between known values and the flag, in order; empty if there are others."""
    found, work = set[Node](), [flag]
    while work:
        node = work.pop()
        if node in known or node in found:
            continue
        if not isinstance(node, Node) or not _is_pure(node):
            return []
        found.add(node)
        work += node.all_input_nodes
    return [node for node in flag.graph.nodes if node in found]


def _is_pure(node: Node) -> bool:
    return (
        node.op in ("call_function", "call_method")
        and bool(tensors_of(node))
        and not isinstance(node.target, HigherOrderOperator)
        and not is_in_place(node)
        and not has_out(node)
    )


def _is_same(inner: Any, outer: Any, before: Mapping[Any, Any]) -> bool:
    """True if `outer`, in the graph around the loop, is what `inner` is before the first round."""
    if not (isinstance(inner, Node) and isinstance(outer, Node)):
        # By their texts: 0.0 is not -0.0.
        return type(inner) in _PLAIN and type(inner) is type(outer) and repr(inner) == repr(outer)
    if inner in before:
        return before[inner] is outer
    if inner.op == "placeholder" or (inner.op, inner.target) != (outer.op, outer.target):
        return False
    (mine, shape), (theirs, other) = map(_arguments, (inner, outer))
    return shape == other and all(
        _is_same(one, two, before) for one, two in zip(mine, theirs, strict=True)
    )


_PLAIN = frozenset((int, float, bool, str, type(None), torch.dtype, torch.device))


def _arguments(node: Node) -> tuple[list[Any], Any]:
    return tree_flatten((node.args, dict(node.kwargs)))


def _ask(
    test: GraphModule, tail: Sequence[Node], known: Mapping[Any, int], flag: Node, place: int
) -> None:
    """Let the condition's graph compute the flag from its other inputs."""
    inputs = [node for node in test.graph.nodes if node.op == "placeholder"]
    end = _end(test)
    former = end.args[0]
    copies = {value: inputs[at] for value, at in known.items()}
    with test.graph.inserting_before(end):
        for node in tail:
            copies[node] = test.graph.node_copy(node, copies.__getitem__)
    end.args = (copies[flag],)
    for unused in (former, inputs[place]):
        test.graph.erase_node(cast(Node, unused))
    test.recompile()


def _drop_flag(body: GraphModule, tail: Sequence[Node]) -> None:
    """Give one value less at the end of a round, and compute nothing for it."""
    end = _end(body)
    *state, flag = _items(end.args[0])
    end.args = (tuple(state),)
    inputs = [node for node in body.graph.nodes if node.op == "placeholder"]
    for node in dict.fromkeys([flag, *reversed(tail), inputs[len(state)]]):
        if not node.users:
            body.graph.erase_node(node)
    body.recompile()
