"""What a trace learns from an attribute that is absent, or a name among the globals.

Dynamo guards on what it finds, once it is used. Where it finds nothing it raises the program's
exception, or goes on to the next class, to `__getattr__` or to the builtins, mostly without a
guard. Stock often breaks the graph before that matters. A frame with a mend goes on, so what it
learned is guarded on.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any, Final

import torch
from torch._dynamo import exc
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import (
    AttrSource,
    DictGetItemSource,
    GlobalSource,
    TypeDictSource,
    TypeSource,
)
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.functions import UserMethodVariable
from torch._dynamo.variables.misc import DeletedVariable, GetAttrVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._dynamo.variables.user_defined import (
    UserDefinedClassVariable,
    UserDefinedObjectVariable,
)
from torch._guards import Source

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.absence.absence_guards import (
    Absences,
    is_global,
    lacks_key,
    may_change,
    note_absent,
    note_found,
)
from graphmend_bc.dynamo.absence.class_lookups import has_name, note_bases, note_class, note_lookup
from graphmend_bc.dynamo.absence.class_writes import dict_now, written_attribute
from graphmend_bc.dynamo.trace.compilation import current


def ask_own(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`o.__dict__` is asked for a key, where the object's own variable answers."""

    def has_key_in_generic_dict(self: Any, tx: Any, key: str) -> bool:
        found: bool = stock(self, tx, key)
        if isinstance(self.value, type):
            note_lookup(self, key)
        elif self.source is not None:
            own, known = AttrSource(self.source, "__dict__"), key in _own(self)
            note_absent(own, key, GuardBuilder.DICT_CONTAINS, key=key, invert=not known)
        return found

    return has_key_in_generic_dict


def attribute(stock: Callable[..., Any]) -> Callable[..., Any]:
    """An attribute, which is found, or found at the end of a search, or raises."""

    def var_getattr(self: Any, tx: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if (written := written_attribute(tx, self, name)) is not None:
            if isinstance(self, UserDefinedObjectVariable) and self.source is not None:
                note_absent_name(self.source, self, name)
            note_bases(self, name)
            return written
        try:
            found = stock(self, tx, name, *args, **kwargs)
        except exc.ObservedAttributeError:
            _note_attribute(self, name)
            raise
        except NotImplementedError:  # stock goes on with an attribute that nobody has looked for
            _check_tensor_has(tx, self, name)
            raise
        if not found.is_realized():
            note_found(found, _note_presence, self, name)
        found = dict_now(tx, self, found) if name == "__dict__" else found
        if type(found) is GetAttrVariable:  # asking a lazy variable for its class would realise it
            _check_tensor_has(tx, self, name)
        if isinstance(self, UserDefinedObjectVariable):
            if name not in _own(self) and not _is_registered(self.value, name):
                _note_search(self, name)
                note_lookup(self, "__getattribute__")
        elif (
            isinstance(self, UserDefinedClassVariable)
            and self.source is not None
            and not has_name(self.value, name)  # the metaclass has it
        ):
            _note_asked(self.source, name)
        return found

    return var_getattr


def _check_tensor_has(tx: Any, owner: Any, name: str) -> None:
    """Raise what eager Python does where a tensor that the frame has made is asked in vain."""
    if current() is None or not isinstance(owner, TensorVariable) or owner.source is not None:
        return
    if owner.python_type() is torch.Tensor and not hasattr(torch.Tensor, name):
        text = f"'Tensor' object has no attribute {name!r}"
        exc.raise_observed_exception(AttributeError, tx, args=[text])


def attribute_of_container(stock: Callable[..., Any]) -> Callable[..., Any]:
    """An attribute of a tuple, list or dict: all that those have is known.

    Stock asks for it when the graph is done, before it writes down what the function has set.
    """

    def var_getattr(self: Any, tx: Any, name: str) -> Any:
        compilation = current()
        if compilation is not None and compilation.may_mend:
            kind = self.python_type()
            if kind in _CONTAINERS:
                try:
                    getattr(kind(), name)
                except AttributeError as error:
                    exc.raise_observed_exception(AttributeError, tx, args=[str(error)])
        return stock(self, tx, name)

    return var_getattr


_CONTAINERS: Final = (tuple, list, dict, OrderedDict)


def change_attribute(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`del o.name`, which raises if there is no such attribute."""

    def change(
        self: Any, tx: Any, name: VariableTracker, value: VariableTracker, *rest: Any, **kwargs: Any
    ) -> Any:
        key = name.as_python_constant() if name.is_python_constant() else None
        if isinstance(value, DeletedVariable) and key is not None:
            if self.source is not None and not _runs_code(self.value, key):
                _note_asked(self.source, key)
            if facts.DELETES_ANYTHING and _lacks(tx, self, key):
                text = f"{type(self.value).__name__!r} object has no attribute {key!r}"
                exc.raise_observed_exception(AttributeError, tx, args=[text])
        elif isinstance(key, str):  # a property may come that takes the value instead
            note_bases(self, key)
        return stock(self, tx, name, value, *rest, **kwargs)

    return change


def _lacks(tx: Any, found: Any, name: str) -> bool:
    effects = tx.output.side_effects
    if effects.has_pending_mutation_of_attr(found, name):
        return isinstance(effects.load_attr(found, name, deleted_ok=True), DeletedVariable)
    return name not in _own(found) and not has_name(type(found.value), name)


def has_attribute(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`hasattr` of what stock installs no guard for."""

    def call_obj_hasattr(self: Any, tx: Any, name: str) -> Any:
        try:
            answer = stock(self, tx, name)
        except exc.ObservedAttributeError:  # torch 2.11 asks a tensor for the attribute itself
            exc.handle_observed_exception(tx)
            return ConstantVariable.create(False)
        if answer.is_python_constant():
            note = _note_presence if answer.as_python_constant() else _note_attribute
            note(self, name)
        return answer

    return call_obj_hasattr


def _is_registered(value: object, name: str) -> bool:
    """True for a parameter, buffer or submodule, which no attribute of the module itself hides."""
    tables = ("_parameters", "_buffers", "_modules")
    return isinstance(value, torch.nn.Module) and any(
        name in vars(value).get(table, ()) for table in tables
    )


def _note_presence(owner: Any, name: str) -> None:
    """An object has an attribute.

    Nothing is noted where Dynamo trusts that nothing changes, or asking would run the user's code.
    """
    where, value = owner.source, getattr(owner, "value", getattr(owner, "fn", None))
    if where is None or (isinstance(value, ModuleType) and not may_change(value)):
        return
    if not _runs_code(value, name):
        _note_asked(where, name)
    elif name in _own(owner):
        own = TypeDictSource(where) if isinstance(value, type) else AttrSource(where, "__dict__")
        note_key(own, name)


def note_key(where: Source, key: object) -> None:
    """A dict has a key.

    Args:
        where: the dict's source.
        key: a plain value.
    """
    make, kwargs = facts.has_key(key)
    note_absent(where, repr(key), make, **kwargs)


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
                note_absent_name(owner.source, owner, name)
            if isinstance(value, ModuleType) and may_change(value):
                _note_module(owner, value)
        else:
            _note_asked(owner.source, name)


def _note_module(owner: Any, module: ModuleType) -> None:
    """A module is asked in vain: it may get a function `__getattr__`, or a class that has one.

    Dynamo takes no notice of the class that a module is given.
    """
    note_absent_name(owner.source, owner, "__getattr__")
    note_absent(owner.source, "", GuardBuilder.TYPE_MATCH)
    for name in ("__getattribute__", "__getattr__"):
        note_class(type(module), TypeSource(owner.source), name)


def _note_asked(where: Source, name: str) -> None:
    at, make, kwargs = facts.asks_attribute(where, name)
    note_absent(at, name, make, **kwargs)


def _runs_code(value: object, name: str) -> bool:
    """True if asking an object for an attribute runs code of the user's, as a guard must not."""
    kind = type(value)
    asks = getattr(kind, "__getattr__", torch.nn.Module.__getattr__)
    if kind.__getattribute__ not in _SEARCHES or asks is not torch.nn.Module.__getattr__:
        return True
    if isinstance(value, ModuleType) and "__getattr__" in vars(value):
        return True
    searched = (*kind.__mro__, *value.__mro__) if isinstance(value, type) else kind.__mro__
    found = next((vars(k)[name] for k in searched if name in vars(k)), None)
    return hasattr(type(found), "__get__") and not isinstance(found, _HARMLESS)


_SEARCHES: Final = (
    object.__getattribute__,
    type.__getattribute__,
    ModuleType.__getattribute__,
)
_HARMLESS: Final = (
    MemberDescriptorType,
    GetSetDescriptorType,
    FunctionType,
    classmethod,
    staticmethod,
)
"""Descriptors that run no code of the user's when they are asked for."""


def _note_search(owner: Any, name: str) -> None:
    """An attribute was not found in the object itself."""
    kind = type(owner.value)
    unasked = not has_name(kind, name) or isinstance(owner.value, threading.local)
    if owner.source is not None and unasked:
        note_absent_name(owner.source, owner, name)
    note_lookup(owner, name)


def note_absent_name(where: Source, owner: Any, name: str) -> None:
    """An object's own dict had no such name before the frame.

    Args:
        where: the object's source.
        owner: its variable.
        name: what was looked for.
    """
    own = _own(owner)
    if isinstance(getattr(owner, "value", None), threading.local):  # a dict for each thread
        if name not in own:
            note_absent(AttrSource(where, "__dict__"), name, lacks_key, key=name)
        return
    if isinstance(owner, UserMethodVariable):  # a bound method has no dict, its function does
        where = AttrSource(where, "__func__")
    if isinstance(own, dict) and name not in own:
        note_absent(where, name, GuardBuilder.NOT_PRESENT_IN_GENERIC_DICT, attr=name)


def _own(owner: Any) -> Any:
    """The names that an object had itself before the frame."""
    value = getattr(owner, "value", getattr(owner, "fn", None))
    return getattr(value, "__dict__", ())


def load_builtin(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A name that is not among the globals, and so is a builtin."""

    def load(self: Any, inst: Any) -> None:
        compilation, name = current(), inst.argval
        if compilation is not None and name not in self.f_globals:
            builtins = compilation.trace.of(Absences).builtins
            builtins.setdefault((id(self.f_globals), name), self.f_globals)
        stock(self, inst)

    return load


def load_global(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A global, whose value may never be used."""

    def load(self: Any, inst: Any) -> None:
        stock(self, inst)
        found = self.stack[-1]
        if not found.is_realized() and inst.argval in self.f_globals:
            note_found(found, _note_global, found, inst.argval)

    return load


def _note_global(found: VariableTracker, name: str) -> None:
    where = found.source
    if isinstance(where, GlobalSource):
        note_absent(where, "", is_global, name=name)
    elif isinstance(where, AttrSource):  # of another module
        _note_asked(where.base, name)
    elif isinstance(where, DictGetItemSource):  # of no module
        note_key(where.base, name)
