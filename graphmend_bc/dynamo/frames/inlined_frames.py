"""Where in the program a trace is: the frames that are being inlined, outermost first."""

from __future__ import annotations

from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE
from types import CodeType

from torch._dynamo.bytecode_transformation import Instruction
from torch._dynamo.symbolic_convert import InstructionTranslatorBase

from graphmend_bc.code.analysis.blocks import Block, graph_of
from graphmend_bc.code.analysis.dominators import postdominates
from graphmend_bc.code.analysis.producers import returns_none
from graphmend_bc.dynamo.frames.breaks import offset_of, translators

Place = tuple[CodeType, Instruction]
"""A form of a frame's code, which a translator may leave for another, and an instruction of it."""

InlinedFrames = tuple[tuple[InstructionTranslatorBase, Place], ...]
"""The frames with the place that each of them is at."""


def frames_of(tx: InstructionTranslatorBase) -> InlinedFrames:
    """Where a trace is.

    Args:
        tx: the innermost translator.
    """
    found = []
    translator: InstructionTranslatorBase | None = tx
    while translator is not None:
        found.append((translator, _place(translator)))
        translator = translator.parent
    return tuple(reversed(found))


def frames_at(error: BaseException) -> InlinedFrames:
    """Where a trace was when it ended.

    Args:
        error: what it ended with.
    """
    return tuple((t, _place(t)) for t in translators(error.__traceback__))


def _place(translator: InstructionTranslatorBase) -> Place:
    return translator.f_code, translator.current_instruction


def is_passed_anyway(before: InlinedFrames, after: InlinedFrames) -> bool:
    """True if a place is passed on every way that leads on from an earlier one.

    A function that has returned by then says with its value which way it took, and with nothing
    else: what it changed is not looked at.

    Args:
        before: the earlier place, such as a branch.
        after: a later one of the same trace.
    """
    known = dict(before)
    common = [(known[t], t, place) for t, place in after if t in known]
    if not common:
        return False
    left = [t for t, _ in before if t not in dict(after)]
    if any(returns_none(graph_of(t.f_code)) for t in left):
        return True
    (code, earlier), translator, (form, later) = common[-1]
    if earlier is later or code is not form:
        return False
    start, end = (_block(translator, instruction) for instruction in (earlier, later))
    if start is None or end is None:
        return False
    return postdominates(graph_of(code), end.index, start.index)


def _block(translator: InstructionTranslatorBase, instruction: Instruction) -> Block | None:
    offset = offset_of(translator, instruction)
    if offset is None:
        return None
    graph = graph_of(translator.f_code)
    return graph.block_of(graph.listing.at_offset(offset).index)


def is_in_coroutine(parent: InstructionTranslatorBase | None, code: CodeType) -> bool:
    """True for what is called inside a coroutine that is inlined.

    Dynamo takes what it returns for what calling it gives. A break keeps that from being seen.
    """
    while parent is not None and not code.co_flags & _COROUTINES:
        code, parent = parent.f_code, getattr(parent, "parent", None)
    return bool(code.co_flags & _COROUTINES)


_COROUTINES = CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR
