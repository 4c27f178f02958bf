"""Instructions of a program in the few terms that every Python since 3.8 shares."""

from __future__ import annotations

import dis
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

CO_OPTIMIZED = 0x1
"""The flag of functions, which modules and bodies of classes lack."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        opname: its name in the Python that made it.
        offset: where it is in its code object.
        line: its line in the source; 0 if none is known.
        name: the name that it loads, stores or imports; empty for others.
        target: where it jumps to; -1 if it does not.
    """

    opname: str
    offset: int
    line: int
    name: str
    target: int


@dataclass(frozen=True, slots=True)
class Code:
    """The instructions of one code object.

    Attributes:
        name: its name, behind those of the classes and functions around it.
        is_function: False for a module and the body of a class.
        instructions: in the order of the code.
    """

    name: str
    is_function: bool
    instructions: tuple[Instruction, ...]


def of_source(source: bytes) -> list[Code]:
    """The code objects of a source, which is compiled and not run.

    Args:
        source: the bytes of a `.py` file.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: this Python cannot compile it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = compile(source, "<scanned>", "exec", dont_inherit=True, optimize=0)
    return list(_codes(module, ""))


def _codes(code: CodeType, around: str) -> Iterator[Code]:
    name = "" if code.co_name == "<module>" else f"{around}{code.co_name}"
    yield Code(name, bool(code.co_flags & CO_OPTIMIZED), tuple(_instructions(code)))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant, f"{name}." if name else "")


def _instructions(code: CodeType) -> Iterator[Instruction]:
    line = 0
    for op in dis.get_instructions(code):
        line = (op.positions.lineno if op.positions else None) or line
        # `dis` gives a common constant by its number, and says what it is in its text.
        argument = op.argrepr if op.opname == "LOAD_COMMON_CONSTANT" else op.argval
        yield instruction(op.opname, op.offset, line, argument)


def instruction(opname: str, offset: int, line: int, argument: object) -> Instruction:
    """An instruction from what a disassembler calls it and its argument."""
    jumps = "JUMP" in opname and isinstance(argument, int)
    name = argument if isinstance(argument, str) and "CONST" not in opname else ""
    if opname == "LOAD_COMMON_CONSTANT":
        name = getattr(argument, "__name__", str(argument))
    return Instruction(opname, offset, line, name, argument if jumps else -1)  # type: ignore[arg-type]
