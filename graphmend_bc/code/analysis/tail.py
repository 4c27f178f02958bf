"""What is left of a function after one of its instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from graphmend_bc.code import facts
from graphmend_bc.code.listing import Listing, Op


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


def hands_out(tail: Sequence[Op], is_made: Callable[[str], bool], *, may_reset: bool) -> bool:
    """Whether ops only move what a function has, or read tensors that it has made.

    Args:
        tail: from `tail_of`.
        is_made: whether a local variable holds such a tensor.
        may_reset: whether gradients may be reset among them: `optimizer.zero_grad()`.

    Returns:
        False for an empty tail.
    """
    index, on_top = 0, False  # whether such a tensor lies on top of the stack
    rebound = {_name(op) for op in tail if op.name == "STORE_FAST"}
    while index < len(tail):
        op = tail[index]
        if may_reset and (end := _end_of_reset(tail, index)):
            index = end
        elif op.name in _METHODS:
            end = _end_of_call(tail, index) if on_top and _name(op) in _READS else 0
            if not end:
                return False
            index, on_top = end, _name(op) != "item"
        elif op.name in _MOVES:
            is_own = op.name in _LOCALS and _name(op) not in rebound
            index, on_top = index + 1, is_own and is_made(_name(op))
        else:
            return False
    return bool(tail)


_RETURNS: Final = facts.op_set("RETURN_VALUE", "RETURN_CONST")
_LOCALS: Final = facts.op_set("LOAD_FAST", "LOAD_FAST_CHECK")
_METHODS: Final = facts.op_set("LOAD_METHOD", "LOAD_ATTR")
_OWNERS: Final = _LOCALS | facts.op_set("LOAD_GLOBAL", "LOAD_DEREF")
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
_READS: Final = frozenset({"detach", "item", "cpu", "clone"})
"""Methods of a tensor that do nothing but read it."""


def _end_of_call(tail: Sequence[Op], method: int) -> int:
    """Where the call of a method without arguments ends, 0 if it has some."""
    call = method + 1 + int(tail[method + 1].name == "PRECALL")
    return call + 1 if tail[call].name == "CALL" and tail[call].arg == 0 else 0


def _end_of_reset(tail: Sequence[Op], index: int) -> int:
    """Where a line `optimizer.zero_grad()` ends, 0 if none begins here."""
    if tail[index].name not in _OWNERS:
        return 0
    index += 1
    while tail[index].name == "LOAD_ATTR" and _name(tail[index]) != "zero_grad":
        index += 1
    if tail[index].name not in _METHODS or _name(tail[index]) != "zero_grad":
        return 0
    end = _end_of_call(tail, index)
    return end + 1 if end and tail[end].name == "POP_TOP" else 0


def _name(op: Op) -> str:
    """The name that an op loads."""
    name = op.arg[1] if isinstance(op.arg, tuple) else op.arg
    return name if isinstance(name, str) else ""
