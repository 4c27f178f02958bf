"""What an operator between one of the program's own objects and something else calls first.

Python asks the class of what stands on the left, whatever stands on the right. Stock Dynamo asks
`__torch_function__` for `a @ t`, if the class of `a` has one: with the reflected operator of the
tensor, which Python asks only if `__matmul__` of `a` does not know the tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, MappingProxyType, WrapperDescriptorType
from typing import Any, ClassVar, Final

import torch
from torch._dynamo import exc
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.torch_function import can_dispatch_torch_function
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable

from graphmend_bc.dynamo.absence.class_lookups import note_lookup
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.trace.compilation import current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused


@dataclass(slots=True, eq=False)
class OwnOperators(Feature):
    """That an attempt has traced what stock does not: it is there once one has."""

    stays: ClassVar[bool] = True

    def corrects(self) -> bool:
        return True


_COMPUTING: Final = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"),
    *("matmul", "and", "or", "xor", "lshift", "rshift"),
)
_COMPARING: Final = ("lt", "le", "eq", "ne", "gt", "ge")


def _methods_of_operators() -> Mapping[object, Sequence[str]]:
    """The methods of what stands on the left, in the order in which Python asks them."""

    def function(name: str) -> object:
        return getattr(operator, f"__{name}__")

    computing = {function(name): (f"__{name}__",) for name in (*_COMPUTING, *_COMPARING)}
    in_place = {function(f"i{name}"): (f"__i{name}__", f"__{name}__") for name in _COMPUTING}
    return MappingProxyType({**computing, **in_place})


_METHODS: Final = _methods_of_operators()


def operated(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`BuiltinVariable._handle_insert_op_in_graph`: an operator with a tensor as an operand."""

    def insert(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> Any:
        compilation, names = current(), _METHODS.get(self.fn, ())
        mends = compilation is not None and compilation.may_mend
        if mends and names and len(args) == 2 and can_dispatch_torch_function(tx, args, kwargs):
            assert compilation is not None
            for name in names:
                value = _asked(tx, args[0].realize(), name, args[1])
                if value is not None:
                    compilation.trace.of(OwnOperators)
                    return value
        return stock(self, tx, args, kwargs)

    return insert


def _asked(
    tx: Translator, owner: VariableTracker, name: str, other: VariableTracker
) -> VariableTracker | None:
    """What a method of the left operand gives; None if there is none, or it does not know.

    Raises:
        Unsupported: the method is no plain function.
    """
    if not is_users(owner):
        return None
    note_lookup(owner, name)
    held = [vars(kind)[name] for kind in owner.python_type().__mro__ if name in vars(kind)]
    if held and held[0] is object.__ne__:
        equal = _asked(tx, owner, "__eq__", other)
        if equal is None:
            return None
        return BuiltinVariable(operator.not_).call_function(tx, [equal], {})
    if not held or isinstance(held[0], WrapperDescriptorType):  # of `object`, of a base in C
        return None
    try:
        function_of(tx, owner, name)
    except Refused as refused:
        raise exc.Unsupported(str(refused), "Unsupported function call") from None
    value: VariableTracker = owner.call_method(tx, name, [other], {})
    return None if gives_up(value) else value


def gives_up(value: VariableTracker) -> bool:
    """True for what a method of an operator gives that does not know the other operand."""
    return value.is_python_constant() and value.as_python_constant() is NotImplemented


def is_users(operand: VariableTracker) -> bool:
    """True for an object of a class of the program's, or of a library's written in Python."""
    return isinstance(operand, UserDefinedObjectVariable) and not issubclass(
        operand.python_type(), torch.Tensor
    )


def function_of(tx: Translator, operand: VariableTracker, name: str) -> FunctionType | None:
    """What the class of an operand says about a special method; None if it has none.

    Raises:
        Refused: it is no plain function, or the object has an attribute of that name, which Python
            does not ask.
    """
    if not is_users(operand):
        return None
    assert isinstance(operand, UserDefinedObjectVariable)
    note_lookup(operand, name)
    holders = [vars(kind) for kind in operand.python_type().__mro__ if name in vars(kind)]
    if not holders:
        return None
    hidden = name in getattr(operand.value, "__dict__", ())
    if hidden or tx.output.side_effects.has_pending_mutation_of_attr(operand, name):
        raise Refused("call-not-traced", f"An object has an attribute {name}.")
    found = holders[0][name]
    if not isinstance(found, FunctionType):
        raise Refused("call-not-traced", f"{name} is no plain function.")
    return found
