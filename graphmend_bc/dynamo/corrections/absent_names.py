"""What a trace learns from what is absent: a key, an attribute, a name among the globals.

Dynamo guards on what it finds. Where it finds nothing it raises the program's exception, or goes on
to the next class, to `__getattr__` or to the builtins, mostly without a guard. Stock often breaks
the graph before that matters. A frame with a mend goes on, so what it learned is guarded on.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any, Final

import torch
from torch._dynamo import exc
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import AttrSource
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.dicts import ConstDictVariable, DunderDictVariable
from torch._dynamo.variables.functions import UserMethodVariable
from torch._dynamo.variables.misc import DeletedVariable
from torch._dynamo.variables.user_defined import (
    UserDefinedClassVariable,
    UserDefinedObjectVariable,
)
from torch._guards import Source

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.corrections.absence_guards import Absences, may_change, note_absent
from graphmend_bc.dynamo.corrections.class_lookups import note_lookup
from graphmend_bc.dynamo.trace.context import current

_NOTHING: Final = object()


# Keys


def subscript(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A dict's item, which raises if there is none."""

    def getitem(self: Any, tx: Any, key: VariableTracker) -> Any:
        try:
            return stock(self, tx, key)
        except exc.ObservedKeyError:
            _note_key(tx, self, key)
            raise

    return getitem


def ask_attributes(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`o.__dict__` is asked for a key, for which stock installs nothing."""

    def install_dict_contains_guard(self: Any, tx: Any, args: list[VariableTracker]) -> None:
        stock(self, tx, args)
        _note_key(tx, self, args[0])

    return install_dict_contains_guard


def list_attributes(stock: Callable[..., Any]) -> Callable[..., Any]:
    """All of `o.__dict__` is looked at, for which stock installs nothing."""

    def install_dict_keys_match_guard(self: Any) -> None:
        stock(self)
        _note_keys(self)

    return install_dict_keys_match_guard


def take_item(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`popitem`, which depends on all keys and their order."""

    def call_method(self: Any, tx: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "popitem":
            _note_keys(facts.items_of_dict(self))
        return stock(self, tx, name, *args, **kwargs)

    return call_method


def take_keys(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`dict.fromkeys(d)`, for which torch 2.15 installs nothing."""

    def fromkeys(tx: Any, kind: type, /, *args: VariableTracker, **kwargs: Any) -> Any:
        for keys in args[:1]:
            _note_if_dict(keys.realize())
        return stock(tx, kind, *args, **kwargs)

    return fromkeys


def show_items(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`repr` of a dict."""

    def repr_impl(self: Any, *args: Any, **kwargs: Any) -> Any:
        _note_keys(self)
        return stock(self, *args, **kwargs)

    return repr_impl


def default_item(stock: Callable[..., Any]) -> Callable[..., Any]:
    """An item of a `defaultdict`, which raises if there is no default."""

    def mp_subscript_impl(self: Any, tx: Any, key: VariableTracker) -> Any:
        try:
            return stock(self, tx, key)
        except exc.ObservedKeyError:
            _note_key(tx, facts.items_of_dict(self), key)
            raise

    return mp_subscript_impl


def take_whole(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A dict as a constant, as `if d:` takes it."""

    def as_python_constant(self: Any) -> Any:
        _note_keys(self)
        return stock(self)

    return as_python_constant


def take_all(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Methods of lists and sets that take all keys of a dict: `[*d]`, `s.update(d)`."""

    def call_method(self: Any, tx: Any, name: str, args: Any, *rest: Any, **kwargs: Any) -> Any:
        if name.endswith(("extend", "update")):  # others take single items
            for value in args:
                _note_if_dict(value.realize())
        return stock(self, tx, name, args, *rest, **kwargs)

    return call_method


_LOOK_AT_KEYS: Final = (str, repr, ascii, set, frozenset, bool, max, min)
"""Builtins that look at all keys of a dict, for which not all releases install something."""


def use_whole(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`str` of a value made of dicts, and the like, which Dynamo computes at once."""

    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        if getattr(self, "fn", None) in _LOOK_AT_KEYS:
            VariableTracker.visit(_note_if_dict, args)
        return stock(self, tx, args, kwargs)

    return call_function


def _note_if_dict(value: VariableTracker) -> None:
    if value.is_realized() and isinstance(value := value.realize(), ConstDictVariable):
        _note_keys(value)


def _note_key(tx: Any, found: Any, key: VariableTracker) -> None:
    if not isinstance(found, ConstDictVariable) or found.source is None:
        return
    known = key.as_python_constant() if key.is_python_constant() else _NOTHING
    if isinstance(found, DunderDictVariable):
        if type(known) is str:
            _note_own(found.source.base, found.items.item, known)  # type: ignore[attr-defined]
    elif known is _NOTHING or key.source is not None or tx.output.side_effects.is_modified(found):
        _note_keys(found)
    else:
        make = type(found).NOT_CONTAINS_GUARD
        note_absent(found.source, f"{type(known).__name__} {known!r}", make, key=known)


def _note_keys(found: Any) -> None:
    """Guard on all keys that a dict had before the frame, in their order."""
    compilation = current()
    if found.source is not None and compilation is not None:
        note_absent(found.source, "", GuardBuilder.DICT_KEYS_MATCH)
        compilation.trace.of(Absences).ordered.add(found.source)


# Attributes


def attribute(stock: Callable[..., Any]) -> Callable[..., Any]:
    """An attribute, which is found, or found at the end of a search, or raises."""

    def var_getattr(self: Any, tx: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        try:
            found = stock(self, tx, name, *args, **kwargs)
        except exc.ObservedAttributeError:
            _note_attribute(self, name)
            raise
        if isinstance(self, UserDefinedObjectVariable):
            if name not in _own(self) and not _is_registered(self.value, name):
                _note_search(self, name)
                note_lookup(self, "__getattribute__")
        elif (
            isinstance(self, UserDefinedClassVariable)
            and self.source is not None
            and not any(name in vars(k) for k in self.value.__mro__)  # the metaclass has it
        ):
            note_absent(self.source, name, GuardBuilder.HASATTR, attr=name)
        return found

    return var_getattr


def change_attribute(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`del o.name`, which raises if there is no such attribute."""

    def change(self: Any, tx: Any, name: VariableTracker, value: VariableTracker) -> Any:
        if isinstance(value, DeletedVariable) and name.is_python_constant():
            key = name.as_python_constant()
            if self.source is not None and not _runs_code(self.value, key):
                note_absent(self.source, key, GuardBuilder.HASATTR, attr=key)
        return stock(self, tx, name, value)

    return change


def has_attribute(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`hasattr` of what stock installs no guard for."""

    def call_obj_hasattr(self: Any, tx: Any, name: str) -> Any:
        answer = stock(self, tx, name)
        if answer.is_python_constant() and not answer.as_python_constant():
            _note_attribute(self, name)
        return answer

    return call_obj_hasattr


def _is_registered(value: object, name: str) -> bool:
    """True for a parameter, buffer or submodule, which no attribute of the module itself hides."""
    tables = ("_parameters", "_buffers", "_modules")
    return isinstance(value, torch.nn.Module) and any(
        name in vars(value).get(table, ()) for table in tables
    )


def _note_attribute(owner: Any, name: str) -> None:
    """An object has no such attribute."""
    if isinstance(owner, UserDefinedObjectVariable) and (
        _runs_code(owner.value, name) or owner.source is None or name in _own(owner)
    ):
        _note_search(owner, name)
    elif owner.source is not None:
        value = getattr(owner, "value", getattr(owner, "fn", None))
        if isinstance(value, (ModuleType, FunctionType)):
            if not isinstance(value, ModuleType) or may_change(value):
                _note_own(owner.source, owner, name)
        else:
            note_absent(owner.source, name, GuardBuilder.HASATTR, attr=name)


def _runs_code(value: object, name: str) -> bool:
    """True if asking an object for an attribute runs code of the user's, as a guard must not."""
    kind = type(value)
    asks = getattr(kind, "__getattr__", torch.nn.Module.__getattr__)
    if kind.__getattribute__ is not object.__getattribute__:
        return True
    if asks is not torch.nn.Module.__getattr__:
        return True
    found = next((vars(k)[name] for k in kind.__mro__ if name in vars(k)), None)
    return found is not None and not isinstance(found, (MemberDescriptorType, GetSetDescriptorType))


def _note_search(owner: Any, name: str) -> None:
    """An attribute was not found in the object itself."""
    kind = type(owner.value)
    if owner.source is not None and not any(name in vars(k) for k in kind.__mro__):
        _note_own(owner.source, owner, name)
    note_lookup(owner, name)


def _note_own(where: Source, owner: Any, name: str) -> None:
    """An object's own dict had no such name before the frame."""
    own = _own(owner)
    if isinstance(owner, UserMethodVariable):  # a bound method has no dict, its function does
        where = AttrSource(where, "__func__")
    if isinstance(own, dict) and name not in own:
        note_absent(where, name, GuardBuilder.NOT_PRESENT_IN_GENERIC_DICT, attr=name)


def _own(owner: Any) -> Any:
    """The names that an object had itself before the frame."""
    value = getattr(owner, "value", getattr(owner, "fn", None))
    return getattr(value, "__dict__", ())


# Globals


def load_builtin(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A name that is not among the globals, and so is a builtin."""

    def load(self: Any, inst: Any) -> None:
        compilation, name = current(), inst.argval
        if compilation is not None and name not in self.f_globals:
            builtins = compilation.trace.of(Absences).builtins
            builtins.setdefault((id(self.f_globals), name), self.f_globals)
        stock(self, inst)

    return load
