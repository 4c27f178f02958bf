"""What a generated block of statements knows of the place it is in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.fuzz.catalog import SURROUNDINGS
from tests.fuzz.grammar import BASIC, NAMES

MOST_COMPOUND = 7
"""Compound statements in a program. Rewriting every branch of one takes time that grows with the square."""


@dataclass
class Scope:
    """Where the next statement goes.

    Attributes:
        groups: the groups of forms the program has.
        bound: variables that certainly have a value here.
        assigned: variables that the function assigns somewhere.
        depth: how many more compound statements may be nested.
        in_loop: `break` and `continue` are allowed.
        in_handler: a bare `raise` is allowed.
        may_leave: `return` is allowed, which it is not in `finally`.
        gives_vector: the function's callers want a vector.
        closures: functions of one vector that are defined here.
        counter: numbers for names that are used once; shared by the whole program.
        room: how many more compound statements the program may have; shared by the whole program.
    """

    groups: frozenset[str]
    bound: set[str]
    assigned: set[str] = field(default_factory=set)
    depth: int = 3
    in_loop: bool = False
    in_handler: bool = False
    may_leave: bool = True
    gives_vector: bool = False
    closures: tuple[str, ...] = ()
    counter: list[int] = field(default_factory=lambda: [0])
    room: list[int] = field(default_factory=lambda: [MOST_COMPOUND])

    def has(self, group: str) -> bool:
        """True if the program has this group of forms."""
        return group == BASIC or group in self.groups

    def surroundings(self) -> list[str]:
        """Surroundings that the program has."""
        return sorted(self.groups & SURROUNDINGS.keys())

    def names(self, kind: str) -> list[str]:
        """Bound variables of a kind."""
        return [name for name in NAMES[kind] if name in self.bound]

    def bind(self, name: str) -> None:
        """A statement gave the variable a value."""
        self.bound.add(name)
        self.assigned.add(name)

    def fresh(self, letter: str) -> str:
        """A name that nothing else has."""
        self.counter[0] += 1
        return f"{letter}{self.counter[0]}"

    def inner(self, **changes: object) -> Scope:
        """The scope of a block inside this one: what it binds may be unbound after it."""
        inner = replace(self, bound=set(self.bound), depth=self.depth - 1)
        return replace(inner, **changes)  # type: ignore[arg-type]

    def join(self, blocks: Iterable[Scope]) -> None:
        """Exactly one of the blocks ran: what all of them bound is bound."""
        self.bound |= set.intersection(*(block.bound for block in blocks))
