"""What a trace learns from the classes of the program's objects: which class has a name first.

Dynamo guards on the class of an object, but on little of what the class holds: not on its methods,
and not on names that it lacks. In a frame with a mend, a class that is changed is noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, ClassVar, Final

import torch
from torch._dynamo import source
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.variables.constant import ConstantVariable
from torch._guards import Source

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.absence.absence_guards import note_absent
from graphmend_bc.dynamo.absence.class_guards import ClassGuards
from graphmend_bc.dynamo.absence.class_writes import check_unwritten
from graphmend_bc.dynamo.trace.compilation import current
from graphmend_bc.dynamo.trace.features import Feature


@dataclass(slots=True, eq=False)
class Lookups(Feature):
    """The searches of an attempt.

    Attributes:
        noted: searches that are guarded on: the class, the name, and the base that it began at.
        searched: classes that were searched for a name, each with it.
        classes: where the classes of the program's objects are found.
    """

    stays: ClassVar[bool] = True

    noted: set[tuple[type, str, int]] = field(default_factory=set)
    searched: set[tuple[type, str]] = field(default_factory=set)
    classes: dict[type, Source] = field(default_factory=dict)


_HEAP_TYPE: Final = 1 << 9
_METHODS: Final = (FunctionType, staticmethod, classmethod)


def looked_up(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A search for a name in the classes of an object, or in a class and its bases.

    Of names that are not found, only those matter here that Python itself asks for: attributes are
    noted where they are missed.
    """

    def lookup(self: Any, name: str) -> Any:
        kind = self.value if isinstance(self.value, type) else type(self.value)
        check_unwritten(kind, name)
        if name.startswith("__") or has_name(kind, name):
            note_lookup(self, name)
        return stock(self, name)

    return lookup


def read_of_class(stock: Callable[..., Any]) -> Callable[..., Any]:
    """An attribute of a class, where no method of its own searches for it.

    Stock installs no guard on a number or text there.
    """

    def var_getattr(self: Any, tx: Any, name: str) -> Any:
        found = looked_up(lambda self, name: stock(self, tx, name))(self, name)
        if self.source is not None and isinstance(found, ConstantVariable):
            where = source.AttrSource(self.source, name)
            note_absent(where, "", GuardBuilder.CONSTANT_MATCH)
        return found

    return var_getattr


def called(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A module is called: where it has no hooks, Dynamo goes straight to `forward`."""

    def call_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "forward" not in vars(self.value):
            # A lazy module has another class from its first call on.
            kind = getattr(self.value, "cls_to_become", None) or type(self.value)
            check_unwritten(kind, "forward")
            note_class(kind, getattr(self, "cls_source", None), "forward")
        return stock(self, *args, **kwargs)

    return call_function


def looked_up_in_bases(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A search by `super()`."""

    def resolved(self: Any, tx: Any, name: str) -> Any:
        found = stock(self, tx, name)
        owner, typevar = self.objvar, self.typevar
        kind = owner.python_type()
        where = getattr(owner, "cls_source", None)
        if issubclass(kind, type):
            kind, where = owner.value, owner.source
        after = typevar.as_python_constant()
        if after in kind.__mro__:
            check_unwritten(kind, name)
            note_class(kind, where, name, kind.__mro__.index(after) + 1)
        return found

    return resolved


def note_lookup(owner: Any, name: str) -> None:
    """Guard on what the classes of an object say about a name.

    Args:
        owner: the variable of an object or a class.
        name: what was looked for.
    """
    check_unwritten(owner.value if isinstance(owner.value, type) else type(owner.value), name)
    note_bases(owner, name)


def note_bases(owner: Any, name: str) -> None:
    """The same, where what the frame has set there was found.

    Args:
        owner: the variable of an object or a class.
        name: what was looked for.
    """
    value = owner.value
    if isinstance(value, type):
        note_class(value, owner.source, name)
    else:
        note_class(type(value), getattr(owner, "cls_source", None), name)


def note_class(kind: type, where: Source | None, name: str, start: int = 0) -> None:
    """Guard on what a class says about a name.

    Args:
        kind: the class.
        where: its source, if that is known.
        name: what is looked for.
        start: where in the order of its bases the search begins.
    """
    compilation = current()
    if compilation is None:
        return
    lookups = compilation.trace.of(Lookups)
    if (kind, name, start) in lookups.noted:
        return
    if where is not None:
        lookups.classes.setdefault(kind, where)
    where = lookups.classes.get(kind)  # an object that the frame made has none itself
    if where is None or issubclass(kind, dict):  # of a dict Dynamo checks only the items
        if may_change(kind, None):
            compilation.trace.of(ClassGuards).unplaced.add((kind, name, start))
        return
    lookups.noted.add((kind, name, start))
    for i, klass in enumerate(kind.__mro__[start:], start):
        found = vars(klass).get(name)
        if may_change(klass, found) and (klass, name) not in lookups.searched:
            lookups.searched.add((klass, name))
            at = source.GetItemSource(source.TypeMROSource(where), i) if i else where
            _guard(source.TypeDictSource(at), klass, name)
        if name in vars(klass):
            break


def has_name(kind: type, name: str) -> bool:
    """True if a class or one of its bases has a name."""
    for klass in kind.__mro__:  # noqa: SIM110, a loop is half the time, for each attribute
        if name in klass.__dict__:
            return True
    return False


def may_change(klass: type, found: object) -> bool:
    """False for builtin classes, and for torch's own but for methods of its layers.

    Args:
        klass: a class.
        found: what it says about a name itself; None if nothing.
    """
    if not klass.__flags__ & _HEAP_TYPE or klass is torch.nn.Module:
        return False
    where = klass.__module__
    return found is not None if where.startswith("torch.nn.") else not where.startswith("torch")


def _guard(where: Source, klass: type, name: str) -> None:
    compilation = current()
    assert compilation is not None
    if name not in vars(klass):
        make, kwargs = facts.lacks_key(name)
        note_absent(where, name, make, **kwargs)
    elif isinstance(found := vars(klass)[name], _METHODS):
        item: Source = source.DictGetItemSource(where, name)
        if not isinstance(found, FunctionType):
            # The wrapper may be made anew at the same address.
            note_absent(item, "", GuardBuilder.TYPE_MATCH)
            item, found = source.AttrSource(item, "__func__"), found.__func__
        is_function = isinstance(found, FunctionType)
        note_absent(item, "", GuardBuilder.CLOSURE_MATCH if is_function else GuardBuilder.ID_MATCH)
