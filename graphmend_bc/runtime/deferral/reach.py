"""What a call may reach that its caller does not see: through a stream, a handler, a filter.

Objects are followed through what they hold. The program's own functions are followed through the
globals and attributes that their bytecode names, so a name stands for that attribute of anything.
The standard library, and libraries that only show what they are given, keep to what they hold.
Whatever looks further (frames, modules by name, code in C of other libraries) is not decided.
"""

from __future__ import annotations

import builtins
import collections
import datetime
import gc
import logging
import operator
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from graphmend_bc.runtime.deferral.code_uses import uses_of
from graphmend_bc.runtime.deferral.known_code import (
    CHANGES_ANYTHING,
    LOOKS_FURTHER,
    is_known,
    replaced_in,
)

_ATOMS: Final = frozenset(
    (
        *(type(None), bool, int, float, complex, str, bytes, range, type(...), types.CodeType),
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta),
        *(logging.LogRecord, warnings.WarningMessage, types.GetSetDescriptorType),
        *(types.MemberDescriptorType, type(threading.Lock()), type(threading.RLock())),
    )
)
"""Types of values that hold nothing, or nothing that code looks into without naming it."""

_BY_TEXT: Final = (operator.attrgetter, operator.methodcaller)
_ASKS_BY_TEXT: Final[tuple[Any, ...]] = (getattr, hasattr, dir, *_BY_TEXT)
_CONSTRUCTORS: Final = frozenset({"__init__", "__new__", "__post_init__", "__init_subclass__"})
_OF_STREAMS: Final = ("write", "writelines", "flush", "closed", "encoding", "errors", "isatty")
_ON_REQUEST: Final = frozenset({"__enter__", "__exit__", "__del__", *_CONSTRUCTORS})
_DESCRIBES: Final = frozenset(
    (
        *("__abstractmethods__", "__annotations__", "__dataclass_fields__", "__dict__", "__doc__"),
        *("__dataclass_params__", "__firstlineno__", "__match_args__", "__module__", "_abc_impl"),
        *("__orig_bases__", "__parameters__", "__qualname__", "__slots__", "__weakref__"),
        "__static_attributes__",
    )
)
"""What a class has that says how it was made."""

_OPAQUE: Final = (
    *(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.FrameType),
    *(bytearray, memoryview, weakref.ProxyType, weakref.CallableProxyType),
)
"""Types of objects that do not say what they hold, or whose memory a tensor may share."""
_OF_C: Final = (types.MethodDescriptorType, types.WrapperDescriptorType, types.BuiltinFunctionType)
_OF_LOGGERS: Final = ("parent", "manager", "_cache")
_HAS_REFERENTS: Final = 1 << 14  # Py_TPFLAGS_HAVE_GC
_IS_PYTHONS: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE


@dataclass(frozen=True, slots=True)
class Reach:
    """What a call may reach.

    Attributes:
        objects: by their ids.
        names: attributes and globals that the program's code asks for.
        stores: those that it assigns.
        by_text: whether it may ask for any attribute of what it holds.
        unknown: why it may reach anything; empty if it does not.
    """

    objects: Mapping[int, object]
    names: frozenset[str]
    stores: frozenset[str]
    by_text: bool
    unknown: str

    def asks(self, names: Iterable[str]) -> bool:
        """Whether one of these attributes or globals may be read or assigned."""
        return any(self.by_text or name in self.names for name in names)


def reach(roots: Iterable[object], limit: int = 2000) -> Reach:
    """What may be reached from objects whose code a call runs.

    Args:
        roots: streams, handlers, functions and the like.
        limit: how many objects are looked at; more is `unknown`.

    Example:
        >>> texts = []
        >>> id(texts) in reach([texts.append]).objects
        True
    """
    walk = _Walk(limit)
    walk.visit_all(roots)
    return walk.done()


@dataclass(slots=True)
class _Walk:
    """The state of one search."""

    limit: int
    found: dict[int, object] = field(default_factory=dict)
    left: list[object] = field(default_factory=list)
    names: set[str] = field(default_factory=lambda: set(_OF_STREAMS))
    stores: set[str] = field(default_factory=set)
    waiting: dict[str, list[object]] = field(default_factory=dict)
    modules: list[types.ModuleType] = field(default_factory=list)
    classes: set[tuple[type, bool]] = field(default_factory=set)
    by_text: bool = False
    has_code: bool = False
    unknown: str = ""

    def done(self) -> Reach:
        while self.left and not self.unknown:
            self._expand(self.left.pop())
        names, stores = frozenset(self.names), frozenset(self.stores)
        return Reach(self.found, names, stores, self.by_text, self.unknown)

    def visit_all(self, values: Iterable[object]) -> None:
        for value in values:
            if type(value) not in _ATOMS and id(value) not in self.found:
                self.found[id(value)] = value
                self.left.append(value)
        if len(self.found) > self.limit:
            self.unknown = "It may reach many objects."

    def _expand(self, value: Any) -> None:
        kind = type(value)
        if any(value is known for known in _ASKS_BY_TEXT) or kind in _BY_TEXT:
            self._ask_by_text()
        elif kind is types.FunctionType:
            self._function(value)
        elif issubclass(kind, types.ModuleType):
            self._module(value)
        elif issubclass(kind, type):
            self._class(value, constructs=True)
        elif issubclass(kind, logging.Logger):
            self._class(kind)
            self._logger(value)
        elif issubclass(kind, weakref.ref):
            self.visit_all([value()])
        elif kind is types.BuiltinFunctionType:
            self._builtin(value)
        elif issubclass(kind, _OPAQUE):
            self.unknown = f"It may reach a {kind.__name__}."
        elif kind is not object:
            self._class(kind)
            self._parts(value)

    def _parts(self, value: Any) -> None:
        """What an object holds."""
        kind = type(value)
        if issubclass(kind, (list, tuple, set, frozenset, dict, collections.deque)):
            if len(value) > 5 * self.limit:
                self.unknown = f"It may reach a {kind.__name__} of many objects."
                return
        elif str(kind.__module__).startswith(("tensorboard", "torch.utils.tensorboard")):
            return  # threads and queues of its own
        if kind.__dictoffset__:
            self.visit_all([object.__getattribute__(value, "__dict__")])
        if kind.__flags__ & _HAS_REFERENTS:
            self.visit_all(each for each in gc.get_referents(value) if each is not kind)

    def _logger(self, logger: logging.Logger) -> None:
        """Where its records go, but not to the loggers that it does not pass them to."""
        self.visit_all(v for k, v in vars(logger).items() if k not in _OF_LOGGERS)
        if logger.propagate:
            self.visit_all([logger.parent])
        self.visit_all([logging.getLogRecordFactory(), logging.lastResort])

    def _builtin(self, function: Any) -> None:
        owner = function.__self__
        if owner is not None and not isinstance(owner, types.ModuleType):
            self.visit_all([owner])
        elif any(function is known for known in CHANGES_ANYTHING) or not is_known(
            getattr(function, "__module__", None)
        ):
            self.unknown = f"It calls '{function.__name__}'."
        elif function is builtins.print:
            self.visit_all([sys.stdout])

    def _function(self, function: types.FunctionType) -> None:
        self.visit_all([*(function.__closure__ or ()), function.__defaults__])
        self.visit_all([function.__kwdefaults__, function.__dict__])
        scope = function.__globals__
        if not is_known(scope.get("__name__")):
            self._code(function.__code__, scope)
        elif scope["__name__"] == "logging" and "." not in function.__qualname__:
            everyone = logging.root.manager.loggerDict.values()
            self.visit_all([logging.root, *everyone])
        elif scope["__name__"] == "warnings":
            self.visit_all([warnings.showwarning, warnings.formatwarning])

    def _code(self, code: types.CodeType, scope: Mapping[str, Any]) -> None:
        """What the program's code names."""
        uses = uses_of(code)
        if further := sorted(uses.names & LOOKS_FURTHER):
            self.unknown = f"Its code uses '{further[0]}'."
            return
        if not self.has_code:
            self.has_code = True
            self.visit_all([sys.stdout, sys.stderr])
        if "__class__" in uses.stores:
            self.unknown = "Its code changes a class."
        self.stores |= uses.stores
        self._name(uses.names)
        for path in uses.paths:
            value: Any = scope.get(path[0], getattr(builtins, path[0], None))
            for name in path[1:]:
                if not isinstance(value, types.ModuleType):
                    break
                value = vars(value).get(name)
            self.visit_all([value])
        self.visit_all(sys.modules.get(name) for name in uses.imports)
        for name in uses.asked:
            if isinstance(scope.get(name), types.ModuleType):
                self.unknown = f"Its code asks the module '{name}' for anything."

    def _module(self, module: types.ModuleType) -> None:
        self.modules.append(module)
        known = vars(module)
        self.visit_all(known[name] for name in self.names & known.keys())

    def _name(self, names: Iterable[str]) -> None:
        new = set(names) - self.names
        self.names |= new
        for name in new & self.waiting.keys():
            self.visit_all(self.waiting.pop(name))
        for module in self.modules:
            self.visit_all(vars(module)[name] for name in new & vars(module).keys())

    def _ask_by_text(self) -> None:
        self.by_text = True
        for name in self.waiting.keys() - _CONSTRUCTORS:
            self.visit_all(self.waiting.pop(name))

    def _class(self, kind: type, constructs: bool = False) -> None:
        """The methods that may run of a class's objects, and what these share."""
        if (kind, constructs) in self.classes:
            return
        self.classes.add((kind, constructs))
        known = [base for base in kind.__mro__ if is_known(base.__module__)]
        if kind in known and type(kind) is type:
            self.visit_all(each for base in known for each in replaced_in(base))
            return
        self.found[id(kind)] = kind
        if type(kind) is not type:
            self._class(type(kind))
        called = {name for base in known if base is not object for name in vars(base)}
        self.visit_all(each for base in known for each in replaced_in(base))
        if constructs:
            self._name(_CONSTRUCTORS)
        self._name(called - _ON_REQUEST)
        for base in kind.__mro__:
            if base in known:
                continue
            if not base.__flags__ & _IS_PYTHONS:
                self.unknown = f"It may reach a {kind.__name__}."
                return
            for name, member in vars(base).items():
                if isinstance(member, _OF_C):
                    self.unknown = f"It may reach a {kind.__name__}."
                self._member(name, member)

    def _member(self, name: str, member: object) -> None:
        if name in _DESCRIBES or type(member) in _ATOMS:
            return
        implicit = name[:2] == "__" == name[-2:] and name not in _ON_REQUEST
        if implicit or name in self.names or (self.by_text and name not in _CONSTRUCTORS):
            self.visit_all([member])
        else:
            self.waiting.setdefault(name, []).append(member)
