"""Outputs of a graph whose autograd history a backward pass inside the graph has used up.

`loss.backward()` frees what the nodes behind `loss` had saved. A loss that is returned afterwards
requires a gradient still, and a second backward pass from it raises. Of a graph that holds the pass
such a loss comes out without a history, and is given one that raises in the same place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import TensorVariable
from torch.autograd.graph import Node

from graphmend_bc.dynamo.graph.emit import method
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature


@dataclass(slots=True, eq=False)
class ConsumedOutputs(Feature):
    """What backward passes inside a graph have freed.

    Attributes:
        freed: nodes of autograd that had saved tensors, and raise now.
        positions: of the graph's outputs that get a history that raises.
    """

    order: ClassVar[int] = 45  # after the outputs are apart

    freed: set[Node] = field(default_factory=set)
    positions: tuple[int, ...] = ()

    def on_outputs(
        self, tx: InstructionTranslatorBase, outputs: Sequence[VariableTracker]
    ) -> list[VariableTracker]:
        """Detach the outputs whose history only raises; Dynamo breaks for others it finds."""
        histories = [_history_of(output) for output in outputs]
        self.positions = tuple(
            place
            for place, history in enumerate(histories)
            if history is not None and self._raises(history, {*histories} - {history})
        )
        return [
            method(tx, "detach", output) if place in self.positions else output
            for place, output in enumerate(outputs)
        ]

    def _raises(self, history: Node, others: Collection[Node | None]) -> bool:
        """Whether a pass raises before it comes to a leaf, or to what it may be asked for."""
        met = set(reachable([history], self.freed))
        return not met.isdisjoint(self.freed) and not any(
            node in others or leaf_of(node) is not None for node in met
        )

    def wrapped(self, compilation: Compilation, graph: Callable[..., Any]) -> Callable[..., Any]:
        return _with_histories(graph, self.positions) if self.positions else graph


def _history_of(output: VariableTracker) -> Node | None:
    if not isinstance(output, TensorVariable):
        return None
    example = output.as_proxy().node.meta.get("example_value")
    if not isinstance(example, torch.Tensor) or example.grad_fn is None:
        return None
    # One of several views must not be written to, which it would not tell any more.
    is_one_of_several = example._is_view() and len(example.grad_fn._input_metadata) > 1
    return None if is_one_of_several else example.grad_fn


def freed_by(
    roots: Iterable[torch.Tensor], ends: Iterable[torch.Tensor] | None = None
) -> set[Node]:
    """The nodes that a backward pass is going to free something of, before it runs.

    Args:
        roots: where it starts.
        ends: what it computes gradients of; None if of all leaves.
    """
    nodes = list(reachable(root.grad_fn for root in roots))
    if ends is not None:
        nodes = list(_leading_to([*ends], nodes))
    return {
        node
        for node in nodes
        if any(_has_tensor(getattr(node, name)) for name in dir(node) if _is_saved(name))
    }


def _leading_to(ends: Sequence[torch.Tensor], nodes: Sequence[Node]) -> Iterator[Node]:
    """Those of some nodes that are run for the gradients of some tensors."""
    before: dict[Node, list[Node]] = {}
    for node in nodes:
        for following, _ in node.next_functions:
            if following is not None:
                before.setdefault(following, []).append(node)
    leaves, histories = {id(end) for end in ends}, {end.grad_fn for end in ends}
    left = [node for node in nodes if node in histories or id(leaf_of(node)) in leaves]
    seen = set[Node]()
    while left:
        for node in before.pop(left.pop(), ()):
            if node not in seen:
                seen.add(node)
                left.append(node)
                yield node


def _is_saved(name: str) -> bool:
    return name.startswith("_saved_") or name == "saved_tensors"


def _has_tensor(saved: object) -> bool:
    items = saved if isinstance(saved, (list, tuple)) else [saved]
    return any(isinstance(item, torch.Tensor) for item in items)


def reachable(nodes: Iterable[Node | None], stop: Collection[Node] = ()) -> Iterator[Node]:
    """The nodes of autograd behind some, themselves too, but none behind those in `stop`."""
    seen, left = set[Node](), list(nodes)
    while left:
        if (node := left.pop()) is None or node in seen:
            continue
        seen.add(node)
        yield node
        if node not in stop:
            left += [following for following, _ in node.next_functions]


def leaf_of(node: Node) -> torch.Tensor | None:
    """The tensor whose gradient a node adds to; None if it is another node."""
    return getattr(node, "variable", None)


class _Consumed(torch.autograd.Function):
    """A tensor as it is, with a history that has been used up."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
        return value.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Raise what eager Python raises, in the words of this torch."""
        with torch.enable_grad():
            leaf = torch.ones((), requires_grad=True)
            square = leaf * leaf
            for _ in range(2):
                torch.autograd.grad(square, leaf)


def _with_histories(graph: Callable[..., Any], positions: Sequence[int]) -> Callable[..., Any]:
    """A compiled graph some of whose results require a gradient that nobody can compute."""

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        results = list(graph(*args, **kwargs))
        with torch.enable_grad():
            anchor = torch.empty(0, requires_grad=True)  # only what has an input gets a history
            for place in positions:
                results[place] = cast(Any, _Consumed).apply(results[place], anchor)
        return results

    return run_graph
