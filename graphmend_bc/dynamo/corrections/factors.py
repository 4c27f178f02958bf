"""`x.addcmul_(a, b, value=0.1)` and `addcdiv` stay the operators that eager Python calls.

Stock computes them by others, so that a factor may be a tensor; results differ in the last digits.
A factor that is a number needs none of that. For Inductor stock's form stays: its kernels compute
both in the same way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import SymNodeVariable
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, guard_scalar

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.graph.backends import is_inductor
from graphmend_bc.dynamo.symbols.symbolic_powers import is_closed
from graphmend_bc.dynamo.trace.compilation import current


def keep_operator(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TensorVariable.method_addcmul_` and `method_addcdiv_`: None, for the operator itself."""

    def method(self: Any, tx: Translator, *args: VariableTracker, **kwargs: VariableTracker) -> Any:
        if not _is_number(tx, kwargs):
            return stock(self, tx, *args, **kwargs)
        _guard_size(self, kwargs["value"].realize())
        return None

    return method


def keep_entry(stock: Any) -> Any:
    """The same for their entries in a table of methods."""
    return dataclasses.replace(stock, handler=keep_operator(stock.handler))


def call_method(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TorchInGraphFunctionVariable.call_function`: `torch.addcdiv` as the method is called."""

    def call_function(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> Any:
        if self.value is torch.addcdiv and len(args) == 3 and _is_number(tx, kwargs):
            tensor, *rest = args
            if (tensor := tensor.realize()).is_tensor():
                return tensor.call_method(tx, "addcdiv", rest, kwargs)
        return stock(self, tx, args, kwargs)

    return call_function


def _guard_size(tensor: Any, factor: VariableTracker) -> None:
    """Have a guard ask whether the tensor's dtype holds a factor: the kernel raises if it does not.

    A graph that may raise keeps copies of what it writes to.
    """
    if not isinstance(factor, SymNodeVariable) or not is_closed(factor.sym_num.node.expr):
        return
    dtype = tensor.as_proxy().node.meta["example_value"].dtype
    if dtype.is_floating_point and not free_unbacked_symbols(factor.sym_num):
        most = torch.finfo(dtype).max
        guard_scalar(factor.sym_num <= most)
        guard_scalar(factor.sym_num >= -most)


def _is_number(tx: Translator, kwargs: Keywords) -> bool:
    """Whether a number is the factor of a call that a backend shall see as it is written."""
    compilation = current()
    if compilation is None or not compilation.may_mend or tx.export or kwargs.keys() != {"value"}:
        return False
    factor = kwargs["value"].realize()
    is_known = factor.is_python_constant() and type(factor.as_python_constant()) in (int, float)
    is_number = is_known or isinstance(factor, SymNodeVariable)
    return is_number and not is_inductor(tx.output.compiler_fn)
