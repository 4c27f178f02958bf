"""Attributes of a tensor that an operator returned as it is.

    y = x.contiguous()          y is x, where x is contiguous
    y.tag                       Dynamo finds no attribute of y's: y has no source
    y.tag = 3                   it drops the write, as if y were made in the graph
    self.b = self.b.to(dtype)   an `nn.Buffer`: Dynamo breaks at its `persistent`

Dynamo keeps attributes by variable, and there are two variables of one tensor. Both have the same
fake tensor, as the operators of fake tensors return their argument where those of tensors do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from torch import Tensor
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import TensorVariable
from torch._guards import Source

from graphmend_bc.dynamo.arguments import Translator
from graphmend_bc.dynamo.trace.compilation import current

OF_ALL_TENSORS: Final = frozenset(dir(Tensor))
"""Methods and the like, of which nothing is corrected."""


def written_value(tx: Translator, variable: TensorVariable, name: str) -> VariableTracker | None:
    """What was traced as written to an attribute of a tensor, under any variable of it."""
    fake = _fake(variable)
    for other, attributes in tx.output.side_effects.store_attr_mutations.items():
        if isinstance(other, TensorVariable) and _fake(other) is fake and name in attributes:
            return attributes[name]
    return None


def with_source(tx: Translator, variable: TensorVariable) -> TensorVariable:
    """A variable of the same tensor that has the source of the graph's input, if it is one."""
    source = None if variable.source else _source(tx.output, _fake(variable))
    if source is None:
        return variable
    return cast("TensorVariable", variable.clone(source=source, mutation_type=None))


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


def _source(output: OutputGraph, fake: Tensor) -> Source | None:
    """The source of the graph's input that a fake tensor stands for."""
    found = (tracked.source for tracked in output.tracked_fakes if tracked.fake is fake)
    return next(found, None)
