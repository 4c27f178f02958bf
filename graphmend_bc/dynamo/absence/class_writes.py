"""Attributes that the frame has set on classes, where stock answers for the class of before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.dicts import ConstDictVariable, MappingProxyVariable
from torch._dynamo.variables.misc import DeletedVariable
from torch._dynamo.variables.user_defined import UserDefinedClassVariable

from graphmend_bc.dynamo.trace.compilation import current


def has_attribute(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`hasattr` of a class."""

    def call_obj_hasattr(self: Any, tx: Any, name: str) -> Any:
        return ConstantVariable.create(True) if _is_set(tx, self, name) else stock(self, tx, name)

    return call_obj_hasattr


def _is_set(tx: Any, owner: VariableTracker, name: str) -> bool:
    """True for a class that has an attribute because the frame has set it."""
    if current() is None or not isinstance(owner, UserDefinedClassVariable):
        return False
    found = (_set_on(tx, base).get(name) for base in owner.value.__mro__)
    return any(value and not isinstance(value, DeletedVariable) for value in found)


def dict_now(tx: Any, owner: VariableTracker, found: VariableTracker) -> VariableTracker:
    """The dict of a class with what the frame has set.

    Args:
        tx: translator of the frame.
        owner: what is asked for its `__dict__`.
        found: what stock gives.
    """
    if current() is None or not isinstance(owner, UserDefinedClassVariable):
        return found
    values = _set_on(tx, owner.value)
    proxy = found.realize() if values else found
    if not values or not isinstance(proxy, MappingProxyVariable):
        return found
    items = {key.vt.as_python_constant(): value for key, value in proxy.dv_dict.items.items()}
    items |= values
    named = {
        ConstantVariable.create(name): value
        for name, value in items.items()
        if not isinstance(value, DeletedVariable)
    }
    return MappingProxyVariable(ConstDictVariable(named), source=found.source)


def _set_on(tx: Any, kind: type) -> dict[str, VariableTracker]:
    """What the frame has set or deleted on a class itself."""
    stored = tx.output.side_effects.store_attr_mutations.items()
    of_class = (
        values
        for owner, values in stored
        if isinstance(owner, UserDefinedClassVariable) and owner.value is kind
    )
    return next(of_class, {})
