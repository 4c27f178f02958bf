"""Attributes that the frame has set on classes, where stock answers for the class of before.

Counter.total += 1
print("here")           the break that stock has here writes `total`
return x * self.total   Dynamo would look for it in the class as it was
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch._dynamo.exc import SkipFrame, unimplemented
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.dicts import ConstDictVariable, MappingProxyVariable
from torch._dynamo.variables.misc import DeletedVariable
from torch._dynamo.variables.user_defined import (
    UserDefinedClassVariable,
    UserDefinedObjectVariable,
)

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


def written_attribute(tx: Any, owner: VariableTracker, name: str) -> VariableTracker | None:
    """What the frame has set on the class of an object, or on a base of a class.

    Args:
        tx: translator of the frame.
        owner: what is asked.
        name: of the attribute.

    Returns:
        None if stock finds what eager Python finds.

    Raises:
        Unsupported: what was set is a method, a property or the like, or was deleted.
        SkipFrame: as before, for a class.
    """
    if current() is None or not isinstance(owner, _OF_USERS):
        return None
    is_class = isinstance(owner, UserDefinedClassVariable)
    kind: type = owner.value if is_class else type(owner.value)  # type: ignore[assignment]
    value = _first_written(kind, name)
    if value is None or (is_class and _set_on(tx, kind).get(name) is value and _is_there(value)):
        return None
    is_own = tx.output.side_effects.has_pending_mutation_of_attr(owner, name)
    if not is_class and (is_own or name in getattr(owner.value, "__dict__", ())):
        return None
    if _is_plain(value) and not (is_class and hasattr(type(kind), name)):
        return value
    if is_class:  # a break would have Dynamo ask the class itself, as it does for constants
        raise SkipFrame(_explained(kind, name))
    _break(kind, name)
    return None


_OF_USERS: Final = (UserDefinedClassVariable, UserDefinedObjectVariable)


def check_unwritten(kind: type, name: str) -> None:
    """Break the graph where a class is searched for what the frame has set or deleted there.

    Args:
        kind: the class.
        name: what it, or an object of it, is asked for.

    Raises:
        Unsupported: Dynamo would search the classes of before.
    """
    if current() is not None and _first_written(kind, name) is not None:
        _break(kind, name)


def _first_written(kind: type, name: str) -> VariableTracker | None:
    """What the first class that has a name was given by the frame; None if it was not."""
    stored = InstructionTranslator.current_tx().output.side_effects.store_attr_mutations.items()
    written = {
        owner.value: values[name]
        for owner, values in stored
        if name in values and isinstance(owner, UserDefinedClassVariable)
    }
    for klass in kind.__mro__ if written else ():
        if klass in written:
            return written[klass]
        if name in vars(klass):
            return None
    return None


def _is_there(value: VariableTracker) -> bool:
    return not isinstance(value, DeletedVariable)


def _is_plain(value: VariableTracker) -> bool:
    """True for what is found in a class as it is."""
    try:
        return _is_there(value) and not hasattr(value.python_type(), "__get__")
    except NotImplementedError:
        return False


def _break(kind: type, name: str) -> None:
    unimplemented(
        gb_type="Attribute of a class that the frame has set",
        context=f"{kind.__name__}.{name}",
        explanation=_explained(kind, name),
        hints=[],
    )


def _explained(kind: type, name: str) -> str:
    return f"Dynamo would look for {name!r} in {kind.__name__} as it was before the frame ran."


def _set_on(tx: Any, kind: type) -> dict[str, VariableTracker]:
    """What the frame has set or deleted on a class itself."""
    stored = tx.output.side_effects.store_attr_mutations.items()
    of_class = (
        values
        for owner, values in stored
        if isinstance(owner, UserDefinedClassVariable) and owner.value is kind
    )
    return next(of_class, {})
