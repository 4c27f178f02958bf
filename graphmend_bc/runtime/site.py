"""Where in the user's program something happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType

from graphmend_bc.code.resume_names import in_words
from graphmend_bc.runtime.code_id import CodeId, identity_of


@dataclass(frozen=True, slots=True)
class Site:
    """One instruction of the user's original code object.

    Attributes:
        filename: `co_filename` of the code object.
        lineno: line of the instruction, counted from 1; 0 if the line table was stripped.
        qualname: `co_qualname` of the function.
        name: `co_name` of the function, as a LogRecord's `funcName` shows it.
        opname: name of the instruction.
        offset: byte offset of the instruction in the original `co_code`.
        code: which function it is, if others have the same file and name.
    """

    filename: str
    lineno: int
    qualname: str
    name: str
    opname: str
    offset: int
    code: CodeId = field(repr=False)

    @classmethod
    def of(cls, code: CodeType, opname: str, offset: int, lineno: int | None) -> Site:
        """The site of one instruction of `code`."""
        return cls(
            filename=code.co_filename,
            lineno=lineno or 0,
            qualname=code.co_qualname,
            name=code.co_name,
            opname=opname,
            offset=offset,
            code=identity_of(code),
        )

    @property
    def function(self) -> str:
        """The function, by the name that the program gives it."""
        return in_words(self.qualname)

    def __str__(self) -> str:
        return f"{self.filename}:{self.lineno} in {self.function}"
