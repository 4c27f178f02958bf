"""Classes with a metaclass that says what calling them does, such as singletons, or what they have.

Stock Dynamo makes an object of the class, and leaves the metaclass's `__call__` out.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

from torch._dynamo import exc
from torch._dynamo.source import AttrSource, GetItemSource, TypeMROSource, TypeSource
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import UserFunctionVariable
from torch._dynamo.variables.misc import DeletedVariable, GetAttrVariable
from torch._dynamo.variables.user_defined import UserDefinedClassVariable
from torch._guards import Source

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator

Note = Callable[[type, Source | None, str, int], None]
"""Guards on what a class says about a name: `note_class` of `class_lookups`."""


def call_class(stock: Callable[..., Any], note: Note) -> Callable[..., Any]:
    """`call_function` of a class: its metaclass is asked first."""

    def call_function(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> Any:
        kind = self.value
        if type(kind) is type or not isinstance(kind, type):
            return stock(self, tx, args, kwargs)
        return _called(self, tx, 0, args, kwargs, stock, note)

    call_function.as_type = stock  # type: ignore[attr-defined]
    return call_function


def call_super(stock: Callable[..., Any], note: Note) -> Callable[..., Any]:
    """`SuperVariable.call_method`: `super().__call__(...)` in the method of a metaclass."""

    def call_method(self: Any, tx: Translator, name: str, args: Args, kwargs: Keywords) -> Any:
        owner = self.objvar
        if name == "__call__" and isinstance(owner, UserDefinedClassVariable):
            after, kind = self.typevar.as_python_constant(), owner.value
            if after not in kind.__mro__ and after in type(kind).__mro__:
                as_type = cast(Any, UserDefinedClassVariable.call_function).as_type
                start = type(kind).__mro__.index(after) + 1
                return _called(owner, tx, start, args, kwargs, as_type, note)
        return stock(self, tx, name, args, kwargs)

    return call_method


def read_of_metaclass(stock: Callable[..., Any]) -> Callable[..., Any]:
    """An attribute of a class that only its metaclass has, such as a dict of singletons.

    Stock has no variable for it but the name.
    """

    def var_getattr(self: Any, tx: Translator, name: str) -> Any:
        found: VariableTracker = stock(self, tx, name)
        is_name = type(found) is GetAttrVariable and found.obj is self
        if not is_name or self.source is None or _has_itself(self.value, name):
            return found
        written = _written(tx, name)
        for base in type(self.value).__mro__:
            if base in written:
                value = written[base]
                return found if isinstance(value, DeletedVariable) else value
            if name in vars(base):
                held = vars(base)[name]
                if hasattr(type(held), "__get__"):
                    return found
                return VariableTracker.build(tx, held, AttrSource(self.source, name))
        return found

    return var_getattr


def own_getattr(stock: Callable[..., Any]) -> Callable[..., Any]:
    """The `__getattr__` that an object is asked by; that of its metaclass is for the class.

    Stock takes it for the object's.
    """

    def check_for_getattr(self: Any) -> Any:
        found = stock(self)
        return found if found is None or _has_itself(type(self.value), "__getattr__") else None

    return check_for_getattr


def _written(tx: Translator, name: str) -> dict[type, VariableTracker]:
    """What the frame has set an attribute to, by the class whose it is."""
    stored = tx.output.side_effects.store_attr_mutations.items()
    return {
        owner.value: values[name]
        for owner, values in stored
        if isinstance(owner, UserDefinedClassVariable) and name in values
    }


def _has_itself(kind: type, name: str) -> bool:
    """Whether a class or a base of it has a name: Dynamo may keep `C.__new__` as a name, too."""
    return any(name in vars(base) for base in kind.__mro__)


def _called(
    owner: Any,
    tx: Translator,
    start: int,
    args: Args,
    kwargs: Keywords,
    as_type: Callable[..., Any],
    note: Note,
) -> VariableTracker:
    """What the `__call__` gives that a class has from its metaclass.

    Args:
        owner: the class.
        tx: translator of the frame that calls.
        start: where in the order of the metaclass's bases the search begins.
        args, kwargs: what it is called with.
        as_type: what `type.__call__` gives.
        note: guards on the search.

    Raises:
        Unsupported: the method is no plain function.
    """
    metaclass = type(owner.value)
    where = TypeSource(owner.source) if owner.source else None
    note(metaclass, where, "__call__", start)
    bases = enumerate(metaclass.__mro__[start:], start)
    place, base = next((i, base) for i, base in bases if "__call__" in vars(base))
    if base is type or _is_known_to_dynamo(base):
        return cast(VariableTracker, as_type(owner, tx, args, kwargs))
    method = vars(base)["__call__"]
    if not isinstance(method, FunctionType):
        text = f"The metaclass {base.__name__} has a '__call__' that is no plain function."
        raise exc.Unsupported(text, "Unsupported function call")
    if where is None:
        return UserFunctionVariable(method).call_function(tx, [owner, *args], kwargs)
    source = AttrSource(GetItemSource(TypeMROSource(where), place), "__call__")
    function: VariableTracker = VariableTracker.build(tx, method, source)
    return function.call_function(tx, [owner, *args], kwargs)


def _is_known_to_dynamo(metaclass: type) -> bool:
    """True for those of torch, enums and typed dicts, for which Dynamo has code of its own."""
    where = metaclass.__module__.partition(".")[0]
    return metaclass is enum.EnumMeta or where in ("torch", "typing", "typing_extensions")
