"""Whether a call stands where a function only ends, so that it may be made last."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CodeType

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.code.analysis.tail import hands_out, tail_of
from graphmend_bc.code.listing import Op
from graphmend_bc.dynamo.calls.cached_calls import is_cached
from graphmend_bc.dynamo.deferral.exception_handlers import is_handled
from graphmend_bc.dynamo.frames.breaks import instruction_of
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.origin import original_place


def check_may_be_last(tx: InstructionTranslatorBase, compilation: Compilation) -> None:
    """Refuse a call that cannot be made at the end, whatever follows it.

    Args:
        tx: translator of the frame that makes it.
        compilation: what is being compiled.

    Raises:
        Refused: it depends on a condition, say.
    """
    check_is_outermost(tx)
    check_no_function_mode(tx)
    if is_cached(compilation.trace):
        raise Refused("effect-in-cache")
    if tx.export or compilation.is_saved:
        raise Refused("under-export")
    if compilation.trace.arms or compilation.trace.predicates:
        raise Refused("call-not-last", "It depends on a condition.")


def is_last(
    tx: InstructionTranslatorBase,
    tail: tuple[Op, ...],
    is_made: Callable[[InstructionTranslatorBase, str], bool],
    *,
    moves: bool = False,
) -> bool:
    """Whether all frames only hand out what they have.

    Args:
        tx: translator of the innermost frame.
        tail: what is left of its code; that of the others comes after their calls.
        is_made: whether a local variable holds a tensor that may be read; see `hands_out`.
        moves: as there.

    Raises:
        Refused: something stands around a call.
    """
    frame: InstructionTranslatorBase | None = tx
    is_guarded = is_handled(tx)
    while frame is not None:
        if is_guarded or frame.block_stack:
            raise Refused("call-not-last", "A 'with' or 'try' block stands around the call.")
        left = tail if frame is tx else tail_after(frame)
        if not hands_out(left, partial(is_made, frame), moves=moves):
            return False
        frame = frame.parent
    return True


def tail_after(frame: InstructionTranslatorBase) -> tuple[Op, ...]:
    """What is left of the user's code that a translator traces, after its instruction.

    Args:
        frame: the translator.

    Returns:
        Empty if that is not known; see `tail_of`.
    """
    if (written := written_at(frame)) is None:
        return ()
    code, offset = written
    listing = graph_of(code).listing
    return tail_of(listing, listing.at_offset(offset).index)


def written_at(frame: InstructionTranslatorBase) -> tuple[CodeType, int] | None:
    """The code that the program's author wrote, and where in it a translator is.

    Args:
        frame: the translator.

    Returns:
        None if that is not known.
    """
    place = instruction_of(frame)
    code, offset = (None, -1) if place is None else original_place(*place)
    return None if code is None or offset < 0 else (code, offset)


def is_made(frame: InstructionTranslatorBase, name: str) -> bool:
    """Whether a local variable holds a tensor that was not there before the frame.

    Args:
        frame: translator of the frame that has the variable.
        name: of the variable.
    """
    value = frame.symbolic_locals.get(name)
    value = None if value is None else value.realize()
    return type(value) is TensorVariable and value.source is None
