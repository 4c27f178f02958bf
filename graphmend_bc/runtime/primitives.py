"""The calls that rewriting puts in place of branches and effects.

A primitive is a constant of the rewritten code object. Called by CPython it does exactly what the
replaced instructions did; a tracer may recognise it and do better.

Example:
    `if c: x = f(x)` becomes, in effect, ::

        x, = Branch(site)(c, lambda x: (f(x),), lambda x: (x,), x)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphmend_bc.runtime.site import Site


@dataclass(frozen=True, slots=True)
class Primitive:
    """A call that stands for the instructions at `site`."""

    site: Site


@dataclass(frozen=True, slots=True)
class Branch(Primitive):
    """A two-way branch whose arms were made functions of what is live into them.

    Attributes:
        conditional: True if only the arm that is taken may run.
    """

    conditional: bool = False

    def __call__(
        self,
        predicate: Any,
        when_true: Callable[..., Any],
        when_false: Callable[..., Any],
        *live_ins: Any,
    ) -> Any:
        """Run the arm that `predicate` chooses.

        Args:
            predicate: any object; its truth value is asked for once, as a jump would.
            when_true, when_false: the arms, called with `live_ins`.
            live_ins: values of the locals and stack slots the arms use.

        Returns:
            What the arm returned: the tuple of its live-outs, or the function's own return value.
        """
        return when_true(*live_ins) if predicate else when_false(*live_ins)


@dataclass(frozen=True, slots=True)
class Both(Primitive):
    """Two conditions in short circuit: `a and b`, `a or b` and their negations.

    Attributes:
        first: truth value of the first condition under which the second is asked.
        second: truth value of the second condition that makes the result True.
    """

    first: bool
    second: bool

    def __call__(self, condition: Any, test: Callable[..., Any], *live_ins: Any) -> bool:
        """True if `condition` is `first` and then `test(*live_ins)` is `second`.

        Args:
            condition: any object, asked for its truth value once.
            test: computes the second condition; not called if the first one decides.
            live_ins: what `test` uses.
        """
        return bool(condition) is self.first and bool(test(*live_ins)) is self.second


@dataclass(frozen=True, slots=True)
class Marker(Primitive):
    """A primitive whose meaning in a trace is up to a rule.

    Attributes:
        rule: the name of the rule.
    """

    rule: str


@dataclass(frozen=True, slots=True)
class Use:
    """How the result of a call is used.

    Attributes:
        tested: True if the value, or what it is compared to, is used for nothing but a conditional
            jump, so that a tensor with the same truth value may stand for it.
        compared: True if the value is used for nothing but one comparison.
        likely: the truth value that is likely, if it is one.
    """

    tested: bool = False
    compared: bool = False
    likely: bool = True


@dataclass(frozen=True, slots=True)
class MarkedCallee(Marker):
    """Marks the callee of a call: outside a trace the call happens where it stands.

    Attributes:
        use: how the result is used, if the rule asks for it.
    """

    use: Use = Use()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself."""
        return function


@dataclass(frozen=True, slots=True)
class MarkedOperands(Marker):
    """Marks the operands of an instruction: outside a trace they are what they are."""

    def __call__(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same.

        Args:
            operands: the values on top of the stack, the last one pushed last.
        """
        return operands


@dataclass(frozen=True, slots=True)
class CalledOperation(Marker):
    """Stands for one instruction.

    Attributes:
        function: what the instruction does with its operands.
    """

    function: Callable[..., Any]

    def __call__(self, operands: tuple[Any, ...]) -> Any:
        """The instruction's result.

        Args:
            operands: the values on top of the stack, the last one pushed last.
        """
        return self.function(*operands)


@dataclass(frozen=True, slots=True)
class SetAttribute:
    """What an assignment to an attribute does with its operands.

    Attributes:
        name: of the attribute.
    """

    name: str

    def __call__(self, value: Any, owner: Any) -> None:
        """Assign."""
        setattr(owner, self.name, value)


@dataclass(frozen=True, slots=True)
class GetAttribute:
    """What reading an attribute does with its operand.

    Attributes:
        name: of the attribute.
    """

    name: str

    def __call__(self, owner: Any) -> Any:
        """Read."""
        return getattr(owner, self.name)


def set_item(value: Any, container: Any, key: Any) -> None:
    """What an assignment to an item does with its operands."""
    container[key] = value


@dataclass(frozen=True, slots=True)
class Outlined(Marker):
    """A function as a whole."""

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call it.

        Args:
            function: it.
            arguments: its arguments, by position.
        """
        return function(*arguments)


@dataclass(frozen=True, slots=True)
class Loop(Primitive):
    """A `while` loop one round of which was made a function.

    Attributes:
        carried: how many variables go from round to round.
        enters: truth value of the first condition under which there is a first round.
        again: truth value of a round's condition under which there is another round.
        entered: True if a tracer may take a first round for granted.
    """

    carried: int
    enters: bool = True
    again: bool = True
    entered: bool = False

    def __call__(self, condition: Any, step: Callable[..., Any], *variables: Any) -> Any:
        """Run the loop.

        Args:
            condition: whether there is a first round.
            step: one round; from the variables to its condition and the carried variables.
            variables: the carried variables, then those that a round only reads.

        Returns:
            The tuple of carried variables.
        """
        state, fixed = variables[: self.carried], variables[self.carried :]
        goes_on = self.enters
        while bool(condition) is goes_on:
            condition, *state = step(*state, *fixed)
            goes_on = self.again
        return tuple(state)


@dataclass(frozen=True, slots=True)
class Speculate(Primitive):
    """A truth value that a tracer may take for granted and have checked afterwards.

    Attributes:
        likely: the truth value that the bytecode suggests.
        firm: True if the other one only leads to a raise.
        unbounded: True if it decides whether a loop goes round again that nothing else ends.
        once: True if what is seen of the first answer holds for all at the site.
    """

    likely: bool = True
    firm: bool = False
    unbounded: bool = False
    once: bool = False

    def __call__(self, condition: Any) -> bool:
        """The truth value of any object, asked for once."""
        return bool(condition)
