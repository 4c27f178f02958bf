"""Results of NumPy's functions for which torch's stand-in has another type than NumPy.

    np.array([2, 3]) / 3         float64; the stand-in gives float32
    np.square(np.array([2]))     int64; the stand-in gives float64

NumPy itself says which type a ufunc gives, by the rules of the version that is installed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import numpy
import torch
from torch._dynamo.exc import unimplemented
from torch._dynamo.utils import numpy_operator_wrapper, numpy_to_tensor_wrapper
from torch.fx import Node

from graphmend_bc.dynamo.trace.compilation import current

_OPERATORS: Final = MappingProxyType(
    {
        operator.add: "add",
        operator.sub: "subtract",
        operator.mul: "multiply",
        operator.truediv: "true_divide",
        operator.floordiv: "floor_divide",
        operator.mod: "remainder",
        operator.pow: "power",
    }
)
_GIVE_FLOATS: Final = frozenset({"angle", "corrcoef", "cov", "i0", "sinc"})
"""Functions that are no ufuncs, and give float64 of whole numbers."""

_SCALARS: Final = (int, float, complex)


def make_array(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`NumpyNdarrayVariable(proxy)`: what a function of NumPy's gives, while it is traced."""

    def init(self: Any, proxy: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, proxy, *args, **kwargs)
        if current() is not None and (differs := _difference(proxy.node)):
            unimplemented(
                gb_type="NumPy result of another type",
                context=str(proxy.node.target),
                explanation=differs,
                hints=["Give NumPy numbers of the type that you want, such as float64."],
            )

    return init


def _difference(node: Node) -> str:
    """How the type of a node's value is not NumPy's; empty if it is, or if that is not known."""
    call, index = node, 0
    if node.target is operator.getitem and isinstance(node.args[0], Node):
        call, index = node.args[0], node.args[1]  # type: ignore[assignment]
    name = _name_of(call.target)
    if not name or call.kwargs or not isinstance(index, int):
        return ""
    found, wanted = _dtype(node), _type_by_numpy(name, [_operand(arg) for arg in call.args], index)
    if found is None or wanted is None or found == wanted:
        return ""
    return f"numpy.{name} gives {wanted} here; what torch has in its place gives {found}."


def _name_of(target: Any) -> str:
    """The name in NumPy of what a node calls."""
    if isinstance(target, numpy_operator_wrapper):
        return _OPERATORS.get(target.op, "")
    return str(target.f.__name__) if isinstance(target, numpy_to_tensor_wrapper) else ""


def _type_by_numpy(name: str, operands: list[Any], index: int) -> numpy.dtype[Any] | None:
    if any(operand is None for operand in operands):
        return None
    function = getattr(numpy, name, None)
    if name in _GIVE_FLOATS:
        whole = all(isinstance(o, numpy.dtype) and o.kind in "biu" for o in operands)
        return numpy.dtype("float64") if whole else None
    if not isinstance(function, numpy.ufunc) or function.nin != len(operands):
        return None
    try:
        types = function.resolve_dtypes((*operands, *[None] * function.nout))
    except (TypeError, AttributeError):  # there is no such loop, or NumPy is older than 1.25
        return None
    return types[function.nin + index]


def _operand(argument: Any) -> Any:
    """What stands for an argument in NumPy's rules: a type, or the class of a Python number."""
    if isinstance(argument, Node):
        return _dtype(argument)
    return type(argument) if type(argument) in _SCALARS else None


def _dtype(node: Node) -> numpy.dtype[Any] | None:
    value = node.meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return numpy.dtype(str(value.dtype).removeprefix("torch."))
    except TypeError:  # torch has types that NumPy lacks
        return None
