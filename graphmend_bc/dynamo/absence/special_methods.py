"""What a trace learns from the special methods of classes, for which Python asks by itself.

`len(o)` raises for a class without `__len__`, `o == 1` compares identity for one without `__eq__`.
Dynamo keeps what it once saw of a class, and does not guard on it. In a frame with a mend, a method
that comes or goes is noticed, and the class is looked at anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

import torch
from torch._dynamo import exc
from torch._dynamo.variables.user_defined import (
    UserDefinedClassVariable,
    UserDefinedObjectVariable,
)

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.absence.class_guards import ClassGuards, type_slots
from graphmend_bc.dynamo.absence.class_lookups import may_change, note_lookup
from graphmend_bc.dynamo.trace.compilation import current


def special_slots_of(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Which operators a type has, of which Dynamo keeps the answer for ever."""

    def get_slots(kind: type) -> Any:
        compilation = current()
        if compilation is None or not may_change(kind, None):
            return stock(kind)
        compilation.trace.of(ClassGuards).slots[kind] = type_slots(kind)
        return stock.__wrapped__(kind)  # type: ignore[attr-defined]  # what it keeps may be old

    return get_slots


def rejected(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A builtin that raises a TypeError, where it asks no slots of its operands' types."""

    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        if getattr(self, "fn", None) is operator.getitem:
            _note_class_getitem(args[0])
        try:
            return stock(self, tx, args, kwargs)
        except exc.ObservedTypeError:
            for value in args:
                if isinstance(value := value.realize(), _OF_USERS):
                    for name in _ASKED_FOR:
                        note_lookup(value, name)
                if facts.REFUSES_INDEX and _is_index(value):
                    text = f"An object of the class {type(value.value).__name__} is an index."
                    raise exc.Unsupported(text, "Unsupported function call") from None
            raise

    return call_function


def _is_index(value: Any) -> bool:
    return isinstance(value, UserDefinedObjectVariable) and hasattr(value.value, "__index__")


_OF_USERS: Final = (UserDefinedClassVariable, UserDefinedObjectVariable)

_CONVERSIONS: Final = "bool int float complex round len iter next reversed call hash class_getitem"
_ASKED_FOR: Final = tuple(
    f"__{reflected}{name.strip('_')}__"
    for name in (*operator.__all__, *_CONVERSIONS.split())
    for reflected in ("", "r")
)
"""What a builtin may have asked for; a name that nothing asks for costs a guard."""


def compared(stock: Callable[..., Any]) -> Callable[..., Any]:
    """An object is compared by an operator."""

    def richcompare_impl(self: Any, tx: Any, other: Any, op: str) -> Any:
        note_lookup(self, op)
        return stock(self, tx, other, op)

    return richcompare_impl


def found_equal(stock: Callable[..., Any]) -> Callable[..., Any]:
    """An object is compared as a key."""

    def is_python_equal(self: Any, other: Any) -> Any:
        for value in (self, other):
            if isinstance(value, UserDefinedObjectVariable):
                note_lookup(value, "__eq__")
        return stock(self, other)

    return is_python_equal


def asked_if_callable(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`callable(o)`."""

    def call_callable(self: Any, tx: Any, arg: Any) -> Any:
        if isinstance(value := arg.realize(), UserDefinedObjectVariable):
            note_lookup(value, "__call__")
        return stock(self, tx, arg)

    return call_callable


def asked_to_reverse(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`reversed(o)`."""

    def call_reversed(self: Any, tx: Any, obj: Any) -> Any:
        if isinstance(value := obj.realize(), UserDefinedObjectVariable):
            note_lookup(value, "__reversed__")
            asked = getattr(type(value.value), "__reversed__", None)
            if facts.REVERSES_LISTS and isinstance(asked, FunctionType):
                return None  # so Dynamo breaks here
        return stock(self, tx, obj)

    return call_reversed


def subscripted(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`o[...]` and `C[...]`."""

    def getitem(tx: Any, obj: Any, key: Any) -> Any:
        _note_class_getitem(obj)
        return stock(tx, obj, key)

    return getitem


def _note_class_getitem(obj: Any) -> None:
    if isinstance(value := obj.realize(), UserDefinedClassVariable):
        note_lookup(value, "__class_getitem__")


def asked_for_getattr(stock: Callable[..., Any]) -> Callable[..., Any]:
    """The method that is asked for attributes that are not found."""

    def check_for_getattr(self: Any) -> Any:
        found = stock(self)
        if found is not torch.nn.Module.__getattr__:
            note_lookup(self, "__getattr__")
        return found

    return check_for_getattr
