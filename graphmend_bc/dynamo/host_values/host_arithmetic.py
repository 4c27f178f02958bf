"""Operations on values that the host reads from tensors: what cannot raise is put off too."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

from torch._dynamo import exc
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable

from graphmend_bc.catalog.observers import PRINT_BREAK
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.host_values.chosen_value import chosen_among, computed_with_both
from graphmend_bc.dynamo.host_values.host_value import ComputedVariable, HostVariable, host_among
from graphmend_bc.dynamo.host_values.opaque_variable import (
    KnownTruth,
    OpaqueIterable,
    known_truth_among,
)
from graphmend_bc.dynamo.host_values.state_value import check_moments, with_traced
from graphmend_bc.dynamo.symbols.captures import check_truths, refuse_symbols
from graphmend_bc.dynamo.trace.compilation import SiteRefused

_NUMBERS = (int, float, bool)
_TOTAL = frozenset(
    [
        operator.add,
        operator.sub,
        operator.mul,
        operator.iadd,
        operator.isub,
        operator.imul,
        operator.lt,
        operator.le,
        operator.gt,
        operator.ge,
        operator.eq,
        operator.ne,
        operator.neg,
        operator.pos,
        abs,
        float,
        str,
        repr,
        min,
        max,
    ]
)
_WHOLE = (int, round)
_DIVISIONS = frozenset([operator.truediv, operator.itruediv])
_FORMATS = frozenset([operator.mod, operator.imod])
_PASSED_ON = frozenset([isinstance, issubclass, type, str.format, print, setattr])
_ASKS_TRUTH = frozenset([*_PASSED_ON, bool, operator.not_, operator.truth])
_LOGIC = frozenset([operator.and_, operator.or_])
_ASKS_IDENTITY = {operator.is_: False, operator.is_not: True}


def call_builtin(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`BuiltinVariable.call_function` for arguments that are known only after the graph."""

    def call_function(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> Any:
        if self.fn is iter and len(args) == 1 and isinstance(args[0], OpaqueIterable):
            return args[0].tp_iter_impl(tx)
        if (known := known_truth_among(args)) is not None:
            return _asked_of(known, self, tx, args, kwargs, stock)
        host = host_among(args)
        if self.fn in (min, max) and _mixes_symbols(args):
            refuse_symbols(f"'{self.fn.__name__}' of an int and a float may be either.")
        if self.fn not in _ASKS_TRUTH and not (self.fn in _LOGIC and all(map(_is_truth, args))):
            check_truths(args, self.fn)
        if host is None or self.fn in _PASSED_ON:
            try:
                return stock(self, tx, args, kwargs)
            except (OverflowError, ValueError) as error:
                # Of a float that this call of the frame got: the program raises it in its place.
                if self.fn not in _WHOLE:
                    raise
                raise exc.Unsupported(f"{self.fn.__name__}: {error}", PRINT_BREAK) from error
        check_moments(args)
        try:
            return computed_on_host(tx, host, self.fn, list(args), kwargs)
        except SiteRefused:
            if (traced := with_traced(args)) is None:
                raise
            return call_function(self, tx, traced, kwargs)

    return call_function


def _asked_of(
    known: KnownTruth, function: Any, tx: Translator, args: Args, kwargs: Keywords, stock: Any
) -> Any:
    """What a builtin gives for a value of which the trace knows little more than its truth."""
    if function.fn in _TRUTHS and len(args) == 1:
        return ConstantVariable.create(known.truth() is not (function.fn is operator.not_))
    try:
        return stock(function, tx, args, kwargs)
    except exc.Unsupported:
        known.refuse(getattr(function.fn, "__name__", str(function.fn)))


_TRUTHS = (bool, operator.truth, operator.not_)


def computed_on_host(
    tx: Translator, host: HostVariable, function: Any, args: Args, kwargs: Keywords
) -> VariableTracker:
    """The result of an operation on host values.

    Args:
        tx: translator of the frame that is traced.
        host: one of the arguments.
        function: a builtin.
        args, kwargs: its arguments.

    Raises:
        SiteRefused: the operation may raise, or its result is needed now.
    """
    name = getattr(function, "__name__", str(function))
    args = [arg.realize() for arg in args]
    chosen = chosen_among(args)
    if chosen is not None and function not in _ASKS_IDENTITY:
        return computed_with_both(tx, chosen, function, args, kwargs)
    if chosen is not None and chosen.may_be_none():
        chosen.refuse(name)
    if function in _ASKS_IDENTITY:
        if any(arg.is_constant_none() for arg in args):
            return cast(VariableTracker, ConstantVariable.create(_ASKS_IDENTITY[function]))
        host.refuse(name)  # True is always the same object, and so are small numbers
    if kwargs or not _cannot_raise(function, args):
        host.refuse(name)
    try:
        kind = type(function(*[_sample(arg) for arg in args]))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        host.refuse(name)
    if kind not in (*_NUMBERS, str) or (function in (min, max) and _mixes_types(args)):
        host.refuse(name)
    return ComputedVariable(host.site, kind, function, args)


def _is_truth(value: VariableTracker) -> bool:
    if value.is_python_constant():
        return type(value.as_python_constant()) is bool
    value = value.realize()
    return isinstance(value, SymNodeVariable) and value.python_type() is bool


def _mixes_symbols(args: Sequence[VariableTracker]) -> bool:
    return any(isinstance(arg, SymNodeVariable) for arg in args) and _mixes_types(args)


def _mixes_types(args: Sequence[VariableTracker]) -> bool:
    return len({arg.python_type() for arg in args}) > 1


def _cannot_raise(function: Any, args: list[VariableTracker]) -> bool:
    numbers = [_is_number(arg) for arg in args]
    if function in (str, repr):
        return len(args) == 1
    if function in (operator.add, operator.iadd) and all(_is_text(arg) for arg in args):
        return True
    if function in _FORMATS:
        return len(args) == 2 and args[0].is_python_constant() and _fits_format(*args)
    if function is round:
        digits = args[1].as_python_constant() if len(args) == 2 and numbers[0] else None
        return isinstance(digits, int) and digits >= 0
    if not all(map(_is_bounded, args)) and (function in _DIVISIONS or _mixes_types(args)):
        return False  # no float may be able to hold it
    if function in _DIVISIONS:
        return all(numbers) and _is_never_zero(args[1])
    return function in _TOTAL and all(numbers)


def _is_bounded(value: VariableTracker) -> bool:
    """False for an int that products may have made large."""
    if not isinstance(value, ComputedVariable) or value.kind is not int:
        return True
    return value.function not in (operator.mul, operator.imul) and all(
        map(_is_bounded, value.operands)
    )


def _fits_format(text: VariableTracker, value: VariableTracker) -> bool:
    """True for one number formatted by a conversion that takes every number of its type."""
    pattern = text.as_python_constant()
    if not isinstance(pattern, str) or not isinstance(value, HostVariable):
        return False
    try:
        for sample in samples(value.kind):
            pattern % sample
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def samples(kind: type) -> tuple[Any, ...]:
    """Values of a type among which there is one that fails, if any does."""
    found: dict[type, tuple[Any, ...]] = {
        bool: (True, False),
        int: (0, -1, 2**64),
        float: (0.0, -1e308, float("nan"), float("inf")),
        str: ("",),
        list: ([],),
    }
    return found.get(kind, (kind(),))


def _is_never_zero(value: VariableTracker) -> bool:
    """True for a number that is known, or guarded on, to be no zero."""
    if isinstance(value, SymNodeVariable):
        return bool(value.sym_num != 0)
    return value.is_python_constant() and bool(value.as_python_constant())


def _is_number(value: VariableTracker) -> bool:
    if isinstance(value, HostVariable):
        return value.kind in _NUMBERS
    if isinstance(value, SymNodeVariable):
        return value.python_type() in _NUMBERS
    if not value.is_python_constant():
        return False
    constant = value.as_python_constant()
    # Larger ones could make an int that no float holds.
    return type(constant) in _NUMBERS and not (type(constant) is int and abs(constant) >= 2**63)


def _is_text(value: VariableTracker) -> bool:
    if isinstance(value, HostVariable):
        return value.kind is str
    return value.is_python_constant() and type(value.as_python_constant()) is str


def _sample(value: VariableTracker) -> Any:
    if isinstance(value, HostVariable):
        return value.sample()
    if isinstance(value, SymNodeVariable):
        return value.python_type()(1)
    return value.as_python_constant()
