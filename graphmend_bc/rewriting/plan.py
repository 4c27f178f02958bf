"""Which instructions of a code object are to be rewritten, and into what.

A plan maps byte offsets in the original `co_code` to rewrites. A rule gives such a mapping; the
rewriter writes it. There are five shapes of rewrite; what a tracer makes of the primitive that the
last three write is up to the rule's handler:

    LiftBranch, LiftLoop, LiftRound    arms and rounds become functions
    AskTruth                           a truth value is asked by name; the control flow stays
    MarkCallee                         f(x)     ->  MarkedCallee(site, rule)(f)(x)
    MarkOperands, CallOperation        x[a:b]   ->  x[MarkedOperands(site, rule)((a, b))]
    Outline                            def f(a): return Outlined(site, rule)(<copy of f>, a)
    OutlineBlock                       with a: f()  ->  Outlined(site, rule)(<the block>, a, f)

`Capture` changes no code: it only says that Dynamo is to make symbols there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What becomes of one instruction.

    Attributes:
        rule: the name of the rule that asks for it; `Rule.at` fills it in.
    """

    rule: str = ""


@dataclass(frozen=True, slots=True)
class LiftBranch(Rewrite):
    """A conditional jump becomes a `Branch` call.

    Attributes:
        conditional: True if only the arm that is taken may run.

    Example:
        >>> Plan({18: LiftBranch(conditional=True)})
        Plan({18: LiftBranch(rule='', conditional=True)})
    """

    conditional: bool = False


@dataclass(frozen=True, slots=True)
class LiftLoop(Rewrite):
    """A conditional jump that guards a while loop becomes a `Loop` call.

    Attributes:
        entered: True if a tracer may take a first round for granted.

    Example:
        >>> Plan({18: LiftLoop()})
        Plan({18: LiftLoop(rule='', entered=False)})
    """

    entered: bool = False


@dataclass(frozen=True, slots=True)
class LiftRound(Rewrite):
    """A loop that nothing guards becomes a `Loop` call at the jump that ends its round.

    Example:
        >>> Plan({18: LiftRound()})
        Plan({18: LiftRound(rule='')})
    """


@dataclass(frozen=True, slots=True)
class AskTruth(Rewrite):
    """The condition of a jump or a `not` is asked for by `Speculate`.

    Attributes:
        unbounded: True in front of a loop that nothing but the condition ends.

    Example:
        >>> Plan({18: AskTruth()})
        Plan({18: AskTruth(rule='', unbounded=False)})
    """

    unbounded: bool = False


@dataclass(frozen=True, slots=True)
class MarkCallee(Rewrite):
    """The callee of a call is marked by `MarkedCallee`.

    Attributes:
        in_order: whether the order matters in which the call unpacks its arguments.
        with_use: whether the mark says how the result of the call is used.

    Example:
        >>> Plan({18: MarkCallee(with_use=True)})
        Plan({18: MarkCallee(rule='', in_order=True, with_use=True)})
    """

    in_order: bool = True
    with_use: bool = False


@dataclass(frozen=True, slots=True)
class MarkOperands(Rewrite):
    """The operands of an instruction, on top of the stack, are marked by `MarkedOperands`.

    Example:
        >>> Plan({18: MarkOperands()})
        Plan({18: MarkOperands(rule='')})
    """


@dataclass(frozen=True, slots=True)
class CallOperation(Rewrite):
    """An instruction becomes a call of `CalledOperation` with its operands.

    Example:
        >>> Plan({18: CallOperation()})
        Plan({18: CallOperation(rule='')})
    """


@dataclass(frozen=True, slots=True)
class Outline(Rewrite):
    """The function as a whole becomes one call of a copy of itself.

    Example:
        >>> Plan({2: Outline()})
        Plan({2: Outline(rule='')})
    """


@dataclass(frozen=True, slots=True)
class OutlineBlock(Rewrite):
    """The `with` block around a call becomes one call of a function; the function ends after it.

    Example:
        >>> Plan({18: OutlineBlock()})
        Plan({18: OutlineBlock(rule='')})
    """


@dataclass(frozen=True, slots=True)
class Capture(Rewrite):
    """The code stays; Dynamo is to make a symbol of what is known only at run time."""


R = TypeVar("R", bound=Rewrite)


class Plan(Mapping[int, Rewrite]):
    """The rewrites of one code object, by byte offset. It does not change.

    Args:
        rewrites: by offset.

    Example:
        >>> plan = Plan({18: LiftBranch("where")})
        >>> plan.with_all({40: MarkCallee("defer")}).without(18)
        Plan({40: MarkCallee(rule='defer', in_order=True, with_use=False)})
    """

    __slots__ = ("_by_offset", "_hash")

    def __init__(self, rewrites: Mapping[int, Rewrite] | None = None) -> None:
        self._by_offset = dict(sorted((rewrites or {}).items()))
        self._hash = hash(tuple(self._by_offset.items()))

    def __getitem__(self, offset: int) -> Rewrite:
        return self._by_offset[offset]

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_offset)

    def __len__(self) -> int:
        return len(self._by_offset)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._by_offset == other._by_offset

    def __repr__(self) -> str:
        return f"Plan({self._by_offset})"

    def of_kind(self, kind: type[R]) -> dict[int, R]:
        """The rewrites of one shape."""
        return {offset: found for offset, found in self.items() if isinstance(found, kind)}

    @property
    def changes_code(self) -> bool:
        """False if the plan asks nothing of the rewriter."""
        return not all(isinstance(r, Capture) for r in self._by_offset.values())

    def with_all(self, rewrites: Mapping[int, Rewrite]) -> Plan:
        """A plan that has these, too."""
        return Plan({**self._by_offset, **rewrites})

    def without(self, offset: int) -> Plan:
        """A plan that leaves an instruction as it is."""
        return (
            Plan({o: found for o, found in self.items() if o != offset}) if offset in self else self
        )
