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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import CO_NESTED, CO_NEWLOCALS, CO_OPTIMIZED
from types import CodeType

from bytecode.instr import CellVar, FreeVar

from graphmend_bc.code import facts
from graphmend_bc.code.assemble import Assembled, Emit, Header, Label, assemble
from graphmend_bc.code.blocks import EXIT, Block, Graph, graph_of
from graphmend_bc.code.listing import Op
from graphmend_bc.reasons import Refused
from graphmend_bc.rewriting.arms import Arm, Lift, check_test, lift
from graphmend_bc.rewriting.asking import ask_at, guess_at, write_guess
from graphmend_bc.rewriting.bounds import write_bounds
from graphmend_bc.rewriting.calls import Writer
from graphmend_bc.rewriting.decision import Decision, Test, decision_at
from graphmend_bc.rewriting.defer import marked_callees, write_marked
from graphmend_bc.rewriting.loops import Round, round_at, round_ended_by
from graphmend_bc.rewriting.plan import Plan
from graphmend_bc.rewriting.whole import as_one_call
from graphmend_bc.runtime import (
    Both,
    Bounds,
    Branch,
    Defer,
    Hoist,
    HoistItem,
    Known,
    Loop,
    Primitive,
    Require,
    Site,
)

GROWTH_LIMIT = 20_000
"""Most instructions that one rewritten code object and its arms may have together."""

_CONDITION = "__gm_condition"
_AGAIN = "__gm_again"
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
        >>> rewrite(f.__code__, Plan(branches=frozenset({18}))).code  # doctest: +SKIP
    """
    if not code.co_flags & CO_OPTIMIZED:
        raise Refused("not-optimized-code")
    if plan.draws:
        parts = as_one_call(code, min(plan.draws))
        return Rewritten(parts[0].code, tuple((part.code, part.origins) for part in parts))
    return _Rewriter(graph_of(code), plan).run()


@dataclass(frozen=True, slots=True)
class _Scope:
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
        if block == self.stop:
            return self.leave
        return self.labels.setdefault(block, Label())


class _Rewriter:
    """Writes one code object; a class because the arms it makes add to a common result."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph = graph
        self.listing = listing = graph.listing
        self.plan = plan
        calls = plan.effects | plan.asks | self._calls(plan)
        self.marked = {
            **marked_callees(self.graph, calls),
            **marked_callees(self.graph, plan.known, in_order=False),
        }
        ends = [self.graph.block_of(listing.at_offset(o).index) for o in plan.rounds]
        rounds = [round_ended_by(self.graph, end) for end in ends]
        self.rounds = {found.header: found for found in rounds}
        self.parts: list[Assembled] = []
        self.size = 0

    def _calls(self, plan: Plan) -> frozenset[int]:
        """The hoisted calls; other hoisted instructions are written otherwise."""
        at = self.graph.listing.at_offset
        return frozenset(o for o in plan.hoists if at(o).name != "BINARY_SUBSCR")

    def run(self) -> Rewritten:
        items = self._write(_Scope(entry=0))
        code = self._assemble(Header.of(self.listing.code), items)
        return Rewritten(code, tuple((part.code, part.origins) for part in self.parts))

    def _assemble(self, header: Header, items: Sequence[Emit | Label]) -> CodeType:
        self.size += len(items)
        if self.size > GROWTH_LIMIT:
            raise Refused("code-growth", f"The limit is {GROWTH_LIMIT} instructions.")
        part = assemble(header, items)
        self.parts.append(part)
        return part.code

    # Blocks

    def _write(self, scope: _Scope) -> list[Emit | Label]:
        order = self._order(scope)
        items: list[Emit | Label] = []
        for position, index in enumerate(order):
            following = order[position + 1] if position + 1 < len(order) else scope.stop
            items.append(scope.label(index))
            items += self._write_block(
                scope, self.graph.blocks[index], following, set(order[: position + 1])
            )
        return items

    def _order(self, scope: _Scope) -> list[int]:
        """Reachable blocks: the entry, then the others in order, so jumps keep direction."""
        seen: set[int] = set()
        work = [scope.entry]
        while work:
            index = work.pop()
            if index in seen or index in (scope.stop, EXIT):
                continue
            seen.add(index)
            block = self.graph.blocks[index]
            if index == scope.test:
                continue
            if (found := self._unguarded(scope, block)) is not None:
                work.append(found.exit)
            elif self._is_loop(block):
                work.append(round_at(self.graph, block).exit)
            elif self._is_planned(block):
                work.append(lift(self.graph, block).join)
            elif (decision := self._guessed_whole(block)) is not None:
                work += [decision.when_true, decision.when_false]
            else:
                work.extend(edge.target for edge in block.successors)
            if block.handler is not None and scope.outer is None:
                work.append(block.handler)
        return [scope.entry, *sorted(seen - {scope.entry})] if seen else []

    def _unguarded(self, scope: _Scope, block: Block) -> Round | None:
        """The planned loop without a guard that begins here, unless its round is being written."""
        found = self.rounds.get(block.index)
        return None if found is None or found.test == scope.test else found

    def _is_loop(self, block: Block) -> bool:
        return self.graph.last(block).offset in self.plan.loops

    def _is_planned(self, block: Block) -> bool:
        return self.graph.last(block).offset in self.plan.branches

    def _write_block(
        self, scope: _Scope, block: Block, following: int, written: set[int]
    ) -> list[Emit]:
        ops = self.listing.ops[block.start : block.stop]
        last = ops[-1]
        if block.index == scope.test:
            again = self._writer(scope, last).emit("STORE_FAST", _AGAIN)
            leave = self._writer(scope, last).emit("JUMP_FORWARD", label=scope.leave)
            return [*self._write_condition(scope, block), again, leave]
        if (found := self._unguarded(scope, block)) is not None:
            end = self.graph.last(self.graph.blocks[found.test])
            enter = self._writer(scope, ops[0]).emit("LOAD_CONST", True)
            items = [enter, *self._write_loop(scope, found, end, ops[0])]
            return items + self._jump(scope, ops[0], found.exit, following, written)
        if self._is_loop(block):
            found = round_at(self.graph, block)
            items = [
                *self._write_condition(scope, block),
                *self._write_loop(scope, found, last, last),
            ]
            return items + self._jump(scope, last, found.exit, following, written)
        if self._is_planned(block):
            lifted = lift(self.graph, block)
            items = self._write_condition(scope, block)
            items += self._write_branch(scope, lifted, last)
            if lifted.join == EXIT:
                return [*items, self._writer(scope, last).emit("RETURN_VALUE")]
            return items + self._jump(scope, last, lifted.join, following, written)
        if (decision := self._guessed_whole(block)) is not None:
            return self._write_guessed(scope, block, decision, following, written)
        items = [emit for op in ops[:-1] for emit in self._write_op(scope, op)]
        if last.name in _UNCONDITIONAL:
            assert last.target is not None
            target = self.graph.block_of(last.target).index
            return items + self._jump(scope, last, target, following, written)
        items += self._write_op(scope, last)
        for edge in block.successors:
            if not edge.jump:
                items += self._jump(scope, last, edge.target, following, written)
        return items

    def _guessed_whole(self, block: Block) -> Decision | None:
        """The short circuit that a block begins, if it is to be guessed as one condition."""
        if self.graph.last(block).offset not in self.plan.guesses or not block.successors[1:]:
            return None
        decision = decision_at(self.graph, block)
        offsets = {self.graph.last(self.graph.blocks[t.block]).offset for t in decision.tests}
        return decision if offsets and not offsets & self.plan.guesses else None

    def _write_guessed(
        self, scope: _Scope, block: Block, decision: Decision, following: int, written: set[int]
    ) -> list[Emit]:
        last = self.graph.last(block)
        writer = self._writer(scope, last)
        items = self._write_condition(scope, block)
        guess = guess_at(self.graph, last, self._site(last), alone=False)
        # A conditional jump may not go back, so the side that lies ahead is jumped to.
        name, target, other = facts.POP_JUMP_IF_FALSE, decision.when_false, decision.when_true
        if target in written:
            name, target, other = name.replace("FALSE", "TRUE"), other, target
        if target in written:
            raise Refused("unhandled-instruction", "Both ways of the condition lead back.")
        items += write_guess(replace(last, name=name), guess, writer, scope.label(target))
        return items + self._jump(scope, last, other, following, written)

    def _jump(
        self, scope: _Scope, op: Op, target: int, following: int, written: set[int]
    ) -> list[Emit]:
        """Go to a block, unless it comes next anyway."""
        if target == following:
            return []
        name = "JUMP_BACKWARD" if target in written else "JUMP_FORWARD"
        return [self._writer(scope, op).emit(name, label=scope.label(target))]

    def _write_op(self, scope: _Scope, op: Op) -> list[Emit]:
        writer = self._writer(scope, op)
        if (call := self.marked.get(op.index)) is not None:
            return write_marked(op, self._mark(call), writer)
        if op.name == "TO_BOOL" and self.listing.ops[op.index + 1].offset in self.plan.guesses:
            return []
        if op.offset in self.plan.guesses and op.target is None:
            return write_guess(
                op, guess_at(self.graph, op, self._site(op), alone=True), writer, None
            )
        if op.offset in self.plan.hoists and op.name == "BINARY_SUBSCR":
            fetch = writer.callable_under_top(HoistItem(self._site(op)))
            return [writer.emit("BUILD_TUPLE", 2), *fetch, *writer.call(1)]
        if op.offset in self.plan.bounds:
            return write_bounds(op, Bounds(self._site(op)), writer)
        if op.offset in self.plan.leaves:
            assign = writer.callable_under_top(Require(self._site(op)))
            return [writer.emit("BUILD_TUPLE", 2), *assign, *writer.call(1), writer.emit("POP_TOP")]
        if op.target is None:
            return [writer.emit(op.name, self._scoped(scope, op.arg))]
        label = scope.label(self.graph.block_of(op.target).index)
        name = op.name
        if scope.stop != EXIT and label is scope.leave:
            # The end of an arm lies ahead, wherever the join was.
            name = name.replace("BACKWARD", "FORWARD")
        if op.offset in self.plan.guesses:
            guess = guess_at(self.graph, op, self._site(op), alone=True)
            return write_guess(replace(op, name=name), guess, writer, label)
        return [writer.emit(name, label=label)]

    def _mark(self, call: Op) -> Primitive:
        site = self._site(call)
        if call.offset in self.plan.hoists:
            return Hoist(site)
        if call.offset in self.plan.known:
            return Known(site)
        return ask_at(self.graph, call, site) if call.offset in self.plan.asks else Defer(site)

    def _scoped(self, scope: _Scope, arg: object) -> object:
        """Inside an arm every cell of the function is a free variable."""
        if scope.outer is None and scope.entry == 0:
            return arg
        return FreeVar(arg.name) if isinstance(arg, CellVar) else arg

    def _writer(self, scope: _Scope, op: Op) -> Writer:
        if op.handler is None or op.handler == scope.outer:
            return Writer(op, None)
        label = scope.label(self.graph.block_of(op.handler.target).index)
        return Writer(op, (label, op.handler.push_lasti))

    def _site(self, op: Op) -> Site:
        line = op.location.lineno if op.location is not None else None
        return Site.of(self.listing.code, op.name, op.offset, line)

    # Branches

    def _write_branch(self, scope: _Scope, lifted: Lift, op: Op) -> list[Emit]:
        writer = self._writer(scope, op)
        items: list[Emit] = []
        kept = lifted.when_true.kept or lifted.when_false.kept
        spilled = [f"__gm_slot_{i}" for i in range(lifted.stack_ins)]
        temporaries = [*spilled, _CONDITION] if kept or spilled else []
        items += writer.store_all(temporaries[::-1])
        items += writer.load_all([_CONDITION] if temporaries else [])
        items += writer.callable_under_top(Branch(self._site(op), op.offset in self.plan.conds))
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

    def _write_condition(self, scope: _Scope, block: Block) -> list[Emit]:
        """A block without its jump: the condition is left on the stack, short circuits merged."""
        ops = self.graph.ops(block)
        items = [
            emit
            for op in ops[:-1]
            if not _asks_truth(op, ops[-1])
            for emit in self._write_op(scope, op)
        ]
        tests = decision_at(self.graph, block).tests
        return items + self._write_tests(scope, block, tests)

    def _write_loop(self, scope: _Scope, found: Round, op: Op, place: Op) -> list[Emit]:
        """A loop for the jump `op`, written where `place` stands."""
        writer = replace(self._writer(scope, place), op=op)
        is_entered = op.offset in self.plan.entered
        loop = Loop(self._site(op), len(found.carried), found.enters, found.again, is_entered)
        inner = _Scope(entry=found.header, test=found.test, outer=found.handler or _NOWHERE)
        plain = replace(writer, handler=None)
        body = [
            *self._write(inner),
            inner.leave,
            *plain.load_all([_AGAIN, *found.carried]),
            plain.emit("BUILD_TUPLE", 1 + len(found.carried)),
            plain.emit("RETURN_VALUE"),
        ]
        parameters = [*found.carried, *found.fixed]
        return [
            *writer.callable_under_top(loop),
            *self._make_function(scope, body, parameters, writer),
            *(
                writer.emit("LOAD_CONST", None) if name in found.unbound else load
                for name, load in zip(parameters, writer.load_all(parameters), strict=True)
            ),
            *writer.call(2 + len(parameters)),
            writer.emit("UNPACK_SEQUENCE", len(found.carried)),
            *writer.store_all(found.carried),
        ]

    def _write_tests(self, scope: _Scope, branch: Block, tests: Iterable[Test]) -> list[Emit]:
        """Take the further conditions of a short circuit into the first one."""
        op = self.graph.last(branch)
        items: list[Emit] = []
        for test in tests:
            both = Both(self._site(op), test.first, test.second)
            items += self._write_test(scope, branch, self.graph.blocks[test.block], both)
        return items

    def _write_test(
        self, scope: _Scope, branch: Block, block: Block, primitive: Both
    ) -> list[Emit]:
        last, op = self.graph.last(block), self.graph.last(branch)
        writer = self._writer(scope, op)
        parameters = check_test(self.graph, branch, block)
        inner = _Scope(entry=block.index, stop=block.index, outer=op.handler or _NOWHERE)
        ops = self.listing.ops[block.start : block.stop - 1]
        body: list[Emit | Label] = [
            emit for op in ops if not _asks_truth(op, last) for emit in self._write_op(inner, op)
        ]
        body.append(self._writer(inner, last).emit("RETURN_VALUE"))
        return [
            *writer.callable_under_top(primitive),
            *self._make_function(scope, body, parameters, writer),
            *writer.load_all(parameters),
            *writer.call(2 + len(parameters)),
        ]

    def _make_arm(
        self,
        scope: _Scope,
        lifted: Lift,
        arm: Arm,
        parameters: list[str],
        spilled: list[str],
        writer: Writer,
    ) -> list[Emit]:
        inner = _Scope(entry=arm.entry, stop=lifted.join, outer=lifted.handler or _NOWHERE)
        plain = replace(writer, handler=None)
        body: list[Emit | Label] = []
        body += plain.load_all([*spilled, *([_CONDITION] if arm.kept else [])])
        body += self._write(inner)
        if lifted.join != EXIT:
            body.append(inner.leave)
            results = [f"__gm_result_{i}" for i in range(lifted.stack_outs)]
            body += plain.store_all(results)
            body += plain.load_all([*lifted.live_outs, *results])
            body.append(plain.emit("BUILD_TUPLE", len(lifted.live_outs) + len(results)))
            body.append(plain.emit("RETURN_VALUE"))
        return self._make_function(scope, body, parameters, writer)

    def _make_function(
        self, scope: _Scope, body: Sequence[Emit | Label], parameters: Sequence[str], writer: Writer
    ) -> list[Emit]:
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
        code = self._assemble(header, [*prologue, *body])
        cells = [self._scoped(scope, self._variable(name)) for name in free]
        return writer.make_function(code, cells)  # type: ignore[arg-type]

    def _variable(self, name: str) -> CellVar | FreeVar:
        return CellVar(name) if name in self.listing.code.co_cellvars else FreeVar(name)


_NOWHERE = object()
"""Handler of an arm whose branch stands outside every try block."""


def _asks_truth(op: Op, jump: Op) -> bool:
    """True for the TO_BOOL in front of a jump: the primitive asks for the truth value itself."""
    return op.name == "TO_BOOL" and op.index == jump.index - 1
