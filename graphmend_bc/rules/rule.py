"""A rule: which breaks it knows, and what it adds to the plan of the code they are in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import CodeType
from typing import Any

from graphmend_bc.code.analysis.blocks import Block, Graph, graph_of
from graphmend_bc.code.listing import Op
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.conditions.branch_prediction import expectation
from graphmend_bc.rewriting.conditions.decision import is_condition
from graphmend_bc.rewriting.lifting.rounds import ends_round, guards_round
from graphmend_bc.rewriting.mark_callee import CALLS, name_of_callee
from graphmend_bc.rewriting.plan import Rewrite

Rewrites = Mapping[int, Rewrite]
"""What becomes of the instructions of one site, by byte offset."""


@dataclass(frozen=True)
class BreakSite:
    """A graph break, as rules see it.

    Attributes:
        code: the user's code object, as CPython compiled it.
        offset: byte offset of the instruction in `code.co_code`.
        gb_type: what Dynamo calls the break, as in its graph break registry; empty if a site is
            planned before Dynamo met it.

    Example:
        >>> def first(items):
        ...     return items
        >>> BreakSite(first.__code__, 2).op.name, BreakSite(first.__code__, 2).is_call
        ('LOAD_FAST', False)
    """

    code: CodeType
    offset: int
    gb_type: str = ""

    @cached_property
    def graph(self) -> Graph:
        """The blocks of the code object."""
        return graph_of(self.code)

    @cached_property
    def op(self) -> Op:
        """The instruction."""
        return self.graph.listing.at_offset(self.offset)

    @cached_property
    def block(self) -> Block:
        """The block that the instruction is in."""
        return self.graph.block_of(self.op.index)

    @property
    def is_call(self) -> bool:
        """True for a call whose callee can be marked: `super()` is asked of no other callee."""
        return self.op.name in CALLS and name_of_callee(self.graph, self.op) != "super"

    @cached_property
    def callee(self) -> str:
        """The name under which a call's callee was loaded; empty if it was not just loaded."""
        return name_of_callee(self.graph, self.op) if self.is_call else ""

    @property
    def is_condition(self) -> bool:
        """True for a conditional jump that asks for a truth value."""
        return is_condition(self.op)

    @cached_property
    def is_guard(self) -> bool:
        """True for a condition of which one way only leads to a raise."""
        return self.is_condition and expectation(self.graph, self.block).firm

    @cached_property
    def guards_loop(self) -> bool:
        """True for the condition in front of a while loop's first round."""
        return self.is_condition and not self.is_guard and guards_round(self.graph, self.block)

    @cached_property
    def ends_round(self) -> bool:
        """True for the condition at the end of a loop's round."""
        return (
            self.is_condition
            and not (self.is_guard or self.guards_loop)
            and ends_round(self.graph, self.block)
        )

    @cached_property
    def is_branch(self) -> bool:
        """True for a condition between two ways that come together again."""
        return self.is_condition and not (self.is_guard or self.guards_loop or self.ends_round)


def _always(refused: Refused) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to mend breaks of some types.

    Attributes:
        name: unique; `config.rules_off` and the report know it by this name.
        strategy: what the report calls the result; see `config.strategies`.
        cost: rules are tried by rising cost.
        matches: what becomes of the instructions at a site, or None if the rule does not know it.
        gb_types: the break types it is for; empty for any.
        helps: whether it may succeed where a cheaper rule was refused for the given reason.
        handler: what a tracer makes of the primitive; see `dynamo/calls/markers.py`. The
            name of a rule of ours stands for its handler. Lifted branches and loops, and truth
            values, have none.
        needs: what it cannot do without, of `dynamo/patches/capabilities.py`. A rule of yours that
            says nothing needs what ours of its strategy do.
        expects: where it is planned when a code object is first met, although nothing breaks there.
        planned_ahead: whether conditions that look as if they asked a tensor are planned with it
            before Dynamo meets them.

    Example:
        >>> from graphmend_bc.rewriting.plan import MarkCallee
        >>> Rule("mine", "defer", 5, lambda site: {site.offset: MarkCallee()}).name
        'mine'
    """

    name: str
    strategy: str
    cost: int
    matches: Callable[[BreakSite], Rewrites | None]
    gb_types: frozenset[str] = frozenset()
    helps: Callable[[Refused], bool] = _always
    handler: Callable[..., Any] | str | None = None
    needs: frozenset[str] = frozenset()
    planned_ahead: bool = False
    expects: Callable[[CodeType], Collection[int]] | None = None

    def at(self, site: BreakSite) -> Candidate | None:
        """The rule at one site, or None if it does not apply there."""
        if site.gb_type and self.gb_types and site.gb_type not in self.gb_types:
            return None
        found = self.matches(site)
        if found is None:
            return None
        return Candidate(
            self, {o: replace(rewrite, rule=self.name) for o, rewrite in found.items()}
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule at one site.

    Attributes:
        rule: the rule.
        rewrites: what it asks for.
    """

    rule: Rule
    rewrites: Rewrites


DATA_DEPENDENT = frozenset(
    {
        "Data-dependent branching",
        "Data dependent operator",
        "Unsupported Tensor.item() call with capture_scalar_outputs=False",
        "UserError",
    }
)
"""Break types at a condition whose truth value is known only at run time."""
