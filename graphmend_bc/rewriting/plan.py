"""Which instructions of a code object are to be rewritten."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Plan:
    """The sites of one code object to rewrite, by byte offset in the original `co_code`.

    Attributes:
        branches: conditional jumps to turn into `Branch` calls.
        conds: those of `branches` whose arms are to run only if taken, by `torch.cond`.
        loops: conditional jumps that guard a while loop, to turn into `Loop` calls.
        entered: those of `loops` that are guessed to go round at least once.
        rounds: conditional jumps at the end of a loop's round, to turn the loop into a `Loop` call.
        guesses: conditional jumps and `not` whose condition is to be asked by `Guess`.
        asks: calls that give a Python value of a tensor, whose callee is to be marked by `Ask`.
        hoists: calls that are to run before the graph, whose callee is to be marked by `Hoist`.
        hits: calls that make a list of a tensor, whose callee is to be marked by `Listed`.
        effects: calls whose callee is to be marked by `Defer`.
        known: calls whose callee is to be marked by `Known`.
        leaves: assignments to `requires_grad` that are to be made by `Require`.
        bounds: slices whose bounds are to be marked by `Bounds`.
        rows: places where a loop begins, over something that is to be marked by `Rows`.
        draws: calls because of which the function as a whole is to run before the graph.
        onces: instructions because of which the function as a whole is known to prepare a module.
        captures: instructions at which Dynamo is to make symbols of what is known only at run time;
            the code stays as it is.
    """

    branches: frozenset[int] = frozenset()
    conds: frozenset[int] = frozenset()
    loops: frozenset[int] = frozenset()
    entered: frozenset[int] = frozenset()
    rounds: frozenset[int] = frozenset()
    guesses: frozenset[int] = frozenset()
    asks: frozenset[int] = frozenset()
    hoists: frozenset[int] = frozenset()
    hits: frozenset[int] = frozenset()
    effects: frozenset[int] = frozenset()
    known: frozenset[int] = frozenset()
    leaves: frozenset[int] = frozenset()
    bounds: frozenset[int] = frozenset()
    rows: frozenset[int] = frozenset()
    draws: frozenset[int] = frozenset()
    onces: frozenset[int] = frozenset()
    captures: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))

    @property
    def changes_code(self) -> bool:
        """False if the plan asks nothing of the rewriter."""
        return any(getattr(self, field.name) for field in fields(self) if field.name != "captures")

    def __contains__(self, offset: object) -> bool:
        return any(offset in getattr(self, field.name) for field in fields(self))

    def with_branch(self, offset: int) -> Plan:
        return replace(self, branches=self.branches | {offset})

    def with_cond(self, offset: int) -> Plan:
        return replace(self.with_branch(offset), conds=self.conds | {offset})

    def with_loop(self, offset: int) -> Plan:
        return replace(self, loops=self.loops | {offset})

    def with_entered_loop(self, offset: int) -> Plan:
        return replace(self.with_loop(offset), entered=self.entered | {offset})

    def with_round(self, offset: int) -> Plan:
        return replace(self, rounds=self.rounds | {offset})

    def with_guesses(self, offsets: Iterable[int]) -> Plan:
        return replace(self, guesses=self.guesses | frozenset(offsets))

    def with_ask(self, offset: int) -> Plan:
        return replace(self, asks=self.asks | {offset})

    def with_hoist(self, offset: int) -> Plan:
        return replace(self, hoists=self.hoists | {offset})

    def with_hits(self, offset: int) -> Plan:
        return replace(self, hits=self.hits | {offset})

    def with_effect(self, offset: int) -> Plan:
        return replace(self, effects=self.effects | {offset})

    def with_known(self, offset: int) -> Plan:
        return replace(self, known=self.known | {offset})

    def with_leaf(self, offset: int) -> Plan:
        return replace(self, leaves=self.leaves | {offset})

    def with_bounds(self, offset: int) -> Plan:
        return replace(self, bounds=self.bounds | {offset})

    def with_rows(self, offset: int) -> Plan:
        return replace(self, rows=self.rows | {offset})

    def with_draw(self, offset: int) -> Plan:
        return replace(self, draws=self.draws | {offset})

    def with_once(self, offset: int) -> Plan:
        return replace(self, onces=self.onces | {offset})

    def with_capture(self, offset: int) -> Plan:
        return replace(self, captures=self.captures | {offset})

    def without(self, offset: int) -> Plan:
        return Plan(*(getattr(self, field.name) - {offset} for field in fields(self)))
