"""A call that lacks an argument, which a default may supply in another call.

Since torch 2.14 Dynamo raises the TypeError that the program awaits, but nothing guards on the
defaults that were not there.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import AttrSource
from torch._guards import Source

from graphmend_bc.dynamo.absence.absence_guards import note_absent


def bind_absent_defaults(stock: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments of a call of a Python function, by parameter."""

    def bind_args_cached(
        func: FunctionType, tx: Any, fn_source: Source | None, *args: Any, **kwargs: Any
    ) -> Any:
        try:
            return stock(func, tx, fn_source, *args, **kwargs)
        except TypeError:
            if fn_source is not None:
                _note_defaults(func, fn_source)
            raise

    return bind_args_cached


def _note_defaults(func: FunctionType, where: Source) -> None:
    nothing, some = GuardBuilder.CONSTANT_MATCH, GuardBuilder.SEQUENCE_LENGTH
    guard = nothing if func.__defaults__ is None else some
    note_absent(AttrSource(where, "__defaults__"), "", guard)
    guard = nothing if func.__kwdefaults__ is None else GuardBuilder.DICT_KEYS_MATCH
    note_absent(AttrSource(where, "__kwdefaults__"), "", guard)
