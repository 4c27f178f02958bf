"""Write a code object anew, with the planned branches as `Branch` calls and callees marked.

The rewritten function keeps the original blocks, minus those that only a planned branch reached;
the arms become functions of their own, nested in the constants:

    before                      after
      <condition>                 Branch(site)(<condition>, arm1, arm2, live-ins...)
      jump if false -> O          unpack the live-outs
      X ...; jump -> J            jump -> J
    O: ...                      J: ...
    J: ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import CO_OPTIMIZED
from types import CodeType

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.blocks import EXIT, Block, Graph, graph_of
from graphmend_bc.code.assemble import Emit, Header, Label
from graphmend_bc.code.listing import Op
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.conditions.decision import Decision, decision_at
from graphmend_bc.rewriting.conditions.truth_guards import speculation_at, write_speculation
from graphmend_bc.rewriting.lifting.arms import lift
from graphmend_bc.rewriting.lifting.last_blocks import last_block_around
from graphmend_bc.rewriting.lifting.lifted_functions import AGAIN, LiftedFunctionWriter
from graphmend_bc.rewriting.lifting.rounds import Round, round_at, round_ended_by
from graphmend_bc.rewriting.lifting.scope import Scope
from graphmend_bc.rewriting.mark_callee import mark_of, marked_callees, write_marked
from graphmend_bc.rewriting.operands import write_marked_operands, write_operation
from graphmend_bc.rewriting.outline import outline_as_call
from graphmend_bc.rewriting.plan import (
    AskTruth,
    CallOperation,
    LiftBranch,
    LiftLoop,
    LiftRound,
    MarkCallee,
    MarkOperands,
    Outline,
    OutlineBlock,
    Plan,
    Rewrite,
)
from graphmend_bc.runtime import Speculate

_UNCONDITIONAL = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The result of a rewrite.

    Attributes:
        code: the new code object of the function.
        origins: for the new code object and each arm, the original offset of each new offset.
    """

    code: CodeType
    origins: tuple[tuple[CodeType, Mapping[int, int]], ...]


def rewrite(code: CodeType, plan: Plan) -> Rewritten:
    """Rewrite the planned sites of one code object.

    Args:
        code: a function's code object, as CPython compiled it.
        plan: which instructions; offsets into `code.co_code`.

    Returns:
        The new code. It has the same parameters, flags, free variables and positions, and the same
        meaning when CPython runs it.

    Raises:
        Refused: a planned site cannot be rewritten with the same meaning.

    Example:
        >>> rewrite((lambda x: x).__code__, Plan()).code.co_varnames
        ('x',)
    """
    if not code.co_flags & CO_OPTIMIZED:
        raise Refused("not-optimized-code")
    for offset, outline in plan.of_kind(Outline).items():
        parts = outline_as_call(code, offset, outline.rule)
        return Rewritten(parts[0].code, tuple((part.code, part.origins) for part in parts))
    return _Rewriter(graph_of(code), plan).run()


class _Rewriter(LiftedFunctionWriter):
    """Writes one code object, block by block."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        super().__init__(graph, plan)
        listing = self.listing
        marks = plan.of_kind(MarkCallee)
        self.marked = {
            **marked_callees(self.graph, [o for o, mark in marks.items() if mark.in_order]),
            **marked_callees(
                self.graph, [o for o, mark in marks.items() if not mark.in_order], in_order=False
            ),
        }
        ends = [self.graph.block_of(listing.at_offset(o).index) for o in plan.of_kind(LiftRound)]
        rounds = [round_ended_by(self.graph, end) for end in ends]
        self.rounds = {found.header: found for found in rounds}
        self.last_blocks = {
            (found := last_block_around(self.graph, offset)).start: (found, offset)
            for offset in plan.of_kind(OutlineBlock)
        }

    def run(self) -> Rewritten:
        items = self.write(Scope(entry=0))
        code = self.assembled(Header.of(self.listing.code), items)
        return Rewritten(code, tuple((part.code, part.origins) for part in self.parts))

    # Blocks

    def write(self, scope: Scope) -> list[Emit | Label]:
        order = self._order(scope)
        items: list[Emit | Label] = []
        for position, index in enumerate(order):
            following = order[position + 1] if position + 1 < len(order) else scope.stop
            items.append(scope.label(index))
            block = self.graph.blocks[index]
            if (start := self._last_block(block)) is not None:
                items += self._write_ending(scope, block, start)
                continue
            items += self._write_block(scope, block, following, set(order[: position + 1]))
        return items

    def _order(self, scope: Scope) -> list[int]:
        """Reachable blocks: the entry, then the others in order, so jumps keep direction."""
        seen: set[int] = set()
        work = [scope.entry]
        while work:
            index = work.pop()
            if index in seen or index in (scope.stop, EXIT):
                continue
            seen.add(index)
            block = self.graph.blocks[index]
            if index == scope.test or self._last_block(block) is not None:
                continue
            if (found := self._unguarded(scope, block)) is not None:
                work.append(found.exit)
            elif self._is_loop(block):
                work.append(round_at(self.graph, block).exit)
            elif self._is_planned(block):
                work.append(lift(self.graph, block).join)
            elif (decision := self._speculated_whole(block)) is not None:
                work += [decision.when_true, decision.when_false]
            else:
                work.extend(edge.target for edge in block.successors)
            if block.handler is not None and scope.outer is None:
                work.append(block.handler)
        # The test of a round comes last: where the loop begins with it, it is written once more.
        last = seen & {scope.test} - {scope.entry}
        return [scope.entry, *sorted(seen - {scope.entry} - last), *last] if seen else []

    def _unguarded(self, scope: Scope, block: Block) -> Round | None:
        """The planned loop without a guard that begins here, unless its round is being written."""
        found = self.rounds.get(block.index)
        return None if found is None or found.test == scope.test else found

    def _last_block(self, block: Block) -> int | None:
        """Where a `with` block begins, in a block of the graph, that is to be outlined."""
        starts = (start for start in self.last_blocks if block.start <= start < block.stop)
        return next(starts, None)

    def _write_ending(self, scope: Scope, block: Block, start: int) -> list[Emit]:
        """A block of the graph in which the `with` block begins after which the function ends."""
        if scope.outer is not None:
            raise Refused("call-not-last", "It depends on a condition.")
        before = self.listing.ops[block.start : start]
        items = [emit for op in before for emit in self.write_op(scope, op)]
        return [*items, *self.write_last_block(scope, *self.last_blocks[start])]

    def _is_loop(self, block: Block) -> bool:
        return self._plans(self.graph.last(block), LiftLoop)

    def _is_planned(self, block: Block) -> bool:
        return self._plans(self.graph.last(block), LiftBranch)

    def _plans(self, op: Op, kind: type[Rewrite]) -> bool:
        return isinstance(self.plan.get(op.offset), kind)

    def _write_block(
        self, scope: Scope, block: Block, following: int, written: set[int]
    ) -> list[Emit]:
        ops = self.listing.ops[block.start : block.stop]
        last = ops[-1]
        if block.index == scope.test:
            again = self.writer_at(scope, last).emit("STORE_FAST", AGAIN)
            leave = self.writer_at(scope, last).emit("JUMP_FORWARD", label=scope.leave)
            return [*self.write_condition(scope, block), again, leave]
        if (found := self._unguarded(scope, block)) is not None:
            end = self.graph.last(self.graph.blocks[found.test])
            enter = self.writer_at(scope, ops[0]).emit("LOAD_CONST", True)
            items = [enter, *self.write_loop(scope, found, end, ops[0])]
            return items + self._jump(scope, ops[0], found.exit, following, written)
        if self._is_loop(block):
            found = round_at(self.graph, block)
            items = [
                *self.write_condition(scope, block),
                *self.write_loop(scope, found, last, last),
            ]
            return items + self._jump(scope, last, found.exit, following, written)
        if self._is_planned(block):
            lifted = lift(self.graph, block)
            items = self.write_condition(scope, block)
            items += self.write_branch(scope, lifted, last)
            if lifted.join == EXIT:
                return [*items, self.writer_at(scope, last).emit("RETURN_VALUE")]
            return items + self._jump(scope, last, lifted.join, following, written)
        if (decision := self._speculated_whole(block)) is not None:
            return self._write_speculated(scope, block, decision, following, written)
        items = [emit for op in ops[:-1] for emit in self.write_op(scope, op)]
        if last.name in _UNCONDITIONAL:
            assert last.target is not None
            target = self.graph.block_of(last.target).index
            return items + self._jump(scope, last, target, following, written)
        items += self.write_op(scope, last)
        for edge in block.successors:
            if not edge.jump:
                items += self._jump(scope, last, edge.target, following, written)
        return items

    def _speculated_whole(self, block: Block) -> Decision | None:
        """The short circuit that a block begins, if it is to be speculated on as one condition."""
        if not self._plans(self.graph.last(block), AskTruth) or not block.successors[1:]:
            return None
        decision = decision_at(self.graph, block)
        tests = [self.graph.last(self.graph.blocks[test.block]) for test in decision.tests]
        alone = any(self._plans(test, AskTruth) for test in tests)
        return decision if tests and not alone else None

    def _write_speculated(
        self, scope: Scope, block: Block, decision: Decision, following: int, written: set[int]
    ) -> list[Emit]:
        last = self.graph.last(block)
        writer = self.writer_at(scope, last)
        items = self.write_condition(scope, block)
        speculation = self._speculation(last, alone=False)
        # A conditional jump may not go back, so the side that lies ahead is jumped to.
        name, target, other = facts.POP_JUMP_IF_FALSE, decision.when_false, decision.when_true
        if target in written:
            name, target, other = name.replace("FALSE", "TRUE"), other, target
        if target in written:
            raise Refused("unhandled-instruction", "Both ways of the condition lead back.")
        items += write_speculation(
            replace(last, name=name), speculation, writer, scope.label(target)
        )
        return items + self._jump(scope, last, other, following, written)

    def _speculation(self, op: Op, *, alone: bool) -> Speculate:
        """The primitive for a jump or a `not`, as it is planned."""
        found = speculation_at(self.graph, op, self.site_of(op), alone=alone)
        planned = self.plan.get(op.offset)
        guards = isinstance(planned, AskTruth) and planned.unbounded
        return replace(found, unbounded=True) if guards else found

    def _jump(
        self, scope: Scope, op: Op, target: int, following: int, written: set[int]
    ) -> list[Emit]:
        """Go to a block, unless it comes next anyway."""
        if target == following:
            return []
        name = "JUMP_BACKWARD" if target in written else "JUMP_FORWARD"
        return [self.writer_at(scope, op).emit(name, label=scope.label(target))]

    def write_op(self, scope: Scope, op: Op) -> list[Emit]:
        writer = self.writer_at(scope, op)
        if (call := self.marked.get(op.index)) is not None:
            mark = mark_of(self.graph, call, self.site_of(call), self.plan[call.offset])
            return write_marked(op, mark, writer)
        if op.name == "TO_BOOL" and self._plans(self.listing.ops[op.index + 1], AskTruth):
            return []
        rewrite = self.plan.get(op.offset)
        if isinstance(rewrite, AskTruth) and op.target is None:
            return write_speculation(op, self._speculation(op, alone=True), writer, None)
        if isinstance(rewrite, CallOperation):
            return write_operation(op, self.site_of(op), rewrite.rule, writer)
        if isinstance(rewrite, MarkOperands):
            return write_marked_operands(op, self.site_of(op), rewrite.rule, writer)
        if op.target is None:
            return [writer.emit(op.name, self.scoped(scope, op.arg))]
        label = scope.label(self.graph.block_of(op.target).index)
        name = op.name
        if scope.stop != EXIT and label is scope.leave:
            # The end of an arm lies ahead, wherever the join was.
            name = name.replace("BACKWARD", "FORWARD")
        if isinstance(rewrite, AskTruth):
            speculation = self._speculation(op, alone=True)
            return write_speculation(replace(op, name=name), speculation, writer, label)
        return [writer.emit(name, label=label)]
