"""How far down the operand stack an op reaches.

`dis.stack_effect` tells the difference only: `SWAP 2` has none and `CALL 2` has -3 or so, but both
handle slots below. The counts follow the descriptions in the documentation of the `dis` module.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Final

from graphmend_bc.code import facts


def reach(name: str, number: int) -> int:
    """How many slots from the top an op takes away, moves or looks at.

    Args:
        name: opcode name.
        number: its argument where a number of values or flags, else 0 (see `stack.number_of`).

    Example:
        >>> reach("BINARY_OP", 0), reach("COPY", 3)
        (2, 3)
    """
    rule = _REACH[name]
    return rule if isinstance(rule, int) else rule(number)


def _call(count: int) -> int:
    # The NULL or self and the callable lie below; on 3.11 PRECALL takes the arguments away first.
    return 2 if facts.CALL_NEEDS_PRECALL else count + 2


def _make_function(flags: int) -> int:
    if not facts.MAKE_FUNCTION_TAKES_FLAGS:
        return 1
    return 1 + (flags & 15).bit_count()


def _call_function_ex(flags: int) -> int:
    return 3 + (flags & 1) if facts.CALL_FUNCTION_EX_TAKES_FLAGS else 4


_NAMES: Final[dict[int, str]] = {
    0: """
        CACHE NOP RESUME COPY_FREE_VARS MAKE_CELL RETURN_GENERATOR SETUP_ANNOTATIONS JUMP_FORWARD
        JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT KW_NAMES PUSH_NULL EXTENDED_ARG RESERVED
        ENTER_EXECUTOR LOAD_ASSERTION_ERROR LOAD_BUILD_CLASS LOAD_CLASSDEREF LOAD_CLOSURE LOAD_CONST
        LOAD_DEREF LOAD_FAST LOAD_FAST_AND_CLEAR LOAD_FAST_CHECK LOAD_GLOBAL LOAD_LOCALS LOAD_NAME
        RETURN_CONST DELETE_DEREF DELETE_FAST DELETE_GLOBAL DELETE_NAME LOAD_FAST_LOAD_FAST
        LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW LOAD_SMALL_INT LOAD_COMMON_CONSTANT
        NOT_TAKEN
    """,
    1: """
        POP_TOP POP_EXCEPT UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE TO_BOOL GET_ITER
        GET_AITER GET_ANEXT GET_AWAITABLE GET_LEN GET_YIELD_FROM_ITER ASYNC_GEN_WRAP YIELD_VALUE
        RETURN_VALUE INTERPRETER_EXIT EXIT_INIT_CHECK PRINT_EXPR IMPORT_STAR IMPORT_FROM
        LIST_TO_TUPLE LOAD_ATTR LOAD_METHOD LOAD_FROM_DICT_OR_DEREF LOAD_FROM_DICT_OR_GLOBALS
        STORE_FAST STORE_NAME STORE_GLOBAL STORE_DEREF DELETE_ATTR UNPACK_SEQUENCE UNPACK_EX
        MATCH_MAPPING MATCH_SEQUENCE BEFORE_WITH BEFORE_ASYNC_WITH PUSH_EXC_INFO FOR_ITER
        CALL_INTRINSIC_1 CONVERT_VALUE FORMAT_SIMPLE STORE_FAST_LOAD_FAST JUMP_IF_TRUE_OR_POP
        JUMP_IF_FALSE_OR_POP POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE
        POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE
        POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE
        POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE
        POP_ITER LOAD_SPECIAL
    """,
    2: """
        BINARY_OP BINARY_SUBSCR COMPARE_OP CONTAINS_OP IS_OP CHECK_EXC_MATCH CHECK_EG_MATCH
        PREP_RERAISE_STAR MATCH_KEYS STORE_ATTR DELETE_SUBSCR IMPORT_NAME SEND END_SEND
        END_ASYNC_FOR CALL_INTRINSIC_2 SET_FUNCTION_ATTRIBUTE FORMAT_WITH_SPEC STORE_FAST_STORE_FAST
        BUILD_TEMPLATE
    """,
    3: "STORE_SUBSCR BINARY_SLICE MATCH_CLASS LOAD_SUPER_ATTR CLEANUP_THROW",
    4: "STORE_SLICE",
}

_BY_NUMBER: Final[dict[str, Callable[[int], int]]] = {
    **dict.fromkeys(("SWAP", "COPY"), lambda n: n),
    **dict.fromkeys(
        ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET", "BUILD_STRING", "BUILD_SLICE"), lambda n: n
    ),
    "BUILD_MAP": lambda n: 2 * n,
    "BUILD_CONST_KEY_MAP": lambda n: n + 1,
    # The collection lies under what is added to it and under n - 1 iterators.
    **dict.fromkeys(
        ("LIST_APPEND", "SET_ADD", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE"), lambda n: n + 1
    ),
    "MAP_ADD": lambda n: n + 2,
    # For its message, DICT_MERGE looks up the callable under the dict.
    "DICT_MERGE": lambda n: n + 4 - facts.NULL_BEFORE_CALLABLE,
    # The exception, a slot for the one before, the offset, and `__exit__`.
    "WITH_EXCEPT_START": lambda n: 3 + facts.EXIT_SLOTS,
    # The value and its source text, and a format if there is one.
    "BUILD_INTERPOLATION": lambda flags: 2 + (flags & 1),
    "FORMAT_VALUE": lambda flags: 2 if flags & 4 else 1,
    "RAISE_VARARGS": lambda n: n,
    # The exception, and the slot n - 1 below it that gets the offset of the raise.
    "RERAISE": lambda n: n + 1,
    "PRECALL": lambda n: n,
    "CALL": _call,
    "CALL_KW": lambda n: n + 3,
    "CALL_FUNCTION_EX": _call_function_ex,
    "MAKE_FUNCTION": _make_function,
    "END_FOR": lambda n: 2 if dis.stack_effect(dis.opmap["END_FOR"]) == -2 else 1,
}

_REACH: Final[dict[str, int | Callable[[int], int]]] = {
    **{name: count for count, names in _NAMES.items() for name in names.split()},
    **_BY_NUMBER,
}
