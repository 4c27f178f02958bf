"""Write what becomes functions: the arms of branches, the rounds of loops, further conditions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from graphmend_bc.code.analysis.blocks import EXIT, Block
from graphmend_bc.code.assemble import Emit, Label
from graphmend_bc.code.listing import Op
from graphmend_bc.rewriting.calls import CallWriter
from graphmend_bc.rewriting.conditions.decision import Test, decision_at
from graphmend_bc.rewriting.lifting.arms import Arm, Lift, check_test
from graphmend_bc.rewriting.lifting.last_blocks import LastBlock, falls_through
from graphmend_bc.rewriting.lifting.rounds import Round
from graphmend_bc.rewriting.lifting.scope import NOWHERE, FunctionWriter, Scope
from graphmend_bc.rewriting.plan import LiftBranch, LiftLoop
from graphmend_bc.runtime import Both, Branch, Loop, Outlined

_CONDITION = "__gm_condition"
AGAIN = "__gm_again"
"""The variable that holds a round's condition."""


class LiftedFunctionWriter(FunctionWriter, ABC):
    """Writes calls of primitives with the functions that they are given."""

    @abstractmethod
    def write(self, scope: Scope) -> list[Emit | Label]:
        """The blocks of a function."""

    @abstractmethod
    def write_op(self, scope: Scope, op: Op) -> list[Emit]:
        """An op of a function."""

    def write_branch(self, scope: Scope, lifted: Lift, op: Op) -> list[Emit]:
        """A branch on the condition that is on the stack, its arms as functions."""
        writer = self.writer_at(scope, op)
        items: list[Emit] = []
        kept = lifted.when_true.kept or lifted.when_false.kept
        spilled = [f"__gm_slot_{i}" for i in range(lifted.stack_ins)]
        temporaries = [*spilled, _CONDITION] if kept or spilled else []
        items += writer.store_all(temporaries[::-1])
        items += writer.load_all([_CONDITION] if temporaries else [])
        asked = self.plan[op.offset]
        conditional = isinstance(asked, LiftBranch) and asked.conditional
        items += writer.callable_under_top(Branch(self.site_of(op), conditional))
        extra = [*spilled, *([_CONDITION] if kept else [])]
        parameters = [*lifted.live_ins, *extra]
        for arm in (lifted.when_true, lifted.when_false):
            items += self._make_arm(scope, lifted, arm, parameters, spilled, writer)
        items += writer.load_all(parameters)
        items += writer.call(3 + len(parameters))
        items += [writer.emit("DELETE_FAST", name) for name in temporaries]
        if lifted.join != EXIT:
            items.append(writer.emit("UNPACK_SEQUENCE", len(lifted.live_outs) + lifted.stack_outs))
            items += writer.store_all(lifted.live_outs)
        return items

    def write_condition(self, scope: Scope, block: Block) -> list[Emit]:
        """A block without its jump: the condition is left on the stack, short circuits merged."""
        ops = self.graph.ops(block)
        items = [
            emit
            for op in ops[:-1]
            if not _asks_truth(op, ops[-1])
            for emit in self.write_op(scope, op)
        ]
        tests = decision_at(self.graph, block).tests
        return items + self._write_tests(scope, block, tests)

    def write_loop(self, scope: Scope, found: Round, op: Op, place: Op) -> list[Emit]:
        """A loop for the jump `op`, written where `place` stands."""
        writer = replace(self.writer_at(scope, place), op=op)
        asked = self.plan[op.offset]
        is_entered = isinstance(asked, LiftLoop) and asked.entered
        loop = Loop(self.site_of(op), len(found.carried), found.enters, found.again, is_entered)
        inner = Scope(entry=found.header, test=found.test, outer=found.handler or NOWHERE)
        plain = replace(writer, handler=None)
        body = [
            *self.write(inner),
            inner.leave,
            *plain.load_all([AGAIN, *found.carried]),
            plain.emit("BUILD_TUPLE", 1 + len(found.carried)),
            plain.emit("RETURN_VALUE"),
        ]
        parameters = [*found.carried, *found.fixed]
        return [
            *writer.callable_under_top(loop),
            *self.function_of(scope, body, parameters, writer),
            *(
                writer.emit("LOAD_CONST", None) if name in found.unbound else load
                for name, load in zip(parameters, writer.load_all(parameters), strict=True)
            ),
            *writer.call(2 + len(parameters)),
            writer.emit("UNPACK_SEQUENCE", len(found.carried)),
            *writer.store_all(found.carried),
        ]

    def write_last_block(self, scope: Scope, found: LastBlock, offset: int) -> list[Emit]:
        """A `with` block as a function that is called, and what follows it.

        Args:
            scope: of the function that ends after it.
            found: the block.
            offset: of the call in it for which it is planned.
        """
        op = self.listing.at_offset(offset)
        writer = CallWriter(op, None)
        body = self._block_body(found, writer)
        return [
            *self.function_of(scope, body, found.live_ins, writer),
            *writer.callable_under_top(Outlined(self.site_of(op), self.plan[offset].rule)),
            *writer.load_all(found.live_ins),
            *writer.call(1 + len(found.live_ins)),
            writer.emit("POP_TOP"),
            *(emit for each in found.tail for emit in self.write_op(scope, each)),
        ]

    def _block_body(self, found: LastBlock, writer: CallWriter) -> list[Emit | Label]:
        inner = Scope(entry=self.graph.block_of(found.start).index, outer=NOWHERE)
        leave = [writer.emit("LOAD_CONST", None), writer.emit("RETURN_VALUE")]
        items: list[Emit | Label] = []
        for op in found.ops:
            block, at = self.graph.block_of(op.index), self.writer_at(inner, op)
            if block.start == op.index:
                items.append(inner.label(block.index))
            if op.target in found.ends:
                items.append(at.emit(op.name, label=inner.leave))
            elif op.target is not None:
                label = inner.label(self.graph.block_of(op.target).index)
                items.append(at.emit(op.name, label=label))
            else:
                items.append(at.emit(op.name, self.scoped(inner, op.arg)))
            if op.index + 1 in found.ends and falls_through(op):
                items += leave
        is_jumped_to = any(op.target in found.ends for op in found.ops)
        return [*items, inner.leave, *leave] if is_jumped_to else items

    def _write_tests(self, scope: Scope, branch: Block, tests: Iterable[Test]) -> list[Emit]:
        """Take the further conditions of a short circuit into the first one."""
        op = self.graph.last(branch)
        items: list[Emit] = []
        for test in tests:
            both = Both(self.site_of(op), test.first, test.second)
            items += self._write_test(scope, branch, self.graph.blocks[test.block], both)
        return items

    def _write_test(self, scope: Scope, branch: Block, block: Block, primitive: Both) -> list[Emit]:
        last, op = self.graph.last(block), self.graph.last(branch)
        writer = self.writer_at(scope, op)
        parameters = check_test(self.graph, branch, block)
        inner = Scope(entry=block.index, stop=block.index, outer=op.handler or NOWHERE)
        ops = self.listing.ops[block.start : block.stop - 1]
        body: list[Emit | Label] = [
            emit for op in ops if not _asks_truth(op, last) for emit in self.write_op(inner, op)
        ]
        body.append(self.writer_at(inner, last).emit("RETURN_VALUE"))
        return [
            *writer.callable_under_top(primitive),
            *self.function_of(scope, body, parameters, writer),
            *writer.load_all(parameters),
            *writer.call(2 + len(parameters)),
        ]

    def _make_arm(
        self,
        scope: Scope,
        lifted: Lift,
        arm: Arm,
        parameters: list[str],
        spilled: list[str],
        writer: CallWriter,
    ) -> list[Emit]:
        inner = Scope(entry=arm.entry, stop=lifted.join, outer=lifted.handler or NOWHERE)
        plain = replace(writer, handler=None)
        body: list[Emit | Label] = []
        body += plain.load_all([*spilled, *([_CONDITION] if arm.kept else [])])
        body += self.write(inner)
        if lifted.join != EXIT:
            body.append(inner.leave)
            results = [f"__gm_result_{i}" for i in range(lifted.stack_outs)]
            body += plain.store_all(results)
            body += plain.load_all([*lifted.live_outs, *results])
            body.append(plain.emit("BUILD_TUPLE", len(lifted.live_outs) + len(results)))
            body.append(plain.emit("RETURN_VALUE"))
        return self.function_of(scope, body, parameters, writer)


def _asks_truth(op: Op, jump: Op) -> bool:
    """True for the TO_BOOL in front of a jump: the primitive asks for the truth value itself."""
    return op.name == "TO_BOOL" and op.index == jump.index - 1
