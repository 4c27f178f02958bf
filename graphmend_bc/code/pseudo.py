"""Ops in words that are the same for all versions of CPython."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, Final

from bytecode.instr import UNSET, BinaryOp, CommonConstant, Compare, SpecialMethod

from graphmend_bc.code import facts
from graphmend_bc.code.listing import Op

_SILENT: Final = facts.op_set(
    "RESUME",
    "NOP",
    "CACHE",
    "PUSH_NULL",
    "PRECALL",
    "KW_NAMES",
    "TO_BOOL",
    "COPY_FREE_VARS",
    "MAKE_CELL",
    "RETURN_GENERATOR",
    "END_FOR",
    "POP_ITER",
    "NOT_TAKEN",
    *facts.JUMPS,
)
"""Ops that only serve the interpreter, or that the edges between blocks tell."""

_SYMBOLS: Final = {
    "ADD": "+",
    "AND": "&",
    "FLOOR_DIVIDE": "//",
    "LSHIFT": "<<",
    "MATRIX_MULTIPLY": "@",
    "MULTIPLY": "*",
    "REMAINDER": "%",
    "OR": "|",
    "POWER": "**",
    "RSHIFT": ">>",
    "SUBTRACT": "-",
    "TRUE_DIVIDE": "/",
    "XOR": "^",
    "LT": "<",
    "LE": "<=",
    "EQ": "==",
    "NE": "!=",
    "GT": ">",
    "GE": ">=",
}

_FLAGS: Final = {
    1: "defaults",
    2: "keyword defaults",
    4: "annotations",
    8: "closure",
    16: "annotate function",
}

_WORDS: Final = {
    "POP_TOP": "pop",
    "RETURN_VALUE": "return",
    "RAISE_VARARGS": "raise",
    "BINARY_SUBSCR": "subscript",
    "STORE_SUBSCR": "store subscript",
    "GET_ITER": "iterate",
    "YIELD_VALUE": "yield",
    "PUSH_EXC_INFO": "catch",
    "POP_EXCEPT": "end catch",
    "CHECK_EXC_MATCH": "matches",
    "RERAISE": "reraise",
    "LOAD_ASSERTION_ERROR": "load AssertionError",
    "CALL_FUNCTION_EX": "call with unpacking",
}


def pseudo(ops: Sequence[Op], cells: frozenset[str]) -> list[str]:
    """A run of ops in words, without its jumps.

    Args:
        ops: the ops of one block.
        cells: locals of the code object that live in cells.

    Example:
        `return x + 1` is "load x", "const 1", "binary +", "return" on every version.
    """
    lines: list[str] = []
    for place, op in enumerate(ops):
        before = ops[place - 1].name if place else ""
        if op.name in _SILENT or op.jumps:
            continue
        if op.name == "POP_TOP" and before in ("END_FOR", "RETURN_GENERATOR"):
            continue  # the other half of what these do in one op on other versions
        if op.name == "CALL_KW":
            lines[-1] = f"call {op.arg}, naming {' '.join(ops[place - 1].arg)}"
        elif op.name == "SET_FUNCTION_ATTRIBUTE":
            lines[-1] = f"{lines[-1]}, {_FLAGS[op.arg]}"
        elif op.name == "CALL":
            names = next((o.arg for o in ops[place - 2 : place] if o.name == "KW_NAMES"), ())
            lines.append(f"call {op.arg}" + (f", naming {' '.join(names)}" if names else ""))
        elif op.name == "RETURN_CONST":
            lines += [f"const {constant(op.arg)}", "return"]
        elif op.name in ("LOAD_FAST", "LOAD_CLOSURE") and _is_cell(op, cells):
            lines.append(f"cell {_name(op.arg)}")
        else:
            lines.append(_line(op))
    return lines


def constant(value: Any) -> str:
    """A constant as text that is the same in every process."""
    if isinstance(value, CodeType):
        return f"<code {value.co_name}>"
    if isinstance(value, frozenset):
        return f"frozenset({{{', '.join(sorted(map(repr, value)))}}})"
    return repr(value)


def _is_cell(op: Op, cells: frozenset[str]) -> bool:
    return not isinstance(op.arg, str) or op.arg in cells


def _name(arg: Any) -> str:
    last = arg[-1] if isinstance(arg, tuple) else arg
    return last if isinstance(last, str) else str(last.name)


def _binary(op: Op) -> str:
    name = BinaryOp(op.arg).name
    if name == "SUBSCR":
        return _WORDS["BINARY_SUBSCR"]
    symbol = _SYMBOLS[name.removeprefix("INPLACE_")]
    return f"binary {symbol}=" if name.startswith("INPLACE_") else f"binary {symbol}"


def _intrinsic(op: Op) -> str:
    name = str(getattr(op.arg, "name", f"{op.name}_{op.arg}"))
    return name.removeprefix("INTRINSIC_").lower().replace("_", " ")


def _common_constant(op: Op) -> str:
    builtin = CommonConstant(op.arg).name.removeprefix("BUILTIN_")
    return f"load {_COMMON.get(builtin, builtin.lower())}"


_COMMON: Final = {
    "ASSERTION_ERROR": "AssertionError",
    "NOT_IMPLEMENTED_ERROR": "NotImplementedError",
}


def _make_function(op: Op) -> str:
    flags = op.arg if facts.MAKE_FUNCTION_TAKES_FLAGS else 0
    parts = [word for bit, word in sorted(_FLAGS.items(), reverse=True) if flags & bit]
    return ", ".join(["make function", *parts])


_LINES: Final[dict[str, Callable[[Op], str]]] = {
    "LOAD_CONST": lambda op: f"const {constant(op.arg)}",
    "BINARY_OP": _binary,
    "COMPARE_OP": lambda op: f"compare {_SYMBOLS[Compare(op.arg).name.removesuffix('_CAST')]}",
    "IS_OP": lambda op: "is not" if op.arg else "is",
    "CONTAINS_OP": lambda op: "not in" if op.arg else "in",
    "MAKE_FUNCTION": _make_function,
    **dict.fromkeys(("CALL_INTRINSIC_1", "CALL_INTRINSIC_2"), _intrinsic),
    "LOAD_COMMON_CONSTANT": _common_constant,
    "LOAD_SPECIAL": lambda op: f"load special __{SpecialMethod(op.arg).name.lower()}__",
    "LOAD_FAST_CHECK": lambda op: f"load {_name(op.arg)}",
    "LOAD_FAST_AND_CLEAR": lambda op: f"set aside {_name(op.arg)}",
    "LOAD_METHOD": lambda op: f"load attr {op.arg}",
    "LOAD_CLASSDEREF": lambda op: f"load class cell {_name(op.arg)}",
    "LOAD_FROM_DICT_OR_DEREF": lambda op: f"load class cell {_name(op.arg)}",
}


def _line(op: Op) -> str:
    if op.name in _LINES:
        return _LINES[op.name](op)
    if op.name in _WORDS:
        return _WORDS[op.name]
    words = op.name.lower().replace("_fast", "").replace("_deref", "_cell").replace("_", " ")
    if op.arg is UNSET:
        return words
    named = not isinstance(op.arg, int)
    return f"{words} {_name(op.arg) if named else int(op.arg)}"
