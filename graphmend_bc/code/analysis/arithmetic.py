"""Functions that do nothing but compute with numbers, by their bytecode."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Mapping
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

from graphmend_bc.code import facts
from graphmend_bc.code.listing import decode, name_of


def is_arithmetic(function: object) -> bool:
    """Whether all that a function does is to compute with its arguments, if these are numbers.

    Args:
        function: any object; a `functools.partial` is what it calls.

    Returns:
        False for what may read or change an object, or call another function of the program's.

    Example:
        >>> is_arithmetic(lambda step: max(0.1, 1 - step / 10)), is_arithmetic(print)
        (True, False)
    """
    if type(function) is functools.partial:
        given = (*function.args, *function.keywords.values())
        return all(map(_is_number, given)) and is_arithmetic(function.func)
    if not isinstance(function, FunctionType):
        return False
    used = _names_used(function.__code__)
    if used is None:
        return False
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    found = [cells[n].cell_contents if n in cells else _global(function, n) for n in used]
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return all(map(_is_number, defaults)) and all(id(v) in _KNOWN or _is_number(v) for v in found)


def _global(function: FunctionType, name: str) -> object:
    scope: Mapping[str, Any] = function.__globals__
    return scope[name] if name in scope else getattr(builtins, name, None)


def _is_number(value: object) -> bool:
    return value is None or type(value) in (int, float, bool)


@lru_cache(maxsize=256)
def _names_used(code: CodeType) -> frozenset[str] | None:
    """The names that a code object reads from outside; None if it does more than compute."""
    found, ops = set[str](), decode(code).ops
    for before, op in zip((None, *ops), ops, strict=False):
        if op.name in _OUTSIDE:
            found.add(name_of(op.arg))
        elif op.name in _ATTRIBUTES:
            loaded = name_of(before.arg) if before and before.name in _OUTSIDE else ""
            if loaded != "math" or name_of(op.arg) not in _MATH:
                return None
        elif op.name not in _COMPUTE:
            return None
    return frozenset(found)


_MATH: Final = {name: value for name, value in vars(math).items() if not name.startswith("_")}
_KNOWN: Final = frozenset(
    map(id, (math, float, int, bool, max, min, abs, round, pow, *_MATH.values()))
)
_OUTSIDE: Final = facts.op_set("LOAD_GLOBAL", "LOAD_DEREF")
_ATTRIBUTES: Final = facts.op_set("LOAD_ATTR", "LOAD_METHOD")
_COMPUTE: Final = facts.op_set(
    *("RESUME", "NOP", "COPY_FREE_VARS", "PUSH_NULL", "PRECALL", "CALL", "COPY", "SWAP", "POP_TOP"),
    *("LOAD_FAST", "LOAD_FAST_CHECK", "STORE_FAST", "LOAD_CONST", "LOAD_SMALL_INT", "TO_BOOL"),
    *("BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_NOT", "JUMP_FORWARD", "NOT_TAKEN"),
    *("POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_TRUE", "JUMP_IF_FALSE_OR_POP"),
    *("JUMP_IF_TRUE_OR_POP", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "IS_OP"),
    *("RETURN_VALUE", "RETURN_CONST"),
)
