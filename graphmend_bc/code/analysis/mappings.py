"""Comprehensions that make each item of a list of one item of another list alone.

    [y.unsqueeze(0) if y.ndim == 0 else y for y in values]

What it makes of two lists that follow one another is what it makes of each, one after the other.
"""

from __future__ import annotations

from collections.abc import Collection
from inspect import CO_GENERATOR
from types import CodeType

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.code.listing import Op, name_of

_PLAIN = frozenset(
    {
        *("RESUME", "NOP", "CACHE", "PRECALL", "CALL", "KW_NAMES", "PUSH_NULL", "COPY", "SWAP"),
        *("BUILD_LIST", "FOR_ITER", "END_FOR", "POP_TOP", "POP_ITER", "LIST_APPEND"),
        *("COMPARE_OP", "IS_OP", "UNARY_NOT", "TO_BOOL", "RETURN_VALUE"),
        *("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"),
        *("POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE"),
        *("POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_TRUE"),
        *("POP_JUMP_BACKWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_TRUE"),
        *("JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP"),
    }
)
_FAST = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "STORE_FAST"})
_NAMED = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_CONSTANTS = (type(None), bool, int, float, str)


def maps_items(code: CodeType, names: Collection[str]) -> bool:
    """Whether a function gives the list of what it makes of each item that an iterator has.

    Args:
        code: a function's, whose only argument is the iterator.
        names: of attributes and methods, which change nothing.

    Example:
        >>> def f(m):
        ...     return [v.detach() for v in m]
        >>> inner = f.__code__.co_consts[1]
        >>> not isinstance(inner, CodeType) or maps_items(inner, {"detach"})
        True
    """
    if code.co_name != "<listcomp>" or code.co_freevars or code.co_cellvars:
        return False
    if code.co_flags & CO_GENERATOR or code.co_argcount != 1 or len(code.co_varnames) != 2:
        return False
    ops = graph_of(code).listing.ops
    loops = [op for op in ops if op.name == "FOR_ITER"]
    lists = [op for op in ops if op.name == "BUILD_LIST"]
    if len(loops) != 1 or len(lists) != 1 or lists[0].arg or lists[0].index > loops[0].index:
        return False
    return all(_is_plain(op, loops[0], names) for op in ops)


def _is_plain(op: Op, loop: Op, names: Collection[str]) -> bool:
    """True for an op that takes part in nothing but one item."""
    if op.name in _NAMED:
        return name_of(op.arg) in names
    if op.name == "LOAD_CONST":
        return isinstance(op.arg, _CONSTANTS)
    if op.name not in _FAST:
        return op.name in _PLAIN
    # The iterator is loaded to be gone over, and the item is what the loop begins with.
    is_iterator, is_store = op.arg == ".0", op.name == "STORE_FAST"
    if op.index < loop.index:
        return is_iterator and not is_store
    return not is_iterator and (not is_store or op.index == loop.index + 1)
