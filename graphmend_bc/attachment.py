"""attach: compile a function wherever it is called, without touching it or its module."""

from __future__ import annotations

import inspect
import pkgutil
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from graphmend_bc import config
from graphmend_bc.dynamo import handover
from graphmend_bc.dynamo.handover import Handover, Leave
from graphmend_bc.versions import check_versions

_RESUMABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS  # class and module bodies are neither


class Handle:
    """What `attach()` returns; also a context manager that detaches at its end.

    Args:
        remove: called by the first `remove()`.

    Example:
        >>> handle = graphmend_bc.attach("package.module:Class.method")  # doctest: +SKIP
        >>> handle.remove()  # doctest: +SKIP
    """

    __slots__ = ("_remove",)

    def __init__(self, remove: Callable[[], None] | None = None) -> None:
        self._remove = remove

    def remove(self) -> None:
        """Run the target as it was before; what was attached to it earlier applies again."""
        remove, self._remove = self._remove, None
        if remove is not None:
            remove()

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def attach(target: Callable[..., Any] | CodeType | str, /, **compile_kwargs: Any) -> Handle:
    """Run every call of a function as under `torch.compile(function, **compile_kwargs)`.

    It does not matter how the caller came by the function: a from-import, a bound method, a
    closure, a table of callables. The function object and its module stay as they are. A call
    from inside another compiled region is part of that region, as ever.

    The target names a code object, and all functions made of it are meant: an unbound or bound
    method stands for the method of all instances, a closure for all closures of its `def`. A
    wrapper made with `functools.wraps` stands for the function it wraps. If a code object is
    attached more than once, the newest applies.

    Args:
        target: a Python function, method or code object; or a string. "package.module:Class.name"
            imports the module and looks the name up. With `*`, `?` or `[...]` it is a pattern:
            "package.models.*" is matched against "module.qualified name", and
            "package.models*:*.forward" against both parts; nothing is imported, and a function
            is looked at when it is first called. A pattern leaves out lambdas, generators,
            dunder methods other than `__call__`, and functions in which Dynamo finds no tensor.
            Names in `__main__` are matched as a pattern too.
        **compile_kwargs: the keywords of `torch.compile`.

    Returns:
        A handle whose `remove()` ends it. It does nothing where `torch.compile` is disabled or
        `graphmend_bc.config.enabled` is False.

    Raises:
        ImportError: the C extension is missing.
        TypeError: the target has no code object, such as a builtin or a class.
        ValueError: the string names nothing; the function is a generator or a coroutine; or
            Dynamo never compiles it, since it belongs to torch or the standard library.
        UnsupportedVersionError: this torch or Python is not known.

    Example:
        >>> import graphmend_bc
        >>> with graphmend_bc.attach("package.models.*:*.forward"):  # doctest: +SKIP
        ...     package.main()
    """
    hooks = _frame_hooks()
    if not config.force:
        check_versions()
    if isinstance(target, str) and _is_pattern(target):
        enter = Handover.of(None, compile_kwargs)
        if enter is None or not config.enabled:
            return Handle()
        pattern = _Pattern(*_split(target), enter, hooks)
        _attachments.add_pattern(hooks, pattern)
        return Handle(lambda: _attachments.remove_pattern(hooks, pattern))
    code = _code_of(_find(target) if isinstance(target, str) else target)
    _check(code)
    enter = Handover.of(code, compile_kwargs)
    if enter is None or not config.enabled:
        return Handle()
    _attachments.add(hooks, code, enter)
    return Handle(lambda: _attachments.remove(hooks, code, enter))


def _frame_hooks() -> ModuleType:
    """The C extension, or a sentence that says how to come by it."""
    try:
        from graphmend_bc import _frame_hooks
    except ImportError as error:
        raise ImportError(
            f"attach() needs the C extension graphmend_bc._frame_hooks, which is missing here "
            f"({error}). Everything else works without it. To build it, install a C compiler and "
            "the headers of this Python and install graphmend_bc again from its source, without "
            "GRAPHMEND_BC_NO_EXTENSION set; in a checkout, `python setup.py build_ext --inplace`."
        ) from error
    return _frame_hooks


# ---- what a target means ----


def _is_pattern(target: str) -> bool:
    return any(mark in target for mark in "*?[") or target.partition(":")[0] == "__main__"


def _split(pattern: str) -> tuple[str | None, str]:
    """The pattern's module part, if it has one of its own, and the rest."""
    module, colon, name = pattern.partition(":")
    return (module, name) if colon else (None, pattern)


def _find(target: str) -> object:
    """Import the module of a "module:name" string and look the name up."""
    try:
        return pkgutil.resolve_name(target)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"attach() cannot find {target!r}: {error}. Write it as 'package.module:Class.method', "
            "or as a pattern such as 'package.models.*' for functions of modules not imported yet."
        ) from error


def _code_of(target: object) -> CodeType:
    """The code object of a function, below methods and `functools.wraps` wrappers."""
    found = target
    while not isinstance(found, (CodeType, FunctionType)) or hasattr(found, "__wrapped__"):
        if isinstance(found, (MethodType, staticmethod, classmethod)):
            found = found.__func__
        elif callable(found) and not isinstance(found, type) and hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        else:
            raise TypeError(f"attach() takes a Python function, and {_instead(target)}")
    return found if isinstance(found, CodeType) else found.__code__


def _instead(target: object) -> str:
    """What the target is, and what to attach to instead."""
    if isinstance(target, torch.nn.Module):
        name = type(target).__name__
        return f"{name} is a module. Use {name}.forward, which means all {name} modules."
    if isinstance(target, type):
        return f"{target.__qualname__} is a class. Name one of its methods."
    if inspect.isbuiltin(target) or inspect.ismethoddescriptor(target):
        return (
            f"{target!r} is written in C and has no code object. Name the function that calls it."
        )
    return f"{target!r} has no code object. Name the function that it calls."


def _check(code: CodeType) -> None:
    """Refuse what cannot have an effect, with the reason."""
    if code.co_flags & _RESUMABLE:
        raise ValueError(
            f"{code.co_qualname} is a generator or a coroutine: its frame starts and stops many "
            "times, and attach() leaves these alone. Name the function that it calls for its "
            "tensor work."
        )
    if code.co_flags & _FUNCTION != _FUNCTION:
        raise ValueError(f"{code.co_qualname} is the body of a module or class, not a function.")
    if handover.skipped_by_dynamo(code):
        raise ValueError(
            f"Dynamo never compiles {code.co_qualname} by itself, since it skips the file "
            f"{code.co_filename}. Name the function of your own that calls it."
        )


@dataclass(slots=True, eq=False)
class _Pattern:
    """A pattern over names, which is also the `enter` of the code objects it chose.

    Attributes:
        module: pattern of the module's name; None if `name` covers "module.qualified name".
        name: pattern of the qualified name.
        handover: what compiles the frames.
        hooks: the C extension.
        chosen: the code objects it is watching.
        removed: set last of all by removal; another thread may be choosing at that moment.
    """

    module: str | None
    name: str
    handover: Handover
    hooks: ModuleType
    chosen: list[weakref.ref[CodeType]] = field(default_factory=list)
    removed: bool = False

    def matches(self, code: CodeType, module: str | None) -> bool:
        """Tell whether a function is meant: cheap tests first, as every function is asked."""
        name = code.co_name
        if code.co_flags & _FUNCTION != _FUNCTION or code.co_flags & _RESUMABLE:
            return False
        if name.startswith("<") or (name.startswith("__") and name != "__call__"):
            return False
        if self.module is None:
            meant = fnmatchcase(f"{module}.{code.co_qualname}", self.name)
        else:
            meant = fnmatchcase(str(module), self.module) and fnmatchcase(
                code.co_qualname, self.name
            )
        return meant and not handover.skipped_by_dynamo(code)

    def __call__(self, code: CodeType) -> tuple[Any, Leave] | None:
        """Hand a frame over."""
        if self.removed:
            self.hooks.unwatch(code)
            return None
        return self.handover(code)


# ---- what is attached ----


@dataclass(slots=True)
class _Attachments:
    """All that is attached in this process; the frame hooks are installed while there is any.

    The hooks are process-wide, so this is too. `stacks` goes by identity, because equal code
    objects may belong to different functions.
    """

    stacks: dict[int, tuple[CodeType, list[Handover]]] = field(default_factory=dict)
    patterns: tuple[_Pattern, ...] = ()
    lock: threading.RLock = field(default_factory=threading.RLock)

    def add(self, hooks: ModuleType, code: CodeType, enter: Handover) -> None:
        with self.lock:
            self._install(hooks)
            self.stacks.setdefault(id(code), (code, []))[1].append(enter)
            hooks.watch(code, enter)

    def remove(self, hooks: ModuleType, code: CodeType, enter: Handover) -> None:
        with self.lock:
            stack = self.stacks[id(code)][1]
            stack.remove(enter)
            if stack:
                hooks.watch(code, stack[-1])
            else:
                del self.stacks[id(code)]
                hooks.unwatch(code)
            self._uninstall(hooks)

    def add_pattern(self, hooks: ModuleType, pattern: _Pattern) -> None:
        with self.lock:
            self._install(hooks)
            self.patterns = (pattern, *self.patterns)
            self._forget_choices(hooks)

    def remove_pattern(self, hooks: ModuleType, pattern: _Pattern) -> None:
        with self.lock:
            self._forget_choices(hooks)
            self.patterns = tuple(other for other in self.patterns if other is not pattern)
            pattern.removed = True
            if not self.patterns:
                hooks.set_chooser(None)
            self._uninstall(hooks)

    def choose(self, code: CodeType, module: str | None) -> _Pattern | None:
        """The newest pattern that means a function; asked by the hooks once for each."""
        for pattern in self.patterns:
            if pattern.matches(code, module):
                pattern.chosen.append(weakref.ref(code))
                return pattern
        return None

    def _forget_choices(self, hooks: ModuleType) -> None:
        """Have every code object chosen anew."""
        for pattern in self.patterns:
            chosen, pattern.chosen = pattern.chosen, []
            for code in filter(None, (reference() for reference in chosen)):
                if id(code) not in self.stacks:
                    hooks.unwatch(code)
        hooks.set_chooser(self.choose)

    def _install(self, hooks: ModuleType) -> None:
        if not hooks.installed():
            hooks.install(handover.exchange, handover.current)

    def _uninstall(self, hooks: ModuleType) -> None:
        if not self.stacks and not self.patterns:
            hooks.uninstall()


_attachments = _Attachments()
