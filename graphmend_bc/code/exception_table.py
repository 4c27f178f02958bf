"""The exception table of a code object.

Format: CPython's `Objects/exception_handling_notes.txt`. Each entry is four numbers (start, length,
target, depth * 2 + push_lasti) in units of two bytes, each number in groups of six bits, highest
first.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry. Units are code units of two bytes.

    Attributes:
        start: first unit covered.
        stop: first unit behind the covered ones.
        target: unit at which the handler starts.
        depth: the operand stack is cut to this depth before the handler is entered.
        push_lasti: True if the offset of the raising op is pushed below the exception.
    """

    start: int
    stop: int
    target: int
    depth: int
    push_lasti: bool


def table_entries(code: CodeType) -> tuple[TableEntry, ...]:
    """The entries of a code object's exception table, in order of the code they cover."""
    entries: list[TableEntry] = []
    stream = iter(code.co_exceptiontable)
    for first in stream:
        start = _number(first, stream)
        length, target, packed = (_number(next(stream), stream) for _ in range(3))
        entries.append(TableEntry(start, start + length, target, packed >> 1, bool(packed & 1)))
    return tuple(entries)


def has_handler(code: CodeType) -> bool:
    """Whether an exception may run code of the function's own: `except` or `finally`.

    What a `with` block does with it is up to the manager's `__exit__`.

    Example:
        >>> def f(lock):
        ...     with lock:
        ...         pass
        >>> has_handler(f.__code__), has_handler(table_entries.__code__)
        (False, False)
    """
    if not code.co_exceptiontable:
        return False
    ops = code.co_code[::2]
    starts = {entry.target for entry in table_entries(code)}
    return any(ops[at] == _HANDLER and ops[at + 1] != _EXIT for at in starts)


_HANDLER, _EXIT = (dis.opmap[name] for name in ("PUSH_EXC_INFO", "WITH_EXCEPT_START"))


def _number(first: int, stream: Iterator[int]) -> int:
    value = first & 63
    while first & 64:
        first = next(stream)
        value = (value << 6) | (first & 63)
    return value
