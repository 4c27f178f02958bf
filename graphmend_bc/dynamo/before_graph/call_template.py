"""Arguments of a call, with places for the tensors that are computed when it is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lists import ListVariable, SizeVariable, SliceVariable, TupleVariable
from torch._dynamo.variables.tensor import SymNodeVariable
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from graphmend_bc.dynamo.host_values.host_reads import is_plain
from graphmend_bc.reporting.reasons import Refused


class _Tensor:
    """The type of `TENSOR`."""

    def __repr__(self) -> str:
        return "tensor"


TENSOR: Final = _Tensor()
"""Stands for a tensor among arguments."""


def template_of(value: VariableTracker, nodes: list[Node]) -> Any:
    """An argument as a constant, `TENSOR`, or a tuple, list or slice of these.

    Args:
        value: the argument.
        nodes: the nodes of the tensors in it are added here, in order.

    Raises:
        Refused: it holds something else.
    """
    value = value.realize()
    if is_plain(value):
        nodes.append(value.as_proxy().node)
        return TENSOR
    if isinstance(value, SymNodeVariable) and not free_unbacked_symbols(value.sym_num):
        return value.evaluate_expr()
    if isinstance(value, _CONTAINERS) and type(value) in _CONTAINERS:
        items = [template_of(item, nodes) for item in value.items]
        kind: Any = value.python_type()
        return slice(*items) if kind is slice else kind(items)
    if not value.is_python_constant():
        raise Refused("hoist-not-input", f"An argument is {value}.")
    return value.as_python_constant()


_CONTAINERS = (TupleVariable, SizeVariable, ListVariable, SliceVariable)


def filled_template(form: Any, tensors: Iterator[Any]) -> Any:
    """The argument, with tensors in their places; lists are new.

    Args:
        form: as `template_of` gives it.
        tensors: for all places, in order.
    """
    if form is TENSOR:
        return next(tensors)
    if type(form) is slice:
        return slice(
            *(filled_template(item, tensors) for item in (form.start, form.stop, form.step))
        )
    if isinstance(form, (tuple, list)):
        return type(form)(filled_template(item, tensors) for item in form)
    return form
