"""Instruction sequences for calling a constant, the same on every supported version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from bytecode.instr import UNSET, CellVar, FreeVar, InstrLocation

from graphmend_bc.code import facts
from graphmend_bc.code.assemble import Emit, Label
from graphmend_bc.code.listing import Op
from graphmend_bc.runtime.site import Site

CLOSURE_FLAG = 0x08


def site_of_op(code: CodeType, op: Op) -> Site:
    """The place of an op in the user's code.

    Args:
        code: the code object that holds it.
        op: one of its ops.
    """
    line = op.location.lineno if op.location is not None else None
    return Site.of(code, op.name, op.offset, line)


@dataclass(frozen=True, slots=True)
class CallWriter:
    """Makes instructions that stand for one original op: same position, same exception handler.

    Attributes:
        op: the op the instructions stand for.
        handler: label of the handler that covers them, and whether it wants the last instruction.
    """

    op: Op
    handler: tuple[Label, bool] | None

    def emit(self, name: str, arg: Any = UNSET, label: Label | None = None) -> Emit:
        location: InstrLocation | None = self.op.location
        return Emit(name, arg, label, self.handler, location, self.op.offset)

    def callable_under_top(self, constant: object) -> list[Emit]:
        """[..., x] becomes [..., constant ready to be called with first argument x]."""
        constant_op, null = self.emit("LOAD_CONST", constant), self.emit("PUSH_NULL")
        pair = [constant_op, null] if facts.NULL_BEFORE_CALLABLE else [null, constant_op]
        return [*pair, self.emit("SWAP", 3)]

    def call(self, count: int) -> list[Emit]:
        """Call with `count` positional arguments."""
        precall = [self.emit("PRECALL", count)] if facts.CALL_NEEDS_PRECALL else []
        return [*precall, self.emit("CALL", count)]

    def as_callee(self) -> list[Emit]:
        """[..., f] becomes [..., f ready to be called]."""
        swap = [self.emit("SWAP", 2)] if facts.NULL_BEFORE_CALLABLE else []
        return [self.emit("PUSH_NULL"), *swap]

    def make_function(self, code: CodeType, cells: Sequence[CellVar | FreeVar]) -> list[Emit]:
        """Push a function of `code`, closed over `cells` of the running frame."""
        closure = [self.emit(facts.LOAD_CLOSURE, cell) for cell in cells]
        if not cells:
            make = [self.emit("MAKE_FUNCTION", 0 if facts.MAKE_FUNCTION_TAKES_FLAGS else UNSET)]
        elif facts.MAKE_FUNCTION_TAKES_FLAGS:
            make = [self.emit("MAKE_FUNCTION", CLOSURE_FLAG)]
        else:
            make = [self.emit("MAKE_FUNCTION"), self.emit("SET_FUNCTION_ATTRIBUTE", CLOSURE_FLAG)]
        build = [self.emit("BUILD_TUPLE", len(cells))] if cells else []
        return [*closure, *build, self.emit("LOAD_CONST", code), *make]

    def load_all(self, names: Sequence[str]) -> list[Emit]:
        return [self.emit("LOAD_FAST", name) for name in names]

    def store_all(self, names: Sequence[str]) -> list[Emit]:
        return [self.emit("STORE_FAST", name) for name in names]
