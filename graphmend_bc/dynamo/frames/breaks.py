"""Where in the user's code a trace stopped, and what Dynamo calls the reason."""

from __future__ import annotations

import dis
import re
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType, TracebackType

from torch._dynamo import exc
from torch._dynamo.bytecode_transformation import Instruction, cleaned_instructions
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from graphmend_bc.code import facts
from graphmend_bc.code.kept import kept
from graphmend_bc.dynamo.frames.generated_code import as_the_users

_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
"""Where Python's library and installed packages are."""

_ADDRESS = re.compile(r"0x[0-9a-f]+")

UNSAFE_SIDE_EFFECT = "HOP: Unsafe side effect"
"""Dynamo's break type where an arm changes Python state outside itself."""


@dataclass(frozen=True, slots=True)
class Break:
    """One graph break.

    Attributes:
        code: code object in which tracing stopped; the innermost one of the user's.
        offset: byte offset of the instruction in `code.co_code`.
        gb_type: Dynamo's type of the break, as in its graph break registry.
        gb_id: Dynamo's id of that type, such as "GB0170"; empty if it has none.
        message: Dynamo's own text, first line.
        caller: the innermost frame of the program's own, as "file:line in function", if the break
            is in code of a library that it calls; else empty.
        text: the whole of Dynamo's text, without addresses.
    """

    code: CodeType
    offset: int
    gb_type: str
    gb_id: str
    message: str
    caller: str = ""
    text: str = ""


def break_of(error: BaseException) -> Break | None:
    """The break that an exception of a trace stands for, or None if no frame of it is known."""
    return _break_in(translators(error.__traceback__), error)


def break_at(tx: InstructionTranslatorBase, error: BaseException) -> Break | None:
    """As `break_of`, where a translator has just met it; None if it was met in an inlined frame."""
    if translators(error.__traceback__)[-1:] != [tx]:
        return None
    frames = [tx]
    while (parent := frames[0].parent) is not None:
        frames.insert(0, parent)
    return _break_in([frame for frame in frames if not _is_runtime(frame)], error)


def _break_in(frames: list[InstructionTranslatorBase], error: BaseException) -> Break | None:
    found = instruction_of(frames[-1]) if frames else None
    if found is None:
        return None
    code, offset = found
    gb_type = getattr(error, "gb_type", None) or type(error).__name__
    if isinstance(error, (exc.UserError, GuardOnDataDependentSymNode)) and not gb_id_of(gb_type):
        gb_type = "UserError"  # torch 2.11 has the name of an example there
    return Break(
        code=code,
        offset=offset,
        gb_type=gb_type,
        gb_id=gb_id_of(gb_type),
        message=first_line(error),
        caller=_caller(frames),
        text=_ADDRESS.sub("", str(error)),
    )


def _caller(frames: list[InstructionTranslatorBase]) -> str:
    """Where the program calls the library that the innermost frame is in."""
    if not frames[-1].f_code.co_filename.startswith(_LIBRARIES):
        return ""
    for frame in reversed(frames):
        code = frame.f_code
        if not code.co_filename.startswith(_LIBRARIES):
            positions = frame.current_instruction.positions
            line = code.co_firstlineno if positions is None else positions.lineno
            return f"{code.co_filename}:{line} in {as_the_users(code).co_qualname}"
    return ""


def first_line(error: BaseException) -> str:
    """The first line of an exception's text."""
    return str(error).strip().split("\n", 1)[0]


def instruction_of(translator: InstructionTranslatorBase) -> tuple[CodeType, int] | None:
    """The code object that a translator traces and the byte offset of its current instruction."""
    offset = offset_of(translator, translator.current_instruction)
    return None if offset is None else (translator.f_code, offset)


def translators(traceback: TracebackType | None) -> list[InstructionTranslatorBase]:
    """The translators of user frames on a traceback, outermost first; not one that is half made."""
    found: list[InstructionTranslatorBase] = []
    while traceback is not None:
        candidate = _local(traceback.tb_frame, "self")
        if isinstance(candidate, InstructionTranslatorBase) and candidate not in found:
            found.append(candidate)
        traceback = traceback.tb_next
    made = (translator for translator in found if hasattr(translator, "f_globals"))
    return [translator for translator in made if not _is_runtime(translator)]


def _local(frame: FrameType, name: str) -> object:
    """A local variable of a frame that may still run; the frame keeps no copy of its variables.

    Until CPython 3.13, it would keep one, with the exception that is handled in it: a cycle.
    """
    known = frame.f_locals
    value = known.get(name)
    if isinstance(known, dict) and frame.f_code.co_flags & CO_OPTIMIZED:
        known.clear()
    return value


def offset_of(translator: InstructionTranslatorBase, instruction: Instruction) -> int | None:
    """Byte offset of one of a translator's instructions, as `dis` has it; None before the first."""
    known = real_offsets(translator.f_code)
    if instruction.offset is not None and instruction.offset in known:
        return known[instruction.offset]
    theirs = translator.instructions
    if instruction not in theirs:  # the one that a translator has while it is made
        return None
    return _offsets(theirs, translator.f_code)[theirs.index(instruction)]


@kept(64)
def real_offsets(code: CodeType) -> dict[int, int]:
    """The offset of each instruction in a code object, by the one that Dynamo counts."""
    instructions = cleaned_instructions(code)
    pairs = zip(instructions, _offsets(instructions, code), strict=True)
    return {i.offset: offset for i, offset in pairs if i.offset is not None and offset is not None}


def _offsets(instructions: Sequence[Instruction], code: CodeType) -> list[int | None]:
    """Byte offsets of Dynamo's instructions, as `dis` reports them; None for what is not there.

    Dynamo drops EXTENDED_ARG, counts offsets anew and expands some instructions, so its list is
    aligned with the real one.
    """
    real = list(_expanded(code))
    if [i.opname for i in instructions] == [name for name, _, _ in real]:
        return [offset for _, _, offset in real]
    keys = [(i.opname, i.positions) for i in instructions]
    matcher = SequenceMatcher(None, keys, [known[:2] for known in real], False)
    found: list[int | None] = [None] * len(keys)
    for start, real_start, size in matcher.get_matching_blocks():
        found[start : start + size] = [at for _, _, at in real[real_start : real_start + size]]
    return found


def _expanded(code: CodeType) -> Iterator[tuple[str, object, int]]:
    """Names, positions and offsets of instructions, slices made of two as Dynamo makes them."""
    for instruction in dis.get_instructions(code):
        name, rest = instruction.opname, (instruction.positions, instruction.offset)
        if name in ("BINARY_SLICE", "STORE_SLICE"):
            yield "BUILD_SLICE", *rest
            name = facts.SUBSCRIPT if name == "BINARY_SLICE" else "STORE_SUBSCR"
        if name != "EXTENDED_ARG":
            yield name, *rest


def gb_id_of(gb_type: str) -> str:
    """Dynamo's id of a break type, or an empty string."""
    ids = exc._load_gb_type_to_gb_id_map()
    return str(ids.get(gb_type, ""))


def _is_runtime(translator: InstructionTranslatorBase) -> bool:
    module = translator.f_globals.get("__name__", "")
    return isinstance(module, str) and module.startswith("graphmend_bc.")
