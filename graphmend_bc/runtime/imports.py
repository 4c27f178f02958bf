"""What an `import` would find, asked without running a module.

Only finders of Python's own, and of its packaging tools, are asked: another one may notice.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final

_FINDERS: Final = frozenset(
    {
        *("_frozen_importlib", "_frozen_importlib_external", "zipimport"),
        *("_distutils_hack", "six", "_pytest.assertion.rewrite"),
    }
)
"""Modules whose finders do nothing but look."""

_EDITABLE: Final = ("__editable__", "_editable_", "__editables_")
"""What the names of modules begin with that find packages installed in place."""


def first_missing(name: str) -> str:
    """The module, of those that an absolute name names, that cannot be imported.

    Args:
        name: such as "a.b.c".

    Returns:
        Empty if all are there, or if importing one would run its code.
    """
    if sys.modules.get(name) is not None:
        return ""
    parts = name.split(".")
    names = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    missing = next(part for part in names if sys.modules.get(part) is None)
    return missing if why_missing(missing) else ""


def why_missing(name: str) -> str:
    """Why importing a module, whose package is loaded, raises at once and runs no module.

    Args:
        name: its absolute name.

    Returns:
        Empty if it may not raise.
    """
    if not _only_look(builtins.__import__, sys.meta_path, sys.path_hooks):
        return ""
    if name in sys.modules:
        return "halted" if sys.modules[name] is None else ""
    package = name.rpartition(".")[0]
    path: Any = None
    if package:
        parent = sys.modules.get(package)
        if parent is None or not is_plain_module(parent):
            return ""
        if "__path__" not in vars(parent):
            return "no package"
        path = vars(parent)["__path__"]
    found = any(finder.find_spec(name, path) is not None for finder in sys.meta_path)
    return "" if found else "not found"


def why_from_fails(module: ModuleType, name: str) -> str:
    """What `from module import name` raises, as a text; empty if it may not raise.

    Args:
        module: a module.
        name: what is imported from it.
    """
    if not is_plain_module(module) or hasattr(module, name):
        return ""
    below = f"{module.__name__}.{name}"
    if below in sys.modules or ("__path__" in vars(module) and not why_missing(below)):
        return ""
    error = error_of_from(module, name)
    return repr((error.args, error.name, error.path))


def is_plain_module(module: ModuleType) -> bool:
    """False for a module that may give attributes that it does not have, or load them."""
    return type(module) is ModuleType and "__getattr__" not in vars(module)


def are_held(table: Mapping[str, Any], modules: Iterable[tuple[str, ModuleType]]) -> bool:
    """True if a table has these very modules by these names."""
    return all(table.get(name) is module for name, module in modules)


def error_of_from(module: ModuleType, name: str) -> ImportError:
    """What `from module import name` raises, made by Python itself.

    Args:
        module: a module that has no such attribute.
        name: of the attribute.
    """
    given = {"__builtins__": {"__import__": lambda *_: module}}
    try:
        exec(f"from module import {name}", given)
    except ImportError as error:
        return error
    raise AssertionError(f"{module.__name__} has {name}.")


def _only_look(importer: object, finders: Sequence[Any], hooks: Sequence[Any]) -> bool:
    """Whether an `import` asks nobody but those who only look."""
    return type(importer) is BuiltinFunctionType and all(map(_looks, [*finders, *hooks]))


def _looks(finder: Any) -> bool:
    kind = finder if hasattr(finder, "__qualname__") else type(finder)
    return kind.__module__ in _FINDERS or kind.__module__.startswith(_EDITABLE)
