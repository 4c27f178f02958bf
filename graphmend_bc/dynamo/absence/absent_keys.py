"""What a trace learns from the keys of a dict: one that is absent, or all of them.

Stock guards on some of that only, and not the same in each release of torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch._dynamo import exc
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import DictGetItemSource
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._guards import Source

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.absence.absence_guards import Absences, note_absent, note_found
from graphmend_bc.dynamo.absence.absent_names import note_absent_name, note_key
from graphmend_bc.dynamo.trace.compilation import current

_NOTHING: Final = object()


def subscript(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A dict's item, which raises if there is none."""

    def getitem(self: Any, tx: Any, key: VariableTracker) -> Any:
        try:
            found = stock(self, tx, key)
        except exc.ObservedKeyError:
            _note_key(tx, self, key)
            raise
        if not found.is_realized():
            note_found(found, _note_item, self, found)
        return found

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


def default_item_by_method(stock: Callable[..., Any]) -> Callable[..., Any]:
    """The same, where subscripts are calls of the method."""

    def call_method(self: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        try:
            return stock(self, tx, name, args, kwargs)
        except exc.ObservedKeyError:
            if name == "__getitem__":
                _note_key(tx, self, args[0])
            raise

    return call_method


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
    if isinstance(found, facts.OWN_DICT):
        if type(known) is str:
            note_absent_name(found.source.base, found.items.item, known)  # type: ignore[attr-defined]
    elif known is _NOTHING or key.source is not None or tx.output.side_effects.is_modified(found):
        _note_keys(found)
    else:
        make, kwargs = facts.lacks_key(known, type(found))
        note_absent(found.source, f"{type(known).__name__} {known!r}", make, **kwargs)


def _note_item(owner: Any, found: VariableTracker) -> None:
    """A dict has an item."""
    where = found.source
    if not isinstance(where, DictGetItemSource) or where.base != owner.source:
        return
    if not isinstance(where.index, Source):
        note_key(where.base, where.index)


def _note_keys(found: Any) -> None:
    """Guard on all keys that a dict had before the frame, in their order."""
    compilation = current()
    if found.source is not None and compilation is not None:
        note_absent(found.source, "", GuardBuilder.DICT_KEYS_MATCH)
        compilation.trace.of(Absences).ordered.add(found.source)
