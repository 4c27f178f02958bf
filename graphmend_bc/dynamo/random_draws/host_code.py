"""Functions of the user's that compute with Python's and NumPy's values, and draw random numbers.

Given constants and arrays of its own, such a function changes nothing but NumPy's global generator.
So it does not matter when it runs, as long as the draws keep their order.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FunctionType
from typing import Any, Final

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.code.listing import name_of
from graphmend_bc.reporting.reasons import Refused

Path = tuple[str, ...]
"""A global's name and the attributes that are asked of it, or "" and an attribute of a value."""


@dataclass(frozen=True, slots=True)
class KnownPath:
    """What a path of names leads to.

    Attributes:
        module_globals: of the function that uses it.
        path: the names.
        value: the object, known to be harmless.
    """

    module_globals: Mapping[str, Any]
    path: Path
    value: object

    def is_still(self) -> bool:
        """True if the path still leads there."""
        return _at(self.module_globals, self.path) is self.value


def draws_on_host(code: CodeType) -> bool:
    """True if a code object looks like that of such a function, by the names that it uses.

    Args:
        code: a function's code object.

    Example:
        >>> draws_on_host((lambda n: np.random.rand(n).tolist()).__code__)
        True
    """
    if code.co_freevars or code.co_flags & _SUSPENDS:
        return False
    try:
        return ("random",) in {path[1:2] for path in _paths(code)}
    except Refused:
        return False


def check_host_code(code: CodeType, module_globals: Mapping[str, Any]) -> list[KnownPath]:
    """Show that a function does no more than compute and draw.

    Args:
        code: the function's code object.
        module_globals: its globals.

    Returns:
        What that rests on.

    Raises:
        Refused: it uses something that is not known.
    """
    found: list[KnownPath] = []
    codes = {code}
    work = [(code, module_globals)]
    while work:
        current, scope = work.pop()
        for path in _paths(current):
            if not path[0]:
                continue
            known = KnownPath(scope, path, _at(scope, path))
            found.append(known)
            if isinstance(known.value, FunctionType) and _is_plain(known.value):
                if known.value.__code__ not in codes:
                    codes.add(known.value.__code__)
                    work.append((known.value.__code__, known.value.__globals__))
            elif not _is_harmless(known.value):
                raise Refused("draw-not-host", f"It uses '{'.'.join(path)}'.")
    return found


def _paths(code: CodeType) -> Iterator[Path]:
    """What a code object and those nested in it ask for by name.

    Raises:
        Refused: they do something to what they did not make.
    """
    ops = graph_of(code).listing.ops
    path: Path = ()
    for op, following in zip(ops, [*ops[1:], None], strict=True):
        if op.name in _CHANGES:
            raise Refused("draw-not-host", f"Its code has a {op.name}.")
        if isinstance(op.arg, CodeType):
            if op.arg.co_flags & _SUSPENDS and op.arg.co_name != "<genexpr>":
                raise Refused("draw-not-host", f"It defines '{op.arg.co_name}', which suspends.")
            yield from _paths(op.arg)
        if op.name == "LOAD_GLOBAL":
            path = (name_of(op.arg),)
        elif op.name in _ATTRIBUTES:
            path = (*path, name_of(op.arg)) if path else ("", name_of(op.arg))
            if not path[0] and path[1] not in _OF_VALUES:
                raise Refused("draw-not-host", f"It uses '.{path[1]}'.")
        else:
            path = ()
        goes_on = path and path[0] and following is not None and following.name in _ATTRIBUTES
        if path and not goes_on:
            yield path
            path = ()


def _at(module_globals: Mapping[str, Any], path: Path) -> object:
    name, *attributes = path
    value: Any = module_globals.get(name, getattr(builtins, name, None))
    for attribute in attributes:
        value = getattr(value, attribute, None)
    return value


def _is_plain(function: FunctionType) -> bool:
    return not (function.__closure__ or function.__defaults__ or function.__kwdefaults__)


def is_draw(value: object) -> bool:
    """True for a function of `numpy.random` that draws from the global generator or seeds it."""
    numpy, name = sys.modules.get("numpy"), getattr(value, "__name__", "")
    if numpy is None or name not in DRAWS:
        return False
    random = numpy.random.mtrand
    return getattr(value, "__self__", None) is random._rand or value is getattr(random, name, None)


def _is_harmless(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    if isinstance(value, type):
        is_numpys = numpy is not None and issubclass(value, numpy.generic)
        return value in _TYPES or (is_numpys and value.__module__ == "numpy")
    if value is numpy and numpy is not None:
        return True
    name = getattr(value, "__name__", "")
    if is_draw(value):
        return True
    if numpy is not None:
        if isinstance(value, numpy.ufunc):
            return True
        if name in _OF_NUMPY and getattr(numpy, name, None) is value:
            return getattr(value, "__module__", None) == "numpy"
    return any(value is getattr(builtins, known) for known in _FUNCTIONS)


_SUSPENDS: Final = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR

_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})

_CHANGES: Final = frozenset(
    {
        *("STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME"),
        *("IMPORT_NAME", "IMPORT_FROM", "LOAD_NAME", "LOAD_BUILD_CLASS", "LOAD_SUPER_ATTR"),
        *("BEFORE_WITH", "BEFORE_ASYNC_WITH", "LOAD_SPECIAL", "SEND", "GET_AWAITABLE"),
        "LOAD_FROM_DICT_OR_GLOBALS",
    }
)
"""Ops that reach outside the function, on any version of Python."""

_TYPES: Final = frozenset(
    {
        *(int, float, bool, str, list, tuple, dict, set, range, enumerate, zip, reversed, slice),
        *(ValueError, TypeError, RuntimeError, AssertionError, IndexError),
    }
)

_FUNCTIONS: Final = ("abs", "all", "any", "len", "max", "min", "round", "sorted", "sum", "divmod")

DRAWS: Final = frozenset(
    {
        *(
            "beta",
            "binomial",
            "choice",
            "exponential",
            "gamma",
            "geometric",
            "normal",
            "permutation",
        ),
        *("poisson", "rand", "randint", "randn", "random", "random_sample", "seed", "shuffle"),
        *("standard_normal", "uniform"),
    }
)
"""Methods of NumPy's global generator."""

_OF_NUMPY: Final = frozenset(
    {
        *("all", "amax", "amin", "any", "arange", "argmax", "argmin", "argsort", "array"),
        *("asarray", "atleast_1d", "atleast_2d", "bincount", "broadcast_to", "clip"),
        *("concatenate", "copy", "cumsum", "diff", "expand_dims", "eye", "flatnonzero", "flip"),
        *("full", "full_like", "hstack", "isin", "linspace", "max", "mean", "meshgrid", "min"),
        *("nonzero", "ones", "ones_like", "pad", "prod", "put_along_axis", "ravel", "repeat"),
        *("reshape", "roll", "round", "searchsorted", "sort", "split", "squeeze", "stack", "sum"),
        *("take_along_axis", "tile", "transpose", "unique", "vstack", "where", "zeros"),
        "zeros_like",
    }
)
"""NumPy's functions that change nothing but arrays they are given."""

_OF_VALUES: Final = frozenset(
    {
        *("T", "all", "any", "append", "argmax", "argmin", "argsort", "astype", "clip", "copy"),
        *("count", "cpu", "cumsum", "detach", "device", "dim", "dtype", "extend", "fill"),
        *("flatten", "float", "format", "get", "index", "insert", "int", "item", "items"),
        *("keys", "long", "max", "mean", "min", "ndim", "nonzero", "numpy", "pop", "ravel"),
        *("repeat", "reshape", "shape", "size", "sort", "squeeze", "sum", "tolist", "transpose"),
        *("unsqueeze", "values"),
    }
)
"""Attributes of numbers, containers, arrays and tensors that change no more than these."""
