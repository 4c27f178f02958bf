"""`function.__qualname__`, in releases of torch that take the descriptor for the name."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch._dynamo.source import AttrSource
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._guards import Source

from graphmend_bc.dynamo.trace.compilation import current


def read_function(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`fn_var_getattr`: an attribute of a function that was there before the frame."""

    def fn_var_getattr(tx: Any, fn: object, source: Source | None, name: str) -> Any:
        if name != "__qualname__" or not isinstance(fn, FunctionType) or current() is None:
            return stock(tx, fn, source, name)
        value = fn.__qualname__
        if source is None:
            return VariableTracker.build(tx, value)
        return LazyVariableTracker.create(value, AttrSource(source, name), tx=tx)

    return fn_var_getattr


def name_of(stock: Callable[..., str]) -> Callable[..., str]:
    """`UserFunctionVariable.get_name`: torch 2.15 gives that of the code."""

    def get_name(self: Any) -> str:
        is_plain = isinstance(self.fn, FunctionType) and current() is not None
        return str(self.fn.__name__) if is_plain else stock(self)

    return get_name


def qualified_name_of(stock: Callable[..., str]) -> Callable[..., str]:
    """`UserFunctionVariable.get_qualname`, likewise."""

    def get_qualname(self: Any) -> str:
        is_plain = isinstance(self.fn, FunctionType) and current() is not None
        return str(self.fn.__qualname__) if is_plain else stock(self)

    return get_qualname
