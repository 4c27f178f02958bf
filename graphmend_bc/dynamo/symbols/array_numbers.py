"""Arrays of NumPy's that have a dimension are no numbers, even of one element.

Dynamo has tensors in their place, of which torch makes numbers where it wants a size, a bound or
an index. Eager Python raises there.

    torch.zeros(np.array([2]))      TypeError
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch._dynamo.exc import unimplemented
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lists import BaseListVariable, RangeVariable
from torch._dynamo.variables.tensor import NumpyNdarrayVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.symbols.captures import Captures, refuse_captured
from graphmend_bc.dynamo.symbols.symbolic_powers import power
from graphmend_bc.dynamo.trace.compilation import current


def is_no_number(value: VariableTracker) -> bool:
    """True for an array of NumPy's with a dimension."""
    if not isinstance(value, NumpyNdarrayVariable):
        return False
    return bool(value.as_proxy().node.meta["example_value"].dim())


def _dtype(array: NumpyNdarrayVariable) -> torch.dtype:
    dtype: torch.dtype = array.as_proxy().node.meta["example_value"].dtype
    return dtype


_NOT_PYTHONS: Final = (torch.float32, torch.float16, torch.complex64)


@contextmanager
def refuse_numbers(values: Iterable[VariableTracker]) -> Iterator[None]:
    """A block in which no symbol may be made of what an array holds.

    Args:
        values: what is computed with there.

    Raises:
        SiteRefused: there is such an array among the values, and a symbol was made.
    """
    compilation = current()
    if compilation is None or not compilation.captures or not any(map(has_array, values)):
        yield
        return
    captures = compilation.trace.of(Captures)
    before = len(captures.symbols)
    yield
    if len(captures.symbols) > before:
        refuse_captured("An array of NumPy's is no number, even of one element.")


def has_array(value: VariableTracker) -> bool:
    """True for such an array, and for a list of them."""
    if not value.is_realized():
        return False
    known = value.realize()
    if isinstance(known, BaseListVariable) and not isinstance(known, RangeVariable):
        return any(map(has_array, known.items))
    return is_no_number(known)


def call_torch(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TorchInGraphFunctionVariable.call_function`, which is that of `math`'s functions, too."""

    def call_function(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        compilation = current()
        if self.value is math.pow and compilation is not None:
            made = power(tx, args)
            if made is not None:
                return made
        if compilation is None or not compilation.captures:  # most calls: no generator is made
            return stock(self, tx, args, kwargs)  # type: ignore[no-any-return]
        with refuse_numbers((*args, *kwargs.values())):
            result: VariableTracker = stock(self, tx, args, kwargs)
        return result

    return call_function


def make_slice(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`SliceVariable(bounds)`, which reads the numbers of the bounds."""

    def init(self: Any, items: list[VariableTracker], *args: Any, **kwargs: Any) -> None:
        with refuse_numbers(items):
            stock(self, items, *args, **kwargs)

    return init


def check_assigned(value: VariableTracker) -> None:
    """Refuse to set a part of a tensor to an array, which Dynamo takes for a tensor.

    Without a dimension it may be a number of NumPy's, which torch takes if Python has its type.

    Raises:
        Unsupported: Python raises.
    """
    if current() is None or not value.is_realized():
        return
    known = value.realize()
    if is_no_number(known) or (
        isinstance(known, NumpyNdarrayVariable) and _dtype(known) in _NOT_PYTHONS
    ):
        unimplemented(
            gb_type="Array of NumPy's assigned to a part of a tensor",
            context=repr(value),
            explanation="Python raises a TypeError here.",
            hints=[],
        )
