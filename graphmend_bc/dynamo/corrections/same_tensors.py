"""Attributes of a tensor that an operator returned as it is.

    y = x.contiguous()          y is x, where x is contiguous
    y.tag                       Dynamo finds no attribute of y's: y has no source
    y.tag = 3                   it drops the write, as if y were made in the graph
    self.b = self.b.to(dtype)   an `nn.Buffer`: Dynamo breaks at its `persistent`

Dynamo keeps attributes by variable, and there are two variables of one tensor. Both have the same
fake tensor, as the operators of fake tensors return their argument where those of tensors do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import TensorVariable
from torch._guards import Source

from graphmend_bc.dynamo.arguments import Translator
from graphmend_bc.dynamo.trace.compilation import current


def attribute(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TensorVariable.dynamic_getattr`: attributes that no tensor has by itself."""

    def dynamic_getattr(self: Any, tx: Translator, name: str) -> Any:
        fake = None if current() is None or hasattr(Tensor, name) else _fake(self)
        if fake is None:
            return stock(self, tx, name)
        for value in _values_written(tx, fake, name):
            return value
        source = None if self.source else _source(tx.output, fake)
        known = self if source is None else self.clone(source=source, mutation_type=None)
        return stock(known, tx, name)

    return dynamic_getattr


def written(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`SideEffects.store_attr`: what is written to an attribute, once the frame is traced."""

    def store_attr(self: Any, item: Any, *args: Any, **kwargs: Any) -> None:
        if current() is not None and isinstance(item, TensorVariable) and not item.source:
            item = _input(self, item) or item
        stock(self, item, *args, **kwargs)

    return store_attr


def _input(effects: Any, variable: TensorVariable) -> VariableTracker | None:
    """The variable of the graph's input that an operator returned; None if that is not known."""
    output = effects.output_graph_weakref()
    source = None if output is None else _source(output, _fake(variable))
    found = None if source is None else output.input_source_to_var.get(source)
    return found if found is not None and effects.is_attribute_mutation(found) else None


def _fake(variable: TensorVariable) -> Any:
    return variable.as_proxy().node.meta.get("example_value")


def _values_written(tx: Translator, fake: Tensor, name: str) -> Iterator[VariableTracker]:
    """What was traced as written to an attribute of the tensor, under any variable of it."""
    for variable, attributes in tx.output.side_effects.store_attr_mutations.items():
        if isinstance(variable, TensorVariable) and _fake(variable) is fake and name in attributes:
            yield attributes[name]


def _source(output: OutputGraph, fake: Tensor) -> Source | None:
    """The source of the graph's input that a fake tensor stands for."""
    found = (tracked.source for tracked in output.tracked_fakes if tracked.fake is fake)
    return next(found, None)
