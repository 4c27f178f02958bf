"""What the arms of a branch give where no operator chooses: the host takes one after the graph.

name = "up" if x.sum() > 0 else None     is read by nobody before the graph has run
k = 1.5 if x.sum() > 0 else 2            x * k is computed with both numbers, and one is chosen
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final, NoReturn, cast

import torch
from torch._dynamo.bytecode_transformation import Instruction, create_instruction
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.lists import ListVariable, TupleVariable
from torch._dynamo.variables.misc import StringFormatVariable
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.code import facts
from graphmend_bc.dynamo.calls.higher_order import depth_of
from graphmend_bc.dynamo.graph.emit import call, method
from graphmend_bc.dynamo.host_values.host_value import HostVariable
from graphmend_bc.dynamo.host_values.state_value import StateVariable
from graphmend_bc.dynamo.trace.alias_notes import note_sharing
from graphmend_bc.dynamo.trace.compilation import SiteRefused, Trace
from graphmend_bc.dynamo.trace.truth_overrides import is_under_mode
from graphmend_bc.legality import choose
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_CONSTANTS: Final = (int, float, complex, bool, str, bytes, type(None))
_ARITHMETIC: Final = frozenset(
    [
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.floordiv,
        operator.mod,
        operator.pow,
    ]
)
_OF_TRUTHS: Final = frozenset([operator.add, operator.mul])
"""What every tensor of floats takes a truth value for."""
_COMPARISONS: Final = frozenset(
    [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
)
_LINEAR: Final[dict[Any, tuple[bool, bool]]] = {
    operator.add: (True, True),
    operator.sub: (True, True),
    operator.mul: (True, True),
    operator.truediv: (True, False),
}
"""By operator of a tensor and a number, whether the gradient of the tensor is zero where that of
the result is: if the tensor comes first, and if it comes second."""

_FOLDED: Final = frozenset([operator.add, operator.sub, operator.mul, operator.neg])
"""Operators of numbers that raise for none of those that are computed with both."""

_LARGEST: Final = 2**31
"""Integers below it are the same numbers as floats, and so are their products."""


class ChosenVariable(HostVariable):
    """One of two values; the host knows which once the graph has run.

    Args:
        site: the branch.
        predicate: a 0-dim bool tensor that nobody changes.
        is_taken: its truth value, for after the graph.
        sides: the values for True and for False.
        trace: the running attempt.
    """

    _nonvar_fields: ClassVar[set[str]] = {"trace", *HostVariable._nonvar_fields}  # type: ignore[misc]

    def __init__(
        self,
        site: Site,
        predicate: TensorVariable,
        is_taken: VariableTracker,
        sides: list[VariableTracker],
        trace: Trace,
        **kwargs: Any,
    ) -> None:
        super().__init__(site, object, **kwargs)
        self.predicate = predicate
        self.is_taken = is_taken
        self.sides = sides
        self.trace = trace

    def python_type(self) -> type:
        kinds = {side.python_type() for side in self.sides}
        return kinds.pop() if len(kinds) == 1 else self.refuse("type")

    def refuse(self, use: str) -> NoReturn:
        """Give the branch up: something needs to know the value while the graph is traced."""
        detail = f"The values differ, and what is chosen is used in '{use}'."
        raise SiteRefused(Refused("arms-differ-in-value", detail), self.site)

    def may_be_none(self) -> bool:
        """True if one of the values is None."""
        return any(
            side.may_be_none() if isinstance(side, ChosenVariable) else side.is_constant_none()
            for side in map(VariableTracker.realize, self.sides)
        )

    def lasts(self) -> bool:
        """True if the program cannot change it, so that a deferred call may show it."""
        return all(map(_lasts, self.sides))

    def reconstruct(self, codegen: PyCodegen) -> None:
        other, after = create_instruction("NOP"), create_instruction("NOP")
        jump_if(codegen, self.is_taken, False, other)
        with in_arm(codegen):
            codegen(self.sides[0])
        codegen.append_output(create_instruction("JUMP_FORWARD", target=after))
        codegen.append_output(other)
        with in_arm(codegen):
            codegen(self.sides[1])
        codegen.append_output(after)


def jump_if(codegen: PyCodegen, value: VariableTracker, truth: bool, target: Instruction) -> None:
    """Have generated code jump if a value is true, or is not.

    Args:
        codegen: writes it.
        value: the value.
        truth: which.
        target: where it goes on then.
    """
    codegen(value)
    if facts.TO_BOOL_BEFORE_JUMP:
        codegen.append_output(create_instruction("TO_BOOL"))
    name = facts.POP_JUMP_IF_TRUE if truth else facts.POP_JUMP_IF_FALSE
    codegen.append_output(create_instruction(name, target=target))


@contextmanager
def in_arm(codegen: PyCodegen) -> Iterator[None]:
    """Generated code that may be jumped over: what it has made is not there afterwards."""
    before = dict(codegen.tempvars)
    codegen.clear_tos()
    yield
    codegen.tempvars.clear()
    codegen.tempvars.update(before)
    codegen.clear_tos()


def are_choosable(left: VariableTracker, right: VariableTracker) -> bool:
    """True for two values of which the host can take one; two tensors are the graph's to choose.

    Args:
        left, right: what the arms give; lists are made in them.
    """
    if all(type(side) is TensorVariable for side in (left, right)):
        return False
    return all(_is_choosable(side) for side in (left, right))


def _is_choosable(value: VariableTracker, in_container: bool = False) -> bool:
    value = value.realize()
    if type(value) is TupleVariable or (type(value) is ListVariable and not in_container):
        return all(_is_choosable(item, True) for item in value.items)
    if type(value) is TensorVariable:
        # What is not chosen would get a gradient of zeros.
        plain = value.python_type() is torch.Tensor
        return plain and not _example(value).requires_grad
    return _lasts(value)


def _lasts(value: VariableTracker) -> bool:
    value = value.realize()
    if type(value) is TupleVariable:
        return all(map(_lasts, value.items))
    if isinstance(value, ChosenVariable):
        return value.lasts()
    if isinstance(value, HostVariable):
        return not isinstance(value, StateVariable)
    if isinstance(value, StringFormatVariable):
        return True
    return value.is_python_constant() and type(value.as_python_constant()) in _CONSTANTS


def storages_in(value: VariableTracker) -> set[int]:
    """The storages of the tensors that are or may be in a value.

    Args:
        value: one for which `are_choosable` is true, or one of two that were.
    """
    value = value.realize()
    if type(value) is TensorVariable:
        return {storage_of(_example(value))}
    items: Iterable[VariableTracker] = ()
    if type(value) in (TupleVariable, ListVariable):
        items = cast(Any, value).items
    elif isinstance(value, ChosenVariable):
        items = value.sides
    return set().union(*map(storages_in, items))


def chosen_among(values: Iterable[VariableTracker]) -> ChosenVariable | None:
    """The first value that was chosen; nothing is realized."""
    for value in values:
        if type(value) is ChosenVariable:
            return value
    return None


def computed_with_both(
    tx: InstructionTranslatorBase,
    chosen: ChosenVariable,
    function: Callable[..., Any],
    args: Sequence[VariableTracker],
    kwargs: Mapping[str, VariableTracker],
) -> VariableTracker:
    """The result of an operation on a chosen value: that of each value, and one is chosen.

    Args:
        tx: translator of the frame that is traced.
        chosen: the first of the arguments that was chosen.
        function: a builtin.
        args, kwargs: its arguments.

    Raises:
        SiteRefused: the operation needs to know which value it is.
    """
    operands = [arg.realize() for arg in args]
    name = getattr(function, "__name__", str(function))
    others = [operand for operand in operands if operand is not chosen]
    if kwargs or len(others) != len(operands) - 1 or not all(map(_is_number, chosen.sides)):
        chosen.refuse(name)
    position = operands.index(chosen)
    folds = function in _FOLDED and all(map(_is_number, others))
    tensor = others[0] if others and type(others[0]) is TensorVariable else None
    if not folds and not (tensor and _is_exact(tx, chosen, function, tensor, position == 1)):
        chosen.refuse(name)
    sides = [_with(tx, function, operands, position, side) for side in chosen.sides]
    if tensor is not None:
        return _where(tx, chosen, name, sides)
    if not all(map(_is_number, sides)):
        chosen.refuse(name)
    return ChosenVariable(chosen.site, chosen.predicate, chosen.is_taken, sides, chosen.trace)


def _where(
    tx: InstructionTranslatorBase, chosen: ChosenVariable, name: str, sides: list[VariableTracker]
) -> VariableTracker:
    predicate, examples = chosen.predicate, [_example(side) for side in sides]
    if _example(predicate).device != examples[0].device:
        predicate = method(tx, "to", predicate, examples[0].device)
    try:
        choose.check_can_choose(*examples)
    except Refused:
        chosen.refuse(name)
    result = call(tx, "where", predicate, *sides)
    made = [(value, [storage_of(value)]) for value in examples]
    note_sharing(chosen.trace, chosen.site, result.as_proxy().node, *made)
    return result


def _is_exact(
    tx: InstructionTranslatorBase,
    chosen: ChosenVariable,
    function: Callable[..., Any],
    tensor: TensorVariable,
    tensor_is_first: bool,
) -> bool:
    """True if a tensor's results with both numbers differ in their values alone."""
    example, numbers = _example(tensor), [side.as_python_constant() for side in chosen.sides]
    if depth_of(chosen.trace) or tensor.python_type() is not torch.Tensor or is_under_mode(tx):
        return False
    if function in _COMPARISONS:
        return not example.is_complex()
    allowed = _OF_TRUTHS if bool in map(type, numbers) else _ARITHMETIC
    if function not in allowed or not example.is_floating_point():
        return False
    converted = torch.tensor([float(number) for number in numbers], dtype=example.dtype)
    if not (example.requires_grad and torch.is_grad_enabled()):
        # A power raises for an exponent that the dtype does not hold.
        return function is not operator.pow or bool(converted.isfinite().all())
    if not _LINEAR.get(function, (False, False))[0 if tensor_is_first else 1]:
        return False
    factors = converted.reciprocal() if function is operator.truediv else converted
    return bool(factors.isfinite().all())


def _example(value: VariableTracker) -> torch.Tensor:
    example: torch.Tensor = value.as_proxy().node.meta["example_value"]
    return example


def _with(
    tx: InstructionTranslatorBase,
    function: Callable[..., Any],
    operands: list[VariableTracker],
    position: int,
    side: VariableTracker,
) -> VariableTracker:
    """The operation with one value in the place of the chosen one."""
    args = [*operands[:position], side, *operands[position + 1 :]]
    return BuiltinVariable(function).call_function(tx, args, {})


def _is_number(value: VariableTracker) -> bool:
    if not value.is_python_constant():
        return False
    constant = value.as_python_constant()
    return type(constant) in (bool, float) or (type(constant) is int and abs(constant) < _LARGEST)
