"""Autograd functions whose methods are class methods, and what else their classes hold.

Stock passes the class twice to a forward or backward that is a class method, and takes the type of
methods for it. Without a gradient it does not guard on what such a forward reads of its class, and
passes no context to `forward(ctx, first, *rest)` if there are two of the rest. It reads no
attribute of such a class but a method.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, ClassVar

import torch
from torch._dynamo.source import AttrSource
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.misc import AutogradFunctionContextVariable, AutogradFunctionVariable
from torch._dynamo.variables.nn_module import NNModuleVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._dynamo.variables.user_defined import UserDefinedClassVariable
from torch._guards import Source
from torch.autograd.function import _is_setup_context_defined

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator, holds_any
from graphmend_bc.dynamo.trace.compilation import Compilation, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import Forwards


@dataclass(slots=True, eq=False)
class ClassMethods(Feature):
    """That an attempt has traced what stock does not: it is there once one has."""

    stays: ClassVar[bool] = True

    def corrects(self) -> bool:
        return True


def prepare_method(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`AutogradFunctionApplyVariable.prepare_fn_vt`: a class method is bound to its class."""

    def prepare_fn_vt(
        self: Any, tx: Translator, ctx: VariableTracker, name: str, args: Args
    ) -> Any:
        method = self.fwd_fn if name == "forward" else self.bwd_fn
        bound = _bound(tx, method, self.parent_source, name)
        return stock(self, tx, ctx, name, args) if bound is None else (bound, [ctx, *args])

    return prepare_fn_vt


def call_apply(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`AutogradFunctionVariable.call_apply`: the same, where no gradient is asked for."""

    def call_apply(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> Any:
        compilation = current()
        if compilation is None or not compilation.may_mend:
            return stock(self, tx, args, kwargs)
        forwards = compilation.trace.of(Forwards)
        forwards.depth += 1
        try:
            return corrected(self, tx, args, kwargs)
        finally:
            forwards.depth -= 1

    def corrected(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> Any:
        found = None
        setup: Any = _is_setup_context_defined
        has_context = not setup(self.fn_cls.setup_context)
        if not kwargs and not (torch.is_grad_enabled() and holds_any(args, _asks_for_gradient)):
            forward = self.fn_cls.forward
            found = _bound(tx, forward, self.source, "forward")
            if found is None and has_context and _loses_context(forward, len(args)):
                found = _traced(tx, forward, self.source, "forward")
        if found is None:
            return stock(self, tx, args, kwargs)
        if not has_context:
            return found.call_function(tx, args, kwargs)
        ctx = AutogradFunctionContextVariable.create(tx, args, kwargs)
        return found.call_function(tx, [ctx, *args], kwargs)

    return call_apply


def _loses_context(forward: object, count: int) -> bool:
    """Whether stock passes no context, as it counts `*args` as one parameter.

    Args:
        forward: what is called.
        count: how many arguments `apply` is given.
    """
    if type(forward) is not FunctionType:
        return False
    code = forward.__code__
    is_variadic = bool(code.co_flags & inspect.CO_VARARGS)
    return is_variadic and len(inspect.signature(forward).parameters) == count


def _bound(
    tx: Translator, method: object, owner: Source | None, name: str
) -> VariableTracker | None:
    """A class method of a class that is found in the frame; None if it is something else."""
    if type(method) is not MethodType or not isinstance(method.__self__, type):
        return None
    return _traced(tx, method, owner, name)


def _traced(
    tx: Translator, method: object, owner: Source | None, name: str
) -> VariableTracker | None:
    """What a class has under a name; None if it is not found in the frame, or not to be mended."""
    compilation = current()
    if compilation is None or not compilation.may_mend or owner is None:
        return None
    compilation.trace.of(ClassMethods)
    found: VariableTracker = VariableTracker.build(
        tx, method, source=AttrSource(owner, name), realize=True
    )
    return found


def _asks_for_gradient(value: VariableTracker) -> bool:
    """Whether stock asks for a gradient: of a tensor that requires one, or a module that trains."""
    return isinstance(value, NNModuleVariable) or (
        isinstance(value, TensorVariable) and value.requires_grad is not False
    )


def read_attribute(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`AutogradFunctionVariable.var_getattr`: what the class holds is read as of other classes."""

    def var_getattr(self: Any, tx: Translator, name: str) -> Any:
        compilation = current()
        if compilation is None or not compilation.may_mend or self.source is None:
            return stock(self, tx, name)
        value = _value_in(self.fn_cls, name)
        if value is _NONE:
            return stock(self, tx, name)
        compilation.trace.of(ClassMethods)
        return VariableTracker.build(tx, value, source=AttrSource(self.source, name))

    return var_getattr


def make_super(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`SuperVariable.__init__`: `super()` in their class methods, of which stock knows no class."""

    def __init__(
        self: Any, typevar: VariableTracker, objvar: VariableTracker | None = None, **kwargs: Any
    ) -> None:
        compilation = current()
        if compilation is not None and compilation.may_mend:
            typevar, objvar = _as_class(compilation, typevar), _as_class(compilation, objvar)
        stock(self, typevar, objvar, **kwargs)

    return __init__


def _as_class(compilation: Compilation, value: Any) -> Any:
    """The variable of a class, where it is that of an autograd function."""
    known = value.realize() if isinstance(value, VariableTracker) else None
    if not isinstance(known, AutogradFunctionVariable):
        return value
    compilation.trace.of(ClassMethods)
    return UserDefinedClassVariable(known.fn_cls, source=known.source)


def _value_in(kind: type, name: str) -> object:
    """What a program has put into a class under a name, but for methods and other descriptors."""
    for each in kind.__mro__:
        if each is torch.autograd.Function:
            return _NONE
        if name in vars(each):
            value = vars(each)[name]
            return _NONE if hasattr(type(value), "__get__") else value
    return _NONE


_NONE = object()
