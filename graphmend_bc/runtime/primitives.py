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
class Mark(Primitive):
    """Marks the callee of a call: outside a trace the call happens where it stands."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself."""
        return function


@dataclass(frozen=True, slots=True)
class Defer(Mark):
    """A callee that only observes, so that a tracer may postpone the call."""


@dataclass(frozen=True, slots=True)
class Known(Mark):
    """A callee that a tracer may understand if it knows the function."""


@dataclass(frozen=True, slots=True)
class Hoist(Mark):
    """A callee that a tracer may call before everything else in the frame."""


@dataclass(frozen=True, slots=True)
class Listed(Mark):
    """A callee that makes a list of a tensor, whose contents may be guessed."""


@dataclass(frozen=True, slots=True)
class Ask(Mark):
    """A callee that gives a Python value of a tensor, as `t.item()` does.

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
class HoistItem(Primitive):
    """An item of an object that a tracer may fetch before everything else in the frame."""

    def __call__(self, pair: tuple[Any, Any]) -> Any:
        """The item.

        Args:
            pair: the object and the key.
        """
        return pair[0][pair[1]]


@dataclass(frozen=True, slots=True)
class Bounds(Primitive):
    """Marks where a slice begins and ends, so that a tracer may have numbers there."""

    def __call__(self, bounds: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same: what is sliced makes numbers of tensors itself.

        Args:
            bounds: two or three values.
        """
        return bounds


@dataclass(frozen=True, slots=True)
class Rows(Primitive):
    """What a loop goes over, in which a tracer may know the rows."""

    def __call__(self, value: Any) -> Any:
        """The same."""
        return value


@dataclass(frozen=True, slots=True)
class Whole(Primitive):
    """A function as a whole."""

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call it.

        Args:
            function: it.
            arguments: its arguments, by position.
        """
        return function(*arguments)


@dataclass(frozen=True, slots=True)
class Draw(Whole):
    """A function as a whole, which a tracer may call before everything else in the frame."""


@dataclass(frozen=True, slots=True)
class Once(Whole):
    """A function as a whole, which prepares its argument the first time."""


@dataclass(frozen=True, slots=True)
class Require(Primitive):
    """An assignment to an object's `requires_grad`."""

    def __call__(self, pair: tuple[Any, Any]) -> None:
        """Assign.

        Args:
            pair: the value and the object.
        """
        pair[1].requires_grad = pair[0]


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
class Guess(Primitive):
    """A truth value that a tracer may take for granted and have checked afterwards.

    Attributes:
        likely: the truth value that the bytecode suggests.
        firm: True if the other one only leads to a raise.
        unbounded: True if it decides whether a loop goes round again that nothing else ends.
    """

    likely: bool = True
    firm: bool = False
    unbounded: bool = False

    def __call__(self, condition: Any) -> bool:
        """The truth value of any object, asked for once."""
        return bool(condition)
