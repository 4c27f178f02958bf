"""What is left of a function after one of its instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bytecode import BinaryOp

from graphmend_bc.code import facts
from graphmend_bc.code.listing import Listing, Op, name_of


def tail_of(listing: Listing, index: int) -> tuple[Op, ...]:
    """The ops from one to the end of the function, as they run.

    Args:
        listing: of the function.
        index: the op after which they come.

    Returns:
        Empty if it depends on a condition which ops they are, or they run in a loop.

    Example:
        >>> from graphmend_bc.code.listing import decode
        >>> def last(f, x):
        ...     if x:
        ...         f()
        ...     return x
        >>> listing = decode(last.__code__)
        >>> call = next(op for op in listing.ops if op.name == "CALL")
        >>> [op.name for op in tail_of(listing, call.index)]
        ['POP_TOP', 'LOAD_FAST', 'RETURN_VALUE']
    """
    found: list[Op] = []
    index += 1
    while index < len(listing.ops):
        op = listing.ops[index]
        if op.name == "JUMP_FORWARD":
            assert op.target is not None
            index = op.target
            continue
        if op.jumps:
            return ()
        found.append(op)
        if op.name in _RETURNS:
            return tuple(found)
        index += 1
    return ()


def hands_out(tail: Sequence[Op], is_made: Callable[[str], bool], *, moves: bool) -> bool:
    """Whether ops only move what a function has, or read tensors that it has made.

    Args:
        tail: from `tail_of`.
        is_made: whether a local variable holds such a tensor.
        moves: whether attributes and variables may be read and set as well, and methods be called
            that `_STEPS` names.

    Returns:
        False for an empty tail.
    """
    index, on_top = 0, False  # whether such a tensor lies on top of the stack
    rebound = {name_of(op.arg) for op in tail if op.name == "STORE_FAST"}
    allowed = _MOVES | _STATE if moves else _MOVES
    while index < len(tail):
        op = tail[index]
        end = _end_of_call(tail, index) if op.name in _METHODS else 0
        if end and moves and name_of(op.arg) in _STEPS:
            index, on_top = end, False
        elif end and on_top and name_of(op.arg) in _READS:
            index, on_top = end, name_of(op.arg) != "item"
        elif op.name in allowed and (op.name != "BINARY_OP" or op.arg in _SUMS):
            is_own = op.name in _LOCALS and name_of(op.arg) not in rebound
            index, on_top = index + 1, is_own and is_made(name_of(op.arg))
        else:
            return False
    return bool(tail)


_RETURNS: Final = facts.op_set("RETURN_VALUE", "RETURN_CONST")
_LOCALS: Final = facts.op_set("LOAD_FAST", "LOAD_FAST_CHECK")
_METHODS: Final = facts.op_set("LOAD_METHOD", "LOAD_ATTR")
_MOVES: Final = (
    _LOCALS
    | _RETURNS
    | facts.op_set(
        "POP_TOP",
        "NOP",
        "COPY",
        "SWAP",
        "LOAD_CONST",
        "LOAD_SMALL_INT",
        "STORE_FAST",
        "BUILD_TUPLE",
        "BUILD_LIST",
        "BUILD_MAP",
        "BUILD_CONST_KEY_MAP",
    )
)
_STATE: Final = facts.op_set(
    *("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_ATTR", "STORE_ATTR", "STORE_DEREF", "BINARY_OP")
)
_SUMS: Final = frozenset(
    {
        *(BinaryOp.ADD, BinaryOp.SUBTRACT, BinaryOp.MULTIPLY),
        *(BinaryOp.INPLACE_ADD, BinaryOp.INPLACE_SUBTRACT, BinaryOp.INPLACE_MULTIPLY),
    }
)
"""Operators that raise for no value of a number."""
_STEPS: Final = frozenset({"zero_grad", "step"})
_READS: Final = frozenset({"detach", "item", "cpu", "clone"})
"""Methods of a tensor that do nothing but read it."""


def _end_of_call(tail: Sequence[Op], method: int) -> int:
    """Where the call of a method without arguments ends, 0 if it has some."""
    call = method + 1 + int(tail[method + 1].name == "PRECALL")
    return call + 1 if tail[call].name == "CALL" and tail[call].arg == 0 else 0
