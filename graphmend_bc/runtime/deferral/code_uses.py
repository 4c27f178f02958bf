"""What a code object asks for by name."""

from __future__ import annotations

import dis
from dataclasses import dataclass
from types import CodeType
from typing import Final

from graphmend_bc.code import facts
from graphmend_bc.code.kept import kept

_READS: Final = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_ATTRIBUTES: Final = ("LOAD_ATTR", "LOAD_METHOD")
_STORES: Final = frozenset(
    f"{op}_{of}" for op in ("STORE", "DELETE") for of in ("ATTR", "GLOBAL", "NAME", "DEREF")
)
_ENTERS: Final = ("BEFORE_WITH", "BEFORE_ASYNC_WITH", "LOAD_SPECIAL")


@dataclass(frozen=True, slots=True)
class Uses:
    """The names in a code object and those nested in it.

    Attributes:
        paths: globals, each with the attributes that are asked of it in a row.
        names: every attribute and global.
        stores: those that are assigned or deleted, with the variables shared by closures.
        imports: modules.
        asked: globals that `getattr` is called with.
    """

    paths: frozenset[tuple[str, ...]]
    names: frozenset[str]
    stores: frozenset[str]
    imports: frozenset[str]
    asked: frozenset[str]


@kept(1024)
def uses_of(code: CodeType) -> Uses:
    """What a code object asks for by name.

    Args:
        code: of a function; functions that it defines count as called.

    Example:
        >>> sorted(uses_of((lambda log: log.flush()).__code__).names)
        ['flush']
    """
    paths, stores, imports, asked = set[tuple[str, ...]](), set[str](), set[str](), set[str]()
    names = set(code.co_names)
    path: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        name = facts.READ_AS.get(instruction.opname, instruction.opname)
        value = instruction.argval
        if isinstance(value, CodeType):
            inner = uses_of(value)
            paths, names, stores = paths | inner.paths, names | inner.names, stores | inner.stores
            imports, asked = imports | inner.imports, asked | inner.asked
        if name in _ATTRIBUTES and path:
            path = (*path, value)
            continue
        if path:
            paths.add(path)
        if path == ("getattr",) and name in _READS:
            asked.add(value)
        path = (value,) if name in _READS else path if name in ("CACHE", "PUSH_NULL") else ()
        if name in _STORES:
            stores.add(value)
        elif name == "IMPORT_NAME":
            imports |= {value, value.partition(".")[0]}
        elif name in _ENTERS:
            names |= {"__enter__", "__exit__"}
    if any(op in stores for op in (*code.co_freevars, *code.co_cellvars)):
        stores.add("cell_contents")
    return Uses(
        frozenset(paths), frozenset(names), frozenset(stores), frozenset(imports), frozenset(asked)
    )
