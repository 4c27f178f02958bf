"""What a trace learns from the globals of a standard module, such as the `environ` of `os.getenv`.

Stock guards on nothing that it reaches by one: it trusts that no program changes a standard module.
Programs do change what such globals hold.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch._dynamo.variables.base import VariableTracker
from torch._guards import Source

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.trace.compilation import current


def global_of_callee(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Where a global of a called function is, and the module it belongs to."""

    def get_globals_source_and_value(self: Any, name: str) -> tuple[Any, VariableTracker, Source]:
        module, variable, where = stock(self, name)
        if isinstance(where, facts.UNGUARDED_SOURCES) and not _is_code(self.f_globals.get(name)):
            compilation = current()
            if compilation is not None and compilation.may_mend:
                where = where.base
        return module, variable, where

    return get_globals_source_and_value


def _is_code(value: object) -> bool:
    """True for what a program does not change in a standard module."""
    return isinstance(value, ModuleType) or callable(value)
