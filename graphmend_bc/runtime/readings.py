"""Methods that do nothing but read their object: told by their bytecode.

A closed list of instructions and of functions that they may call; `self` may only be asked for
attributes, and an attribute's own attributes are not asked for. What is not on the list is not
known to only read.
"""

from __future__ import annotations

import builtins
import dis
import re
import types
from collections.abc import Iterable
from dataclasses import dataclass
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from typing import Any, Final

from graphmend_bc.code import facts
from graphmend_bc.code.kept import kept

_FORMATS: Final = re.compile(
    "BUILD_STRING|CACHE|CALL|CONVERT_VALUE|COPY_FREE_VARS|FORMAT_.*|MAKE_CELL|NOP|PRECALL|RERAISE|RESUME"
    "|LOAD_(ATTR|CLOSURE|CONST|DEREF|FAST|GLOBAL|METHOD)|RETURN_.*"
)
"""Instructions of code that only puts texts together."""

_COMPUTES: Final = re.compile(
    "BINARY_(SLICE|SUBSCR)|BUILD_.*|COMPARE_OP|CONTAINS_OP|COPY|END_FOR|FOR_ITER|GET_ITER|IS_OP"
    "|(POP_)?JUMP_.*|KW_NAMES|LOAD_COMMON_CONSTANT|(LIST_APPEND|LIST_EXTEND|MAP_ADD)|MAKE_FUNCTION|NOT_TAKEN"
    "|POP_ITER|POP_TOP|STORE_FAST|SWAP|TO_BOOL|UNARY_.*|UNPACK_SEQUENCE|YIELD_VALUE"
)
"""Further ones, which call methods of what they work on."""

_SHOW: Final[tuple[Any, ...]] = (str, repr, type, id, vars)
_WORK: Final[tuple[Any, ...]] = (
    *(len, sorted, list, tuple, dict, zip, enumerate, range, round, abs, min, max, sum),
    *(int, float, bool, any, all, hex, format, isinstance, reversed),
)
_ASKED_OF_SELF = ("type", "id", "vars")
_METHODS: Final = (
    *("join", "items", "keys", "values", "format", "get", "split", "strip", "upper", "lower"),
    *("startswith", "endswith", "replace", "title"),
)
_OF_CLASSES = frozenset(("__class__", "__name__", "__qualname__", "__module__", "__dict__"))
_PIECES = frozenset(("<genexpr>", "<listcomp>", "<dictcomp>"))


@dataclass(frozen=True, slots=True)
class Reading:
    """What a method reads.

    Attributes:
        names: attributes of its object.
        reads_all: whether it goes through all of them.
        formats_only: whether it does nothing with their values but make texts of them.
    """

    names: frozenset[str]
    reads_all: bool
    formats_only: bool


def reading_of(methods: Iterable[object], owner: type) -> Reading | None:
    """What methods read, if they do nothing else.

    Args:
        methods: functions, as the class has them.
        owner: the class of the object; where the methods it calls are looked up.

    Returns:
        None if they may do anything else.
    """
    names: frozenset[str] = frozenset()
    reads_all, formats_only, seen, left = False, True, list[object](), list(methods)
    while left:
        method = left.pop()
        if any(method is other for other in seen):
            continue
        seen.append(method)
        if not isinstance(method, types.FunctionType) or not _takes_itself_alone(method.__code__):
            return None
        scan = _scan(method.__code__)
        if scan is None or not all(_is_known(method, name) for name in scan.globals):
            return None
        reads_all |= scan.reads_all
        formats_only &= scan.formats_only
        for name in scan.attributes | scan.calls:
            found = _of_class(owner, name)
            if name in scan.calls or type(found) is property:
                left.append(found.fget if type(found) is property else found)
            elif callable(found) or is_descriptor(found):
                return None
        names |= scan.attributes
    return Reading(names, reads_all, formats_only)


def _of_class(owner: type, name: str) -> Any:
    return next((vars(kind)[name] for kind in owner.__mro__ if name in vars(kind)), None)


def is_descriptor(value: object) -> bool:
    """True for what a class has in place of an attribute's value, other than a slot."""
    return hasattr(type(value), "__get__") and not isinstance(value, types.MemberDescriptorType)


def _takes_itself_alone(code: types.CodeType) -> bool:
    """True for code of a method that has nothing but its object to work on."""
    is_plain = not code.co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)
    takes_one = (code.co_argcount, code.co_kwonlyargcount) == (1, 0)
    return is_plain and takes_one and not code.co_freevars


def _is_known(function: types.FunctionType, name: str) -> bool:
    """True for globals that are a function of the list, or a constant."""
    value: Any = function.__globals__.get(name, getattr(builtins, name, None))
    is_listed = any(value is known and known.__name__ == name for known in (*_SHOW, *_WORK))
    return is_listed or type(value) in (bool, int, float, str)


@dataclass(slots=True)
class _Scan:
    """What a code object does."""

    globals: set[str]
    attributes: set[str]
    calls: set[str]
    reads_all: bool = False
    formats_only: bool = True


@kept(1024)
def _scan(code: types.CodeType, own: str = "") -> _Scan | None:
    """What a code object does; None if it may do more than read.

    Args:
        code: of a method, or of a comprehension in one.
        own: the name of the method's object; the first argument's if not given.
    """
    own = own or code.co_varnames[0]
    found = _Scan(set(), set(), set())
    instructions = list(dis.get_instructions(code))
    for position, instruction in enumerate(instructions):
        before = instructions[position - 1] if position else instruction
        after = instructions[min(position + 1, len(instructions) - 1)]
        if not _allow(found, instruction, before, after, own):
            return None
        if isinstance(inner := instruction.argval, types.CodeType):
            piece = _scan(inner, own) if inner.co_name in _PIECES else None
            if piece is None:
                return None
            found.globals |= piece.globals
            found.attributes |= piece.attributes
            found.calls |= piece.calls
            found.reads_all |= piece.reads_all
    return found


def _plain(instruction: dis.Instruction) -> str:
    """The name of an instruction, or of the one that it is a shortcut of."""
    return facts.READ_AS.get(instruction.opname, instruction.opname)


def _allow(
    found: _Scan, now: dis.Instruction, before: dis.Instruction, after: dis.Instruction, own: str
) -> bool:
    """Note what one instruction does; False if it is not known to only read."""
    if now.opname == "BINARY_OP":
        found.formats_only = False
        return "=" not in now.argrepr
    if now.opname == "CALL_INTRINSIC_1":
        return now.argrepr in ("INTRINSIC_STOPITERATION_ERROR", "INTRINSIC_LIST_TO_TUPLE")
    if now.opname in facts.PAIRED_OPS:
        found.formats_only = False
        return own not in now.argval
    if not _FORMATS.fullmatch(_plain(now)):
        found.formats_only = False
        is_own = now.opname == "STORE_FAST" and now.argval == own
        return _COMPUTES.fullmatch(_plain(now)) is not None and not is_own
    if now.opname == "LOAD_GLOBAL":
        found.globals.add(now.argval)
        found.reads_all |= now.argval == "vars"
        found.formats_only &= any(now.argval == known.__name__ for known in _SHOW)
        return True
    if now.argval == own and _plain(now) in ("LOAD_FAST", "LOAD_DEREF"):
        asks = before.opname == "LOAD_GLOBAL" and before.argval in _ASKED_OF_SELF
        return asks or after.opname in ("LOAD_ATTR", "LOAD_METHOD")
    if now.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
        return True
    is_call = now.opname == "LOAD_METHOD" or "NULL" in now.argrepr
    if before.argval == own and _plain(before) in ("LOAD_FAST", "LOAD_DEREF"):
        (found.calls if is_call else found.attributes).add(now.argval)
        found.reads_all |= now.argval == "__dict__"
        found.attributes -= _OF_CLASSES
        return True
    found.formats_only &= not is_call
    return now.argval in (_METHODS if is_call else _OF_CLASSES)
