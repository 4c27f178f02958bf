"""A call of a function that works on the host, with what it gives as tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import torch

from graphmend_bc.dynamo.before_graph.call_template import filled_template
from graphmend_bc.dynamo.before_graph.mutation_check import check_unchanged, copies_of
from graphmend_bc.reporting.reasons import Refused

NUMBERS: Final = MappingProxyType({float: torch.float64, int: torch.int64})
"""Numbers that a function may give, with the dtypes of tensors that hold them exactly."""


@dataclass(frozen=True, slots=True, eq=False)
class HostCall:
    """A call that takes what it needs from a frame.

    Attributes:
        function: what is called.
        arguments: by position, as `template_of` gives them.
        tensors: from the values that the frame has to those tensors.
    """

    function: Callable[..., Any]
    arguments: Sequence[Any]
    tensors: Callable[..., Sequence[torch.Tensor]]

    def __call__(self, *values: Any) -> tuple[list[torch.Tensor], Any]:
        """Call the function.

        Args:
            values: what the frame has.

        Returns:
            The arrays that it gave, as tensors with their memory, its numbers, as tensors of one
            element, and a description to compare.

        Raises:
            Refused: it gave something else, or did something to its arguments.
        """
        originals = self.tensors(*values)
        tensors = copies_of(originals)
        given = iter(tensors)
        value = self.function(*(filled_template(argument, given) for argument in self.arguments))
        check_unchanged(tensors, originals)
        arrays: list[torch.Tensor] = []
        described = _described(value, arrays)
        if any(_share(a, b) for i, a in enumerate(arrays) for b in [*arrays[:i], *tensors]):
            raise Refused("hoist-not-input", "What it gives shares memory.")
        return arrays, described


def _described(value: Any, arrays: list[torch.Tensor]) -> Any:
    """Types, shapes and layouts of what is given; arrays and numbers are added to a list."""
    if type(value) in (list, tuple):
        return type(value), [_described(item, arrays) for item in value]
    if type(value) in NUMBERS:
        arrays.append(torch.tensor(value, dtype=NUMBERS[type(value)], device="cpu"))
        return (type(value),)
    if value is None:
        return (None,)
    if type(value).__module__ != "numpy" or type(value).__name__ != "ndarray":
        raise Refused("hoist-not-input", f"It gives a value of type {type(value).__name__}.")
    if not value.flags.writeable or not value.dtype.isnative:
        raise Refused("hoist-not-input", "It gives an array that torch cannot have.")
    try:
        arrays.append(torch.from_numpy(value))
    except (TypeError, ValueError) as error:
        raise Refused("hoist-not-input", f"It gives an array of {value.dtype}.") from error
    return value.dtype.str, value.shape, value.strides


def _share(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two tensors may be in the same memory."""
    if one.device != other.device or not one.numel() or not other.numel():
        return False
    (a, b), (c, d) = map(_span, (one, other))
    return a < d and c < b


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
