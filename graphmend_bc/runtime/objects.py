"""Objects of the user's in messages: whether making their text does nothing but read them.

A deferred call gets the object itself. Its text is made after the graph instead of at the call, so
nobody may be able to tell the two apart: the text must come from code that only reads. What that is
goes by a closed list of types, and by the bytecode of `__repr__`, `__str__` and `__format__`.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import inspect
import pathlib
import reprlib
import sys
import types
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from graphmend_bc.runtime.readings import is_descriptor, reading_of
from graphmend_bc.runtime.signal_handlers import pass_on

_PLAIN: Final = frozenset(
    (
        *(type(None), bool, int, float, complex, str, bytes, bytearray, range),
        *(type(...), type(NotImplemented), decimal.Decimal, fractions.Fraction, uuid.UUID),
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta),
        *(pathlib.PosixPath, pathlib.WindowsPath),
        *(pathlib.PurePosixPath, pathlib.PureWindowsPath),
        *(types.FunctionType, types.BuiltinFunctionType, types.ModuleType),
    )
)
_TORCH = ("Tensor", "Size", "dtype", "device", "layout", "memory_format", "finfo", "iinfo")
_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)
_ROWS = (list, tuple, set, frozenset, collections.deque)
_BAGS = (types.SimpleNamespace, argparse.Namespace)
_TEXTS = ("__str__", "__repr__", "__format__")
_NUMBERS = ("__int__", "__index__", "__float__")
_ENUMS = [getattr(enum, n, object) for n in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")]
_BASES: Final = frozenset((object, int, float, str, type, BaseException, KeyError, OSError))
"""Classes whose methods make a text of nothing but the object's value, or its class and address."""


def can_be_shown(value: object) -> bool:
    """Whether the text of an object can be made later: making it only reads, and does not raise.

    Args:
        value: any object.
    """
    if not only_reads(value):
        return False
    try:
        str(value), repr(value)
    except Exception as error:
        pass_on(error)
        return False
    return True


def only_reads(value: object, seen: set[int] | None = None) -> bool:
    """Whether making the text of an object does nothing but read.

    Args:
        value: any object.
        seen: ids of objects around it and before it, which need not be looked at again.
    """
    seen = set() if seen is None else seen
    if _is_plain(value) or id(value) in seen:
        return True
    seen.add(id(value))
    if isinstance(type(value).__getattribute__, types.FunctionType):
        return False  # looking at the object would run it
    if (parts := _items(value)) is None:
        parts = _parts_of_module(value) if _is_module(value) else _parts(value)
    return parts is not None and all(only_reads(part, seen) for part in parts)


def _is_plain(value: object) -> bool:
    """True for values of types whose text is made in C, or by code that is known."""
    torch: Any = sys.modules.get("torch")
    kind = type(value)
    return (
        kind in _PLAIN
        or any(kind is getattr(torch, name, None) for name in _TORCH)
        or (torch is not None and kind is torch.nn.Parameter)
    )


def _is_data(value: object) -> bool:
    """True for plain values and containers of them: operators on them only read."""
    items = () if _is_plain(value) else _items(value)
    return items is not None and all(map(_is_data, items))


def _items(value: Any) -> Iterable[object] | None:
    """The values inside a plain container."""
    kind = type(value)
    if kind in _MAPPINGS:
        return [*value.keys(), *value.values(), getattr(value, "default_factory", None)]
    if kind in _ROWS:
        return list(value)
    return list(value) if is_named_tuple(kind) else None


def is_named_tuple(kind: Any) -> bool:
    """True for classes that `namedtuple` or `NamedTuple` made, with nothing added to them."""
    if kind.__bases__ != (tuple,) or not hasattr(kind, "_fields"):
        return False
    return _file_of(kind.__repr__) == collections.__file__ and _texts(kind)[::2] == [object, object]


def is_enum(kind: type) -> bool:
    """True for enums whose texts are those of the standard library."""
    standard = [getattr(base, name) for base in (*_ENUMS, int, str) for name in _TEXTS]
    return issubclass(kind, enum.Enum) and all(
        any(getattr(kind, name) is known for known in standard) for name in _TEXTS
    )


def _file_of(method: Any) -> str:
    """The file of a function's code; empty for methods written in C."""
    return str(getattr(getattr(method, "__code__", None), "co_filename", ""))


def _is_written_by_dataclass(method: Any) -> bool:
    written = _file_of(getattr(method, "__wrapped__", None)) == "<string>"
    return written and _file_of(method) in (dataclasses.__file__, reprlib.__file__)


def _is_asked_for_more(value: object) -> bool:
    """True for objects that `%` may ask for something else than their text."""
    numbers = (getattr(type(value), name, None) for name in _NUMBERS)
    return issubclass(type(value), Mapping) or any(
        isinstance(method, types.FunctionType) for method in numbers
    )


def _texts(kind: type) -> list[type]:
    """The classes whose methods make the texts of a class's objects."""
    return [next(c for c in kind.__mro__ if name in vars(c)) for name in _TEXTS]


def _parts(value: Any) -> Iterable[object] | None:
    """What the text of an object shows; None if making it may do more than read."""
    kind: type = type(value)
    owners = _texts(kind)
    if _is_asked_for_more(value):
        return None
    if kind in _BAGS:
        return list(vars(value).values())
    if is_enum(kind):
        return [value._value_]
    if all(owner in _BASES for owner in owners):
        return value.args if issubclass(kind, BaseException) else []
    shown = vars(owners[1])["__repr__"]
    if _is_written_by_dataclass(shown) and owners[::2] == [object, object]:
        names = [field.name for field in dataclasses.fields(value) if field.repr]
        shared = [inspect.getattr_static(kind, name, None) for name in names]
        is_plain = not any(map(is_descriptor, shared)) and _has_plain_attributes(value, names)
        return _values(value, names) if is_plain else None
    methods = [
        vars(owner)[name] for name, owner in zip(_TEXTS, owners, strict=True) if owner not in _BASES
    ]
    return _parts_by_code(value, methods)


def _is_module(value: object) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and issubclass(type(value), torch.nn.Module)


def _parts_of_module(value: Any) -> Iterable[object] | None:
    """What the text of a module shows: the children, and what `extra_repr` reads."""
    kind: Any = type(value)
    string, shown, formatted = _texts(kind)
    if (string, formatted) != (object, object) or not _is_torchs(kind._get_name):
        return None
    if shown is not sys.modules["torch"].nn.Module and not _is_torchs(kind):
        return _parts_by_code(value, [kind.__repr__])
    children = list(value._modules.values())
    if _is_torchs(kind.extra_repr):
        names = kind.extra_repr.__code__.co_names
        own = [owner for owner in kind.__mro__ if not _is_torchs(owner)]
        overrides = any(name in vars(owner) for owner in own for name in names)
        return None if overrides else children
    extra = _parts_by_code(value, [kind.extra_repr])
    return None if extra is None else [*children, *extra]


def _is_torchs(definition: Any) -> bool:
    """True for a class or a function of `torch.nn`; `object` counts too."""
    return definition is object or str(definition.__module__).startswith("torch.nn.")


def _parts_by_code(value: Any, methods: Iterable[object]) -> list[object] | None:
    """The attributes that methods of an object read, if they do nothing else."""
    reading = reading_of(methods, type(value))
    if reading is None or not _has_plain_attributes(value, reading.names):
        return None
    parts = _values(value, reading.names)
    if reading.reads_all:
        parts += _own(value).values()
    return parts if reading.formats_only or all(map(_is_data, parts)) else None


def _has_plain_attributes(value: Any, names: Iterable[str]) -> bool:
    """True if attributes come from the object or its class, not from a method of the user's."""
    kind: Any = type(value)
    if not hasattr(kind, "__getattr__"):
        return True
    own = _own(value)
    return _is_torchs(kind.__getattr__) and all(n in own or hasattr(kind, n) for n in names)


def _own(value: Any) -> dict[str, Any]:
    """The attributes in an object's own dict, if it has one; nobody's `__getattr__` is asked."""
    return dict(value.__dict__) if type(value).__dictoffset__ else {}


def _values(value: Any, names: Iterable[str]) -> list[object]:
    """Attributes of an object: its own, and those that all objects of its class share."""
    found: list[object] = []
    own = _own(value)
    for name in names:
        shared = inspect.getattr_static(type(value), name, None)
        if isinstance(shared, types.MemberDescriptorType):
            found.append(getattr(value, name, None))
        elif not isinstance(shared, property):
            found.append(own.get(name, shared))
    return found
