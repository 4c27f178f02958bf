"""The functions that a code object is written as: where each begins and ends, how it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from inspect import CO_NESTED, CO_NEWLOCALS, CO_OPTIMIZED
from types import CodeType

from bytecode.instr import CellVar, FreeVar

from graphmend_bc.code.analysis.blocks import EXIT, Graph
from graphmend_bc.code.assemble import Assembled, Emit, Header, Label, assemble
from graphmend_bc.code.listing import Op
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.calls import CallWriter, site_of_op
from graphmend_bc.rewriting.origin import with_origin
from graphmend_bc.rewriting.plan import Plan
from graphmend_bc.runtime import Site

GROWTH_LIMIT = 20_000
"""Most instructions that one rewritten code object and its arms may have together."""

NOWHERE = object()
"""Handler of an arm whose branch stands outside every try block."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The function being written: the whole original, or an arm of it.

    Attributes:
        entry: block it starts with.
        stop: block where it ends by giving back its live-outs, or EXIT.
        leave: where jumps to `stop` go.
        outer: handler that stays with the caller.
        test: block that ends one round of a loop with its condition, or EXIT.
    """

    entry: int
    stop: int = EXIT
    leave: Label = field(default_factory=Label)
    outer: object = None
    test: int = EXIT
    labels: dict[int, Label] = field(default_factory=dict)

    def label(self, block: int) -> Label:
        """The label of a block; that of the end for the block where the function ends."""
        if block == self.stop:
            return self.leave
        return self.labels.setdefault(block, Label())


class FunctionWriter:
    """Makes the code objects of one rewrite.

    Args:
        graph: blocks of the original code.
        plan: what is to be rewritten.
    """

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph = graph
        self.listing = graph.listing
        self.plan = plan
        self.parts: list[Assembled] = []
        self.size = 0

    def scoped(self, scope: Scope, arg: object) -> object:
        """Inside an arm every cell of the function is a free variable."""
        if scope.outer is None and scope.entry == 0:
            return arg
        return FreeVar(arg.name) if isinstance(arg, CellVar) else arg

    def writer_at(self, scope: Scope, op: Op) -> CallWriter:
        """For instructions that stand for an op, in a function."""
        if op.handler is None or op.handler == scope.outer:
            return CallWriter(op, None)
        label = scope.label(self.graph.block_of(op.handler.target).index)
        if scope.outer is None:  # an arm has not what lies below it on the operand stack
            label.depth = op.handler.depth
        return CallWriter(op, (label, op.handler.push_lasti))

    def site_of(self, op: Op) -> Site:
        """The op's place in the user's code."""
        return site_of_op(self.listing.code, op)

    def assembled(
        self, header: Header, items: Sequence[Emit | Label], *, is_arm: bool = False
    ) -> CodeType:
        """The code object of a function, which is noted as a part of the result.

        Raises:
            Refused: all of them together would be too large.
        """
        self.size += len(items)
        if self.size > GROWTH_LIMIT:
            raise Refused("code-growth", f"The limit is {GROWTH_LIMIT} instructions.")
        part = with_origin(assemble(header, items), self.listing.code, is_arm=is_arm)
        self.parts.append(part)
        return part.code

    def function_of(
        self,
        scope: Scope,
        body: Sequence[Emit | Label],
        parameters: Sequence[str],
        writer: CallWriter,
    ) -> list[Emit]:
        """Push a function, closed over the cells that its body names.

        Args:
            scope: of the function in which it is made.
            body: its instructions.
            parameters: its parameters.
            writer: for the instructions that make it.
        """
        free = tuple(
            sorted(
                {
                    emit.arg.name
                    for emit in body
                    if isinstance(emit, Emit) and isinstance(emit.arg, FreeVar)
                }
            )
        )
        plain = replace(writer, handler=None)
        prologue = [plain.emit("COPY_FREE_VARS", len(free))] if free else []
        prologue.append(plain.emit("RESUME", 0))
        header = replace(
            Header.of(self.listing.code),
            flags=CO_OPTIMIZED | CO_NEWLOCALS | CO_NESTED,
            argnames=tuple(parameters),
            argcount=len(parameters),
            posonlyargcount=0,
            kwonlyargcount=0,
            freevars=free,
            cellvars=(),
        )
        code = self.assembled(header, [*prologue, *body], is_arm=True)
        cells = [self.scoped(scope, self.variable(name)) for name in free]
        return writer.make_function(code, cells)  # type: ignore[arg-type]

    def variable(self, name: str) -> CellVar | FreeVar:
        """A cell of the original code, by name."""
        return CellVar(name) if name in self.listing.code.co_cellvars else FreeVar(name)
