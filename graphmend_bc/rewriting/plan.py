"""Which instructions of a code object are to be rewritten."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Plan:
    """The sites of one code object to rewrite, by byte offset in the original `co_code`.

    Attributes:
        branches: conditional jumps to turn into `Branch` calls.
        effects: calls whose callee is to be marked by `Defer`.
    """

    branches: frozenset[int] = frozenset()
    effects: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.branches or self.effects)

    def __contains__(self, offset: object) -> bool:
        return offset in self.branches or offset in self.effects

    def with_branch(self, offset: int) -> Plan:
        return replace(self, branches=self.branches | {offset})

    def with_effect(self, offset: int) -> Plan:
        return replace(self, effects=self.effects | {offset})

    def without(self, offset: int) -> Plan:
        return Plan(self.branches - {offset}, self.effects - {offset})
