"""Where in the user's code a trace stopped, and what Dynamo calls the reason."""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType, TracebackType

from torch._dynamo import exc
from torch._dynamo.symbolic_convert import InstructionTranslatorBase


@dataclass(frozen=True, slots=True)
class Break:
    """One graph break.

    Attributes:
        code: code object in which tracing stopped; the innermost one of the user's.
        offset: byte offset of the instruction in `code.co_code`.
        gb_type: Dynamo's type of the break, as in its graph break registry.
        gb_id: Dynamo's id of that type, such as "GB0170"; empty if it has none.
        message: Dynamo's own text, first line.
    """

    code: CodeType
    offset: int
    gb_type: str
    gb_id: str
    message: str


def break_of(error: BaseException) -> Break | None:
    """The break that an exception of a trace stands for, or None if no frame of it is known."""
    frames = translators(error.__traceback__)
    if not frames:
        return None
    innermost = frames[-1]
    gb_type = getattr(error, "gb_type", None) or type(error).__name__
    return Break(
        code=innermost.f_code,
        offset=innermost.current_instruction.offset or 0,
        gb_type=gb_type,
        gb_id=gb_id_of(gb_type),
        message=str(error).strip().split("\n", 1)[0],
    )


def translators(traceback: TracebackType | None) -> list[InstructionTranslatorBase]:
    """The translators of user frames on a traceback, outermost first."""
    found: list[InstructionTranslatorBase] = []
    while traceback is not None:
        candidate = traceback.tb_frame.f_locals.get("self")
        if isinstance(candidate, InstructionTranslatorBase) and not _is_runtime(candidate):
            if not any(candidate is known for known in found):
                found.append(candidate)
        traceback = traceback.tb_next
    return found


def gb_id_of(gb_type: str) -> str:
    """Dynamo's id of a break type, or an empty string."""
    ids = exc._load_gb_type_to_gb_id_map()
    return str(ids.get(gb_type, ""))


def _is_runtime(translator: InstructionTranslatorBase) -> bool:
    module = translator.f_globals.get("__name__", "")
    return isinstance(module, str) and module.startswith("graphmend_bc.")
