"""Draws of torch's that a condition rests on, made before the graph instead of in it.

    if torch.rand(1) < 0.5:
    keep = torch.zeros(depth).uniform_(0, 1) > rate

They must be the first of the graph from their generator, so that everything is drawn in eager
Python's order. What the graph draws on another device comes from that device's generator. The node
of such a draw becomes an input of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch._dynamo.source import GetItemSource, SyntheticLocalSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.utils._pytree import tree_leaves

from graphmend_bc.dynamo.graph.fx_nodes import with_ancestors
from graphmend_bc.dynamo.random_draws.drawn_values import (
    HostDraw,
    HostDraws,
    check_always_runs,
    check_inference_mode,
    tried,
    unguarded,
)
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_FUNCTIONS: Final = frozenset((torch.rand, torch.randn, torch.randint, torch.randperm))
_METHODS: Final = frozenset(("uniform_", "normal_", "random_", "bernoulli_", "exponential_"))
_MAKERS: Final = frozenset((torch.empty, torch.zeros, torch.ones, torch.full))
_CONSTANTS: Final = (int, float, bool, type(None), torch.dtype)


def draw_before_graph(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, condition: Node
) -> None:
    """Have what torch draws for a condition drawn before the graph.

    Args:
        tx: translator of the frame that asks.
        compilation: what is being compiled.
        site: where it asks.
        condition: node of the condition.

    Raises:
        Refused: something that must be drawn before cannot be, or it is not drawn in every call.
    """
    recorder = compilation.trace.recorder
    if recorder is None or not (needed := with_ancestors([condition]) & recorder.drawing):
        return
    check_is_outermost(tx)
    check_always_runs(tx, compilation.trace)
    graph = tx.output.graph
    # In a checkpointed function, say. It may be drawn before, and again in the backward pass.
    if any(node is None or node.graph is not graph for node in recorder.drawing):
        raise Refused("hoist-not-input", "Something is drawn in a graph inside the graph.")
    check_inference_mode(tx)
    elsewhere = {node for node in recorder.drawing - needed if node and _draws_elsewhere(node)}
    nodes = [node for node in graph.nodes if node in recorder.drawing - elsewhere]
    last = max(map(nodes.index, needed))
    if not all(map(_is_drawn_alone, nodes[: last + 1])):
        raise Refused("hoist-not-input", "What is drawn before depends on more than constants.")
    for node in nodes[: last + 1]:
        _bring_forward(tx, compilation, recorder, site, node)


def _draws_elsewhere(node: Node) -> bool:
    """Whether a node draws from the generator of another device: all its tensors are there."""
    around = (node, *node.all_input_nodes)
    values = tree_leaves([each.meta.get("example_value") for each in around])
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    given = tree_leaves((node.args, node.kwargs))
    return (
        bool(tensors)
        and all(tensor.device.type != "cpu" for tensor in tensors)
        and not any(isinstance(value, torch.Generator) for value in given)
    )


def _is_drawn_alone(node: Node) -> bool:
    """Whether a node draws from the CPU's own generator, and rests on nothing but constants."""
    value = node.meta.get("example_value")
    if type(value) is not torch._subclasses.FakeTensor or value.device.type != "cpu":
        return False
    if free_symbols(value) or value.requires_grad:
        return False
    if node.op == "call_function":
        return node.target in _FUNCTIONS and _is_constant(node.args) and _is_constant(node.kwargs)
    made = node.args[0] if node.op == "call_method" and node.target in _METHODS else None
    return (
        isinstance(made, Node)
        and made.op == "call_function"
        and made.target in _MAKERS
        and [*made.users] == [node]
        and all(map(_is_constant, (made.args, made.kwargs, node.args[1:], node.kwargs)))
    )


def _is_constant(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_constant, value))
    if isinstance(value, dict):
        return value.keys() <= _KEYWORDS and all(map(_is_constant, value.values()))
    is_cpu = isinstance(value, (torch.device, str)) and torch.device(value).type == "cpu"
    return is_cpu or type(value) in _CONSTANTS


_KEYWORDS: Final = frozenset(
    ("device", "dtype", "size", "low", "high", "n", "mean", "std", "to", "from", "p", "lambd")
)
"""None of them is a generator, another layout, or a tensor to write to."""


def _bring_forward(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    recorder: Recorder,
    site: Site,
    node: Node,
) -> None:
    """Make an input of a node that draws."""
    draws = compilation.trace.of(HostDraws)
    draw = _drawing(node)
    (drawn,), described = tried(tx, draw)
    local = draws.add(tx, compilation, site, draw, described)
    recorder.forget([node])
    if node.op == "call_method":  # what it is a name of becomes the input
        (made,) = node.all_input_nodes
        recorder.forget_write(storage_of(node.meta["example_value"]))
        node.target, node.args, node.kwargs = "contiguous", (made,), {}
        node = made
    _make_input(tx, node, GetItemSource(SyntheticLocalSource(local), 0), drawn)


def _drawing(node: Node) -> HostDraw:
    def on(copy: torch.Generator) -> tuple[Any, Any]:
        drawn = draw(generator=copy)
        return (drawn,), (drawn.dtype, drawn.shape)

    draw = _repeated(node)
    return HostDraw(
        (), lambda: on(torch.default_generator), lambda: [torch.default_generator], on=on
    )


def _repeated(node: Node) -> Callable[..., torch.Tensor]:
    """What a node does, from a generator."""
    args, kwargs, target = tuple(node.args), dict(node.kwargs), node.target
    if node.op == "call_function":
        assert callable(target)
        return lambda generator: target(*args, **kwargs, generator=generator)
    (made,) = node.all_input_nodes
    make, given, named, name = made.target, tuple(made.args), dict(made.kwargs), str(target)
    assert callable(make)
    return lambda generator: getattr(make(*given, **named), name)(
        *args[1:], **kwargs, generator=generator
    )


def _make_input(
    tx: InstructionTranslatorBase, node: Node, source: GetItemSource, drawn: torch.Tensor
) -> None:
    """Variables of the trace hold the node, so it is the same one that becomes an input."""
    tracer, fake = tx.output.root_tracer, node.meta["example_value"]
    known = [*tracer.input_name_to_proxy.values()]
    (known[-1].node.append if known else next(iter(node.graph.nodes)).prepend)(node)
    node.op, node.target, node.args, node.kwargs = "placeholder", node.name, (), {}
    tracer._input_versions_at_beginning.append(fake._version)
    tracer.input_name_to_proxy[node.name] = torch.fx.Proxy(node, tracer)
    node.meta["grapharg"] = unguarded(source, drawn, fake)
