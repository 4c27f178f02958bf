"""What a trace learns from the special methods of classes, for which Python asks by itself.

`len(o)` raises for a class without `__len__`, `o == 1` compares identity for one without `__eq__`.
Dynamo keeps what it once saw of a class, and does not guard on it. In a frame with a mend, a method
that comes or goes is noticed, and the class is looked at anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.variables.user_defined import (
    UserDefinedClassVariable,
    UserDefinedObjectVariable,
)

from graphmend_bc.dynamo.corrections.class_guards import ClassGuards, type_slots
from graphmend_bc.dynamo.corrections.class_lookups import may_change, note_lookup
from graphmend_bc.dynamo.trace.context import current


def slots_of(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Which operators a type has, of which Dynamo keeps the answer for ever."""

    def get_slots(kind: type) -> Any:
        compilation = current()
        if compilation is None or not may_change(kind, None):
            return stock(kind)
        slots = type_slots(kind)
        compilation.trace.of(ClassGuards).slots[kind] = slots
        return slots

    return get_slots


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
        return stock(self, tx, obj)

    return call_reversed


def subscripted(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`o[...]` and `C[...]`."""

    def getitem(tx: Any, obj: Any, key: Any) -> Any:
        if isinstance(value := obj.realize(), UserDefinedClassVariable):
            note_lookup(value, "__class_getitem__")
        return stock(tx, obj, key)

    return getitem


def asked_for_getattr(stock: Callable[..., Any]) -> Callable[..., Any]:
    """The method that is asked for attributes that are not found."""

    def check_for_getattr(self: Any) -> Any:
        found = stock(self)
        if found is not torch.nn.Module.__getattr__:
            note_lookup(self, "__getattr__")
        return found

    return check_for_getattr
