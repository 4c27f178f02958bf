"""What a target of `attach()` means: one code object, or a pattern that chooses code objects."""

from __future__ import annotations

import functools
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from graphmend_bc.dynamo.patches import torch_compile

#: Tells of a code object whether it is meant.
Predicate = Callable[[CodeType], object]
Target = Callable[..., Any] | CodeType | str

_RESUMABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS  # class and module bodies are neither


@dataclass(frozen=True, slots=True)
class Pattern:
    """A choice among all functions, by name and by code object.

    Attributes:
        module: pattern of the module's name; None if `name` covers "module.qualified name".
        name: pattern of the qualified name.
        where: asked last, with the code object; None for no further condition.
    """

    module: str | None
    name: str
    where: Predicate | None = None

    def __str__(self) -> str:
        """As an argument of `attach()`."""
        target = self.name if self.module is None else f"{self.module}:{self.name}"
        condition = getattr(self.where, "__qualname__", self.where)
        return repr(target) + ("" if self.where is None else f", where={condition}")

    def names(self, code: CodeType, module: str | None) -> bool:
        """Tell whether the name of a function is meant.

        Args:
            code: the function's code object.
            module: `__name__` of its globals, None if they have none.

        Returns:
            Whether both parts match.
        """
        if self.module is None:
            return fnmatchcase(f"{module}.{code.co_qualname}", self.name)
        return fnmatchcase(str(module), self.module) and fnmatchcase(code.co_qualname, self.name)

    def matches(self, code: CodeType, module: str | None) -> bool:
        """Tell whether a function is meant: cheap tests first, as every function is asked.

        Args:
            code: the function's code object.
            module: `__name__` of its globals, None if they have none.

        Returns:
            Whether it is meant and Dynamo would compile it.

        Raises:
            Whatever `where` raises.
        """
        name = code.co_name
        if code.co_flags & _FUNCTION != _FUNCTION or code.co_flags & _RESUMABLE:
            return False
        if name.startswith("<") or (name.startswith("__") and name != "__call__"):
            return False
        if not self.names(code, module) or torch_compile.skipped_by_dynamo(code):
            return False
        return self.where is None or bool(self.where(code))


def meaning_of(target: Target | None, where: Predicate | None) -> CodeType | Pattern:
    """The code object or the pattern that the arguments of `attach()` stand for.

    Args:
        target: as for `attach()`; None stands for all functions and goes with `where` only.
        where: as for `attach()`.

    Returns:
        What is to be watched.

    Raises:
        TypeError: there is neither, `where` is not callable or comes with a target that is not a
            pattern, or the target has no code object.
        ValueError: the string names nothing, or the code object cannot be attached.
    """
    if where is not None and not callable(where):
        raise TypeError(f"where must be a function of a code object, not {where!r}.")
    if target is None:
        if where is None:
            raise TypeError("attach() takes a target, such as 'package.models.*', or where=.")
        return Pattern(None, "*", where)
    if isinstance(target, str) and _is_pattern(target):
        module, colon, name = target.partition(":")
        return Pattern(module, name, where) if colon else Pattern(None, module, where)
    if where is not None:
        raise TypeError(
            f"where= chooses among the functions of a pattern, and {target!r} is one function. "
            "Leave one of the two out."
        )
    code = _code_of(_find(target) if isinstance(target, str) else target)
    _check(code)
    return code


def _is_pattern(target: str) -> bool:
    return any(mark in target for mark in "*?[") or target.partition(":")[0] == "__main__"


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
    """The code object of a function, below methods, partials and `functools.wraps` wrappers."""
    found = _forward_of(target) if isinstance(target, type) else target
    while not isinstance(found, (CodeType, FunctionType)) or hasattr(found, "__wrapped__"):
        if isinstance(found, (MethodType, staticmethod, classmethod)):
            found = found.__func__
        elif isinstance(found, (functools.partial, functools.partialmethod)):
            found = found.func
        elif callable(found) and not isinstance(found, type) and hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        else:
            raise TypeError(f"attach() takes a Python function, and {_instead(target)}")
    return found if isinstance(found, CodeType) else found.__code__


def _forward_of(target: type) -> object:
    """The `forward` of a class, which may be inherited; torch's stub does not count."""
    forward = getattr(target, "forward", None)
    if forward is None or forward is torch.nn.Module.forward:
        raise TypeError(
            f"attach() takes the forward of a class, and {target.__qualname__} has none. Name one "
            "of its methods."
        )
    return forward


def _instead(target: object) -> str:
    """What the target is, and what to attach to instead."""
    if isinstance(target, torch.nn.Module):
        name = type(target).__name__
        return f"{name} is a module. Use {name}.forward, which means all {name} modules."
    if inspect.isbuiltin(target) or inspect.ismethoddescriptor(target):
        return (
            f"{target!r} is written in C and has no code object. Name the function that calls it."
        )
    return f"{target!r} has no code object. Name the function that it calls."


def _check(code: CodeType) -> None:
    """Refuse what cannot have an effect, with the reason."""
    if code.co_flags & _RESUMABLE:
        raise ValueError(
            f"{code.co_qualname} is a generator or a coroutine, whose frame can be suspended; "
            "attach() does not compile these. Name the function that it calls for its tensor work."
        )
    if code.co_flags & _FUNCTION != _FUNCTION:
        raise ValueError(
            f"{code.co_qualname} is the body of a module or class. Name a function in it."
        )
    if torch_compile.skipped_by_dynamo(code):
        raise ValueError(
            f"Dynamo never compiles {code.co_qualname} by itself, since it skips the file "
            f"{code.co_filename}. Name the function of your own that calls it."
        )
