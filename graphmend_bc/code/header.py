"""What a code object says of itself apart from its ops."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType

import bytecode
from bytecode.instr import UNSET


def argument_names(code: CodeType) -> tuple[str, ...]:
    """All parameters, in the order of `co_varnames`: `*` and `**` ones come last."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    return code.co_varnames[:count]


@dataclass(frozen=True, slots=True)
class Header:
    """The parts of a code object that are not in its ops.

    Attributes:
        name, qualname, filename, first_line, flags: as in the code object's `co_` attributes.
        argnames: all parameters in the order of `co_varnames`.
        argcount, posonlyargcount, kwonlyargcount: as in the code object.
        freevars, cellvars: in an order that closures rely on.
        docstring: UNSET if there is none.
        localnames: other locals, in the order in which `locals()` is to list them. Locals that only
            the ops name come after them.
    """

    name: str
    qualname: str
    filename: str
    first_line: int
    flags: int
    argnames: tuple[str, ...]
    argcount: int
    posonlyargcount: int
    kwonlyargcount: int
    freevars: tuple[str, ...]
    cellvars: tuple[str, ...]
    docstring: object = UNSET
    localnames: tuple[str, ...] = ()

    @classmethod
    def of(cls, code: CodeType) -> Header:
        """The header of a code object."""
        arguments = argument_names(code)
        return cls(
            code.co_name,
            code.co_qualname,
            code.co_filename,
            code.co_firstlineno,
            code.co_flags,
            arguments,
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_freevars,
            code.co_cellvars,
            _docstring(code),
            code.co_varnames[len(arguments) :],
        )

    def empty(self) -> bytecode.Bytecode:
        """The bytecode library's form of this header, without ops."""
        result = bytecode.Bytecode()
        result.name = self.name
        result.qualname = self.qualname
        result.filename = self.filename
        result.first_lineno = self.first_line
        result.flags = bytecode.CompilerFlags(self.flags)
        result.argcount = self.argcount
        result.posonlyargcount = self.posonlyargcount
        result.kwonlyargcount = self.kwonlyargcount
        result.freevars = list(self.freevars)
        result.cellvars = list(self.cellvars)
        # The library gives slots to these names first, and takes the number of parameters from the
        # counts.
        result.argnames = [*self.argnames, *self.localnames]
        # The first constant, if a str, is the docstring: None keeps others from its place.
        result.docstring = None if self.docstring is UNSET else self.docstring  # type: ignore[assignment]
        return result


def _docstring(code: CodeType) -> object:
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) else UNSET
