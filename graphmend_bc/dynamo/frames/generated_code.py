"""What the frames of a compiled region are, and why Dynamo broke its graphs where it did."""

from __future__ import annotations

import contextlib
import dis
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from types import CodeType

import torch
import torch._dynamo
from torch._dynamo import convert_frame, utils
from torch._dynamo.resume_execution import ContinueExecutionCache

from graphmend_bc.code.resume_names import is_resumed, without_resumption


class CodeKind(Enum):
    """What a code object is inside a compiled region.

    Attributes:
        EAGER: a program's code, or a library's.
        GENERATED: what Dynamo made of a frame; it calls graphs and the code between them.
        COMPILER: Dynamo compiling a frame, with all that it calls.
        WRAPPER: calls a graph if the function has `GRAPH_MARK`, something else if not.
        PLUMBING: code of the compilers or ours around these, and what guards call: not worth a
            line of its own.
    """

    EAGER = auto()
    GENERATED = auto()
    COMPILER = auto()
    WRAPPER = auto()
    PLUMBING = auto()


#: The attribute, and its value, by which Dynamo marks the wrapper of a graph.
GRAPH_MARK = ("_torchdynamo_disable_msg", "do not trace Dynamo-compiled graph")

OURS = str(Path(__file__).parents[2]) + os.sep
"""What the names of this library's own files begin with."""

TORCH = os.path.dirname(torch.__file__) + os.sep
"""What the names of torch's own files begin with."""
_PLUMBING = (
    OURS,
    *(TORCH + name + os.sep for name in ("_dynamo", "_functorch", "_inductor", "compiler", "fx")),
    *(TORCH + name for name in ("_compile.py", os.path.join("utils", "_pytree.py"))),
    contextlib.__file__,
    "<eval_with_key>",  # what torch.fx made of a graph, such as one that guards compute
)
_MADE_FROM_TEXT = ("___make_guard_fn.", "__create_fn__.")
"""Begins the names of functions that Dynamo makes of guards, and Python of the fields of data."""

_AROUND_GUARDS = (random.Random.getstate.__code__, random.Random.setstate.__code__)
"""Called by Dynamo, from C, so that what guards call does not change what is drawn."""

_GRAPH = "__compiled_fn_"
_RESUMPTION = "__resume_at_"


def _nothing() -> None:
    """Given to `torch._dynamo.disable`, for the code object of what it returns."""


_WRAPPERS = tuple(
    wrapper.__code__
    for wrapper in (
        torch._dynamo.disable(_nothing),  # type: ignore[no-untyped-call]
        torch._dynamo.disable(_nothing, recursive=False),  # type: ignore[no-untyped-call]
    )
    if wrapper.__code__ is not _nothing.__code__
)


def kind_of(code: CodeType) -> CodeKind:
    """Tell what a code object is inside a compiled region.

    Args:
        code: the code object of a frame.

    Returns:
        Its kind.
    """
    if graphs_in(code) or any(_is_resumption(value) for value in (*code.co_names, *code.co_consts)):
        return CodeKind.GENERATED
    if any(code is wrapper for wrapper in _WRAPPERS):
        return CodeKind.WRAPPER
    if code.co_filename == convert_frame.__file__:
        return CodeKind.COMPILER
    return CodeKind.PLUMBING if _is_plumbing(code) else CodeKind.EAGER


def graphs_in(code: CodeType) -> list[str]:
    """The globals by which generated code calls its graphs.

    Args:
        code: any code object; of the user's there are none.
    """
    return [name for name in code.co_names if name.startswith(_GRAPH)]


def _is_plumbing(code: CodeType) -> bool:
    is_made = code.co_filename == "<string>" and code.co_qualname.startswith(_MADE_FROM_TEXT)
    return is_made or code in _AROUND_GUARDS or code.co_filename.startswith(_PLUMBING)


def user_name(code: CodeType) -> str:
    """The qualified name of the user's function that a code object belongs to.

    Args:
        code: a code object of the user's or of Dynamo's making.

    Returns:
        Its qualified name without what Dynamo adds to that of a resumed function.
    """
    return without_resumption(code.co_qualname)


def resumed(code: CodeType) -> CodeType | None:
    """The code object that a resume function goes on with; None for any other code.

    Args:
        code: the code object of a frame.
    """
    metadata = ContinueExecutionCache.generated_code_metadata.get(code)
    return None if metadata is None else metadata.code


def as_the_users(code: CodeType) -> CodeType:
    """The same code under the name that the user's function has.

    Args:
        code: the user's, or that of a resumed part of the user's.
    """
    name, qualname = map(without_resumption, (code.co_name, code.co_qualname))
    return code if name == code.co_name else code.replace(co_name=name, co_qualname=qualname)


def line_of_break(code: CodeType) -> int | None:
    """The line of the user's at which generated code leaves its graph.

    Args:
        code: code that Dynamo generated.

    Returns:
        The line, 0 if the line table was stripped; None if the code runs to the end of the
        user's function.
    """
    line = 0
    for instruction in dis.get_instructions(code):
        if instruction.positions is not None and instruction.positions.lineno is not None:
            line = instruction.positions.lineno
        if _is_resumption(instruction.argval):
            return line
    return None


def _is_resumption(value: object) -> bool:
    """Whether generated code goes on with the user's function by this name or code object."""
    if isinstance(value, CodeType):  # of a function with free variables
        return is_resumed(value.co_name)
    return isinstance(value, str) and value.startswith(_RESUMPTION)


@dataclass(frozen=True, slots=True)
class BreakReason:
    """Why Dynamo broke a graph.

    Attributes:
        filename, lineno: where the break is in the frame that was being compiled.
        inner: where it is in the innermost frame, as (filename, line).
        reason: Dynamo's words, first line.
    """

    filename: str
    lineno: int
    inner: tuple[str, int]
    reason: str


def break_reasons() -> Sequence[BreakReason]:
    """All graph breaks since Dynamo was last reset, oldest first."""
    return [
        BreakReason(
            filename=found.user_stack[0].filename,
            lineno=found.user_stack[0].lineno or 0,
            inner=(found.user_stack[-1].filename, found.user_stack[-1].lineno or 0),
            reason=found.reason.strip().split("\n", 1)[0],
        )
        for found in list(utils.graph_break_reasons)
        if found.user_stack
    ]
