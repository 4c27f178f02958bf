"""Attempts at a graph that is made node by node, as Dynamo makes one, without a program."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch._dynamo.backends import debugging
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from graphmend_bc.dynamo.graph.fx_nodes import last_node
from graphmend_bc.dynamo.graph.state_snapshot import StateSnapshot
from graphmend_bc.dynamo.rollback.graph_proof import prove_graph
from graphmend_bc.dynamo.rollback.rollback_analysis import Rollback, undo_of
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


def site(line: int = 1) -> Site:
    """A site of the program."""
    return Site.of(site.__code__, "POP_JUMP_IF_FALSE", 0, line)


class Attempt:
    """One attempt, with a graph whose operators run on fake tensors under a recorder."""

    def __init__(self) -> None:
        nobody: Any = None
        self.compilation = Compilation(site.__code__, nobody, nobody, may_mend=True)
        self.trace = self.compilation.trace
        self.graph = Graph()
        self.module = torch.nn.Module()
        self.symbols = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.symbols)
        self.recorder = Recorder(self.mode, lambda: last_node(self.graph))
        self.trace.listener = self.recorder
        effects = SimpleNamespace(
            store_attr_mutations={}, tensor_hooks={}, id_to_variable={}, is_modified=lambda _: True
        )
        self.output: Any = SimpleNamespace(
            random_calls=[],
            export=False,
            compiler_fn=debugging.aot_eager,
            side_effects=effects,
            input_source_to_var={},
            fake_mode=self.mode,
            shape_env=self.symbols,
        )

    @property
    def rollback(self) -> Rollback:
        """What is known of the way back."""
        return self.trace.of(Rollback)

    def given(self, value: object, *, op: str = "placeholder", name: str = "") -> Node:
        """An input of the graph; a real tensor is made a fake one."""
        node = self.graph.create_node(op, name or f"input_{len(self.graph.nodes)}")
        if type(value) is torch.Tensor:
            value = self.mode.from_tensor(value, static_shapes=True)
        node.meta["example_value"] = value
        return node

    def call(self, target: str | Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        """A method of a tensor, or a function, is called, and runs."""
        op = "call_method" if isinstance(target, str) else "call_function"
        node = self.graph.create_node(op, target, args, kwargs)
        given = [arg.meta["example_value"] if isinstance(arg, Node) else arg for arg in args]
        function = getattr(torch.Tensor, target) if isinstance(target, str) else target
        with self.mode:
            node.meta["example_value"] = function(*given, **kwargs)
        return node

    def ended(self, *results: Node) -> GraphModule:
        """The graph, which gives some results."""
        self.graph.output(results)
        return GraphModule(self.module, self.graph)

    def undo(self, *opaque: Node) -> StateSnapshot | str:
        """How the graph is undone, or why it cannot be."""
        try:
            return undo_of(self.trace, self.ended(), list(opaque), self.output)
        except (Refused, SiteRefused) as error:
            return said(error)

    def proof(self, *results: Node) -> str:
        """What the proof says against the graph, and of which lines; nothing if it is proven."""
        try:
            prove_graph(self.compilation, self.ended(*results), self.output)
        except SiteRefused as error:
            return f"{said(error)} @{','.join(str(site.lineno) for site in error.sites)}"
        assert self.trace.proven
        return ""


def said(error: Refused | SiteRefused) -> str:
    """The reason of a refusal, and what was found."""
    refused = error.refused if isinstance(error, SiteRefused) else error
    return f"{refused.reason.code}: {refused.detail}".removesuffix(": ")
