"""After a graph break, Python goes on with the program's own code, not with a rewritten form of it.

Rewriting keeps the meaning, so the variables and the operand stack are the same at an instruction
of both. What goes on after the break gets a plan of its own, and what is declined there is the
program's own code again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from torch._dynamo.bytecode_transformation import Instruction

from graphmend_bc.code.analysis.blocks import Graph, graph_of
from graphmend_bc.code.analysis.liveness import live_before
from graphmend_bc.code.analysis.stack import depth_before
from graphmend_bc.code.facts import JUMPS_IF_FALSE, JUMPS_IF_TRUE
from graphmend_bc.dynamo.frames.breaks import real_offsets
from graphmend_bc.rewriting.origin import Origin, origin_of

_NULLS = 4
"""Which of the arguments of `lookup` after `argnames_null` says where NULL is on the stack."""


def resume_in_original(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`ContinueExecutionCache.lookup`: makes the code object of a resume function."""

    def lookup(
        code: CodeType,
        lineno: int,
        init_offset: int,
        resume_offset: int,
        targets: tuple[int, ...],
        nstack: int,
        argnames: tuple[str, ...],
        *rest: Any,
    ) -> Any:
        offsets = (init_offset, resume_offset, *targets)
        depth = nstack + len(rest[_NULLS + 1])
        found = _in_original(code, offsets, depth, argnames)
        if found is not None:
            code, (init_offset, resume_offset, *handlers) = found
            targets = tuple(handlers)
        return stock(code, lineno, init_offset, resume_offset, targets, nstack, argnames, *rest)

    return lookup


def keeping_lines(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`transform_code_object`, where a resume function is made of the code that broke.

    Stock leaves what stands before the break without a line, which a table of Python 3.10 could not
    hold. In a loop it runs again: a log record or a traceback would name a wrong line.
    """

    def transform_code_object(code: CodeType, transform: Callable[..., Any], *rest: Any) -> Any:
        def keep_lines(instructions: list[Instruction], options: dict[str, Any]) -> Any:
            known = [(each, each.positions, each.starts_line) for each in instructions]
            result = transform(instructions, options)
            for each, positions, line in known:
                each.positions, each.starts_line = positions, line
            return result

        return stock(code, keep_lines, *rest)

    return transform_code_object


def _in_original(
    code: CodeType, offsets: Sequence[int], depth: int, names: Sequence[str]
) -> tuple[CodeType, list[int]] | None:
    """The program's code object, with the offsets of the same instructions in it.

    Args:
        code: what was traced.
        offsets: Dynamo's, of the break, of the instruction after it, and of handlers.
        depth: of the operand stack.
        names: the locals that are handed over.

    Returns:
        None if nothing was rewritten, or if Python cannot go on there in the program's code: in
        an arm that is a frame of its own, for one.
    """
    origin = origin_of(code)
    if origin is None or origin.is_arm:
        return None  # an arm returns what is live after it, not what the program's function does
    original, theirs = origin.code, real_offsets(code)
    written = [theirs.get(offset, -1) for offset in offsets]
    real = [origin.offsets.get(offset, -1) for offset in written]
    real[0] = real[1] if real[0] < 0 else real[0]
    if min(real) < 0 or _cells(original) != _cells(code):
        return None
    graph = graph_of(original)
    if not all(_is_same(origin, graph_of(code), graph, offset) for offset in written[1:]):
        return None
    place = graph.listing.at_offset(real[1]).index
    if depth_before(graph, place) != depth or not live_before(graph, place) <= {*names}:
        return None
    parts, ours = _parts(code), {part: dynamos for dynamos, part in _parts(original).items()}
    numbers = [parts.get(offset, (0, 0))[1] for offset in offsets]
    found = [ours.get(part) for part in zip(real, numbers, strict=True)]
    return (original, [o for o in found if o is not None]) if None not in found else None


def _parts(code: CodeType) -> dict[int, tuple[int, int]]:
    """By Dynamo's offset: an instruction's own, and which it is of those that Dynamo makes of it.

    A slice is built first, and then used.
    """
    found: dict[int, tuple[int, int]] = {}
    counts = Counter[int]()
    for dynamos, offset in sorted(real_offsets(code).items()):
        found[dynamos] = (offset, counts[offset])
        counts[offset] += 1
    return found


def _is_same(origin: Origin, written: Graph, original: Graph, offset: int) -> bool:
    """Whether the program is as far at a written instruction as at the one that it comes from.

    Several may stand for one: before the first of them, nothing of it was done. The last one of a
    speculation is the jump, on a truth value instead of the condition.
    """
    real = origin.offsets[offset]
    first = min(new for new, old in origin.offsets.items() if old == real)
    name = written.listing.at_offset(offset).name
    is_jump = name in JUMPS_IF_TRUE | JUMPS_IF_FALSE
    return offset == first or (is_jump and name == original.listing.at_offset(real).name)


def _cells(code: CodeType) -> list[str]:
    return sorted((*code.co_cellvars, *code.co_freevars))
