"""The values inside an arm's result: tensors and Python values in tuples and fresh lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.lists import ListVariable, TupleVariable
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.reporting.reasons import Refused

LITERALS = (int, float, complex, bool, str, bytes, torch.Size, torch.dtype, torch.device)
"""Types whose `repr` tells all values apart, the sign of zero included."""


@dataclass(frozen=True, slots=True)
class ArmOutput:
    """A value that is no container.

    Attributes:
        path: types and positions of the containers around it.
        value: the value.
    """

    path: tuple[tuple[str, int, int], ...]
    value: VariableTracker

    def check_same(self, other: ArmOutput) -> None:
        """Show that two values that are no tensors are the same to everyone.

        Raises:
            Refused: they differ, or it is not known.
        """
        check_same_value(self.value, other.value)


def check_same_value(left: VariableTracker, right: VariableTracker) -> None:
    """Show that two values that are no tensors are the same to everyone.

    Raises:
        Refused: they differ, or it is not known.
    """
    if left is right or _are_one_object(left, right):
        return
    if left.is_python_constant() and right.is_python_constant():
        one, two = left.as_python_constant(), right.as_python_constant()
        if one is two or (
            type(one) is type(two) and type(one) in LITERALS and repr(one) == repr(two)
        ):
            return
        if type(one) is type(two):
            raise Refused("arms-differ-in-value", f"The values are {one!r} and {two!r}.")
    raise Refused("arms-differ-in-type", f"The types are {type_name(left)} and {type_name(right)}.")


def _are_one_object(left: VariableTracker, right: VariableTracker) -> bool:
    """True if both come from one place; a tensor `as_subclass` keeps the place of the tensor."""
    classes = {(type(value), getattr(value, "class_type", None)) for value in (left, right)}
    return left.source is not None and left.source == right.source and len(classes) == 1


def outputs_of(
    value: VariableTracker, path: tuple[tuple[str, int, int], ...] = ()
) -> Iterator[ArmOutput]:
    """The leaves of a result, in order.

    Raises:
        Refused: there is a list in it, whose identity an arm's caller could notice.
    """
    value = value.realize()
    if type(value) is TupleVariable:
        for position, item in enumerate(value.items):
            yield from outputs_of(item, (*path, ("tuple", len(value.items), position)))
    elif isinstance(value, ListVariable) and isinstance(value.mutation_type, ValueMutationNew):
        raise Refused("arms-differ-in-type", "A list that is made in an arm cannot be chosen.")
    else:
        if isinstance(value, TensorVariable) and type(value) is not TensorVariable:
            raise Refused("arms-differ-in-type", f"It is a {type_name(value)}.")
        yield ArmOutput(path, value)


def rebuilt(template: VariableTracker, values: Iterator[VariableTracker]) -> VariableTracker:
    """A result of the same structure with other leaves."""
    template = template.realize()
    if type(template) is TupleVariable:
        return TupleVariable([rebuilt(item, values) for item in template.items])
    return next(values)


def type_name(value: VariableTracker) -> str:
    """The Python type of a value, for messages."""
    try:
        return value.python_type().__name__
    except NotImplementedError:
        return type(value).__name__
