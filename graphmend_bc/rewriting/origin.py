"""Where a rewritten code object comes from: it says so itself, in a constant."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import CodeType

from graphmend_bc.code.assemble import Assembled


@dataclass(slots=True, eq=False)
class Origin:
    """A constant that no instruction uses.

    The original lives as long as the rewritten code does, on a stack or in a function that resumes
    it, and no longer: nothing else needs to know of the two.

    Attributes:
        code: the original code object.
        offsets: its offset for those of the rewritten code.
        is_arm: whether the rewritten code is a function of some of the original's instructions.
        written: the rewritten code object; what is made of that may have the same constants.
    """

    code: CodeType
    offsets: Mapping[int, int]
    is_arm: bool = False
    written: weakref.ref[CodeType] | None = None


def with_origin(part: Assembled, code: CodeType, *, is_arm: bool = False) -> Assembled:
    """A part of a rewrite that says where it comes from.

    Args:
        part: the new code object.
        code: the original one.
        is_arm: whether it holds some of its instructions only, and returns something else.
    """
    origin = Origin(code, part.origins, is_arm)
    written = part.code.replace(co_consts=(*part.code.co_consts, origin))
    origin.written = weakref.ref(written)
    return replace(part, code=written)


def origin_of(code: CodeType) -> Origin | None:
    """Where a code object comes from; None if it was not written here."""
    origins = (constant for constant in reversed(code.co_consts) if isinstance(constant, Origin))
    return next((o for o in origins if o.written is not None and o.written() is code), None)


def original_place(code: CodeType, offset: int) -> tuple[CodeType, int]:
    """The user's code object and offset behind an instruction of any code object; -1 for none."""
    origin = origin_of(code)
    return (code, offset) if origin is None else (origin.code, origin.offsets.get(offset, -1))
