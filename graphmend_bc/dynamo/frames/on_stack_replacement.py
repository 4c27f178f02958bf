"""A translator goes on in a rewritten form of the code that it traces.

Rewriting keeps the meaning, and the form that is traced so far is the same up to the instruction in
question. So the variables and the operand stack are those that the new form has there, and the
trace goes on in it: it need not start again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType
from typing import Any

from torch._dynamo.bytecode_analysis import get_indexof, propagate_line_nums
from torch._dynamo.bytecode_transformation import (
    Instruction,
    cleaned_instructions,
    get_code_keys,
)
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.code.analysis.liveness import live_before
from graphmend_bc.code.analysis.stack import depth_before
from graphmend_bc.dynamo.frames.breaks import offset_of, real_offsets
from graphmend_bc.rewriting.origin import origin_of
from graphmend_bc.runtime import identity_of


class NotReplaceable(Exception):
    """A plan was made for an instruction, and the running trace cannot go on in the new form."""


class GoesOnOtherwise(Exception):
    """What was planned for an instruction was refused, and the trace goes on in another form there.

    Args:
        code: the other form.
        condition: what was on top of the operand stack there.
    """

    def __init__(self, code: CodeType, condition: VariableTracker) -> None:
        super().__init__()
        self.code = code
        self.condition = condition


def go_on_in(tx: InstructionTranslatorBase, code: CodeType) -> None:
    """Let a translator go on in another form of its code, at the instruction it is about to trace.

    Args:
        tx: it; its current instruction was begun, but nothing of it was done.
        code: the other form.

    Raises:
        NotReplaceable: the new form has no such place.

    Example:
        A jump on a tensor becomes the call of a `Branch`: its condition is on the stack already.
    """
    place = offset_of(tx, tx.current_instruction)
    if place is None:
        raise NotReplaceable
    _go_on_at(tx, code, place)


def go_back_to(tx: InstructionTranslatorBase, otherwise: GoesOnOtherwise) -> None:
    """Let a translator go on where it came by an instruction whose rewritten form is refused.

    Args:
        tx: it; the call of the primitive has taken its operands off the stack.
        otherwise: the other form, and what the instruction asks.

    Raises:
        NotReplaceable: the new form has no such place.
    """
    place = offset_of(tx, tx.current_instruction)
    origin = origin_of(tx.f_code)
    real = None if origin is None or place is None else origin.offsets.get(place)
    if real is None:
        raise NotReplaceable
    start = _only(_starts(tx.f_code).get(real, []))
    old = graph_of(tx.f_code)
    if depth_before(old, old.listing.at_offset(start).index) != len(tx.stack) + 1:
        raise NotReplaceable
    tx.push(otherwise.condition)
    _go_on_at(tx, otherwise.code, start)


def _go_on_at(tx: InstructionTranslatorBase, code: CodeType, place: int) -> None:
    if getattr(tx, "_comprehension_end_for_ips", None):
        raise NotReplaceable
    forms = _Forms(tx.f_code, code)
    offset = forms.counterpart(place)
    _check_state(tx.f_code, place, code, offset)
    instructions = cleaned_instructions(code)
    propagate_line_nums(instructions)
    at = {inst.offset: inst for inst in instructions}
    theirs = {real: dynamos for dynamos, real in real_offsets(code).items()}

    def counterpart(inst: Instruction) -> Instruction:
        known = offset_of(tx, inst)
        if known is None:
            raise NotReplaceable
        return at[theirs[forms.counterpart(known)]]

    blocks = [
        (block, counterpart(block.inst), block.target and counterpart(block.target))
        for block in tx.block_stack
    ]
    for block, inst, target in blocks:
        block.inst, block.target = inst, target
    _exchange_code(tx, code, instructions)
    tx.instruction_pointer = tx.start_point = tx.indexof[at[theirs[offset]]]


def _starts(code: CodeType) -> dict[int, list[int]]:
    """Where each of the user's instructions begins in a form of its code."""
    origin = origin_of(code)
    found: dict[int, list[int]] = {}
    last = None
    for op in graph_of(code).listing.ops:
        real = op.offset if origin is None else origin.offsets.get(op.offset)
        if real is not None and real != last:
            found.setdefault(real, []).append(op.offset)
        last = real
    return found


def _only(starts: list[int]) -> int:
    if len(starts) != 1:
        raise NotReplaceable  # it is not there, or was written twice
    return starts[0]


class _Forms:
    """Two forms of a function: where an instruction of the first is in the second."""

    def __init__(self, before: CodeType, after: CodeType) -> None:
        old, new = origin_of(before), origin_of(after)
        originals = [before if old is None else old.code, after if new is None else new.code]
        if identity_of(originals[0]) != identity_of(originals[1]):
            raise NotReplaceable
        self.origins: Mapping[int, int] | None = None if old is None else old.offsets
        self.starts = _starts(after)

    def counterpart(self, offset: int) -> int:
        """The offset in the second form of an instruction of the first.

        Raises:
            NotReplaceable: it is not there, or was written twice.
        """
        real = offset if self.origins is None else self.origins.get(offset)
        return _only([] if real is None else self.starts.get(real, []))


def _check_state(before: CodeType, place: int, after: CodeType, offset: int) -> None:
    """The variables and the operand stack are all that the new form needs there.

    Raises:
        NotReplaceable: they are not.
    """
    old, new = graph_of(before), graph_of(after)
    was, now = old.listing.at_offset(place).index, new.listing.at_offset(offset).index
    names = {*before.co_varnames, *before.co_cellvars, *before.co_freevars}
    cells = [sorted((*code.co_cellvars, *code.co_freevars)) for code in (before, after)]
    same_depth = depth_before(old, was) == depth_before(new, now)
    if not same_depth or cells[0] != cells[1] or not live_before(new, now) <= names:
        raise NotReplaceable


def _exchange_code(
    tx: InstructionTranslatorBase, code: CodeType, instructions: list[Instruction]
) -> None:
    """Let a translator hold the new form; what it makes may name all that it names."""
    options: Any = {name: getattr(code, name) for name in get_code_keys()}
    if tx is tx.output.root_tx:
        known: Any = tx.output.code_options
        # Instructions that are taken over as they are name constants by their number.
        known["co_consts"] = options["co_consts"]
        for name in ("co_names", "co_varnames"):
            known[name] = tuple(dict.fromkeys((*options[name], *known[name])))
    tx.f_code, tx.code_options = code, options
    tx.instructions, tx.indexof = instructions, get_indexof(instructions)
    tx._constants_cache = [None] * len(code.co_consts)
    tx.__dict__.pop("_cell_and_freevars", None)
