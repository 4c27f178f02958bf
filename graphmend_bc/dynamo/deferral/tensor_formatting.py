"""Texts of tensors, made while tracing and formatted after the graph."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch._dynamo import exc
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.misc import StringFormatVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable

from graphmend_bc.catalog.observers import PRINT_BREAK
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.host_values.argument_snapshots import (
    Snapshots,
    Snapshotter,
    formatted_in,
    is_container,
)
from graphmend_bc.dynamo.host_values.host_arithmetic import samples
from graphmend_bc.dynamo.host_values.host_reads import is_plain
from graphmend_bc.dynamo.host_values.host_value import HostVariable
from graphmend_bc.dynamo.host_values.text_settings import TextSettings
from graphmend_bc.dynamo.symbols.captures import is_unknown, refuse_captured
from graphmend_bc.dynamo.symbols.known_integers import number_in
from graphmend_bc.dynamo.trace.compilation import Compilation, current
from graphmend_bc.reporting.reasons import Refused

FORMAT_ERRORS = (TypeError, ValueError, OverflowError, AttributeError, LookupError)
"""What `str.format` raises if it does not take a value."""

_CONVERSIONS = {1: "{!s}", 2: "{!r}", 3: "{!a}"}
"""Formats by the number that the instruction has for them."""


def convert_value(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`f"{tensor!r}"`: the conversion is left to the format."""

    def convert(self: Any, value: Any, flag: int) -> Any:
        compilation = current()
        if compilation is None or not compilation.may_mend or flag not in _CONVERSIONS:
            return stock(self, value, flag)
        value = value.realize()
        if not is_plain(value) and not isinstance(value, HostVariable):
            return stock(self, value, flag)
        return StringFormatVariable(_CONVERSIONS[flag], [value], {})

    return convert


def format_value(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`f"{number}"` of a number that differs between calls, or of a tensor whose number is known.

    Stock breaks the graph if the number is a float or an input. Computed integers it makes
    constants; the text may be needed as a name then, so those are left alone. The text of a tensor
    without dimensions is its number's.
    """

    def format_(self: Any, spec: VariableTracker, flags: int) -> Any:
        value, compilation = self.stack[-1].realize(), current()
        if compilation is not None and is_plain(value) and not flags & 3:
            number = number_in(compilation.trace, value)
            if number is not None and not value.as_proxy().node.meta["example_value"].dim():
                self.stack[-1] = ConstantVariable.create(number)
                return stock(self, spec, flags)
        varies = isinstance(value, SymNodeVariable) and (
            value.source is not None or value.python_type() is float
        )
        if (
            compilation is None
            or not compilation.may_mend
            or not isinstance(value, SymNodeVariable)
        ):
            return stock(self, spec, flags)
        if not varies:
            return _format_computed(self, stock, value, spec, flags)
        self.pop()
        conversion = _CONVERSIONS.get(flags & 3, "{}")[1:-1]
        text = f"{{{conversion}:{spec.as_python_constant()}}}"
        self.push(facts.text_of_format(self, text, [value]))
        return None

    return format_


def _format_computed(
    tx: Any, stock: Callable[..., Any], value: SymNodeVariable, spec: VariableTracker, flags: int
) -> Any:
    """The text of a computed integer, a constant; stock hands its text to a format for numbers."""
    text = spec.as_python_constant()
    if not text or flags & 3:
        return stock(tx, spec, flags)
    tx.stack[-1] = ConstantVariable.create(format(value.evaluate_expr(tx.output), text))
    return None


def make_format(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the tensors of a text as they are when it is made: it is formatted after the graph."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        compilation = current()
        if compilation is None or not compilation.may_mend:
            return
        _check_spec(self)
        keep = partial(_kept, compilation, self)
        self.sym_args = [keep(arg) for arg in self.sym_args]
        self.sym_kwargs = {name: keep(arg) for name, arg in self.sym_kwargs.items()}

    return __init__


def _check_spec(text: StringFormatVariable) -> None:
    """Give up a number whose text could raise: `f"{value:d}"` of a float does."""
    values = [value.realize() for value in (*text.sym_args, *text.sym_kwargs.values())]
    for value in values:
        if isinstance(value, HostVariable) and _may_raise(text, value, value.kind):
            value.refuse("format")
        if is_plain(value) and _fails(text, value):
            raise exc.Unsupported("The format does not take such a tensor.", PRINT_BREAK)
        if is_unknown(value) and _may_raise(text, value, value.python_type()):
            refuse_captured(f"The format {text.format_string!r} does not take every such number.")


def _may_raise(text: StringFormatVariable, value: VariableTracker, kind: type) -> bool:
    return any(_fails_for(text, value, sample) for sample in samples(kind))


def _fails_for(text: StringFormatVariable, value: VariableTracker, sample: object) -> bool:
    args = [_shown(arg.realize(), value, sample) for arg in text.sym_args]
    kwargs = {k: _shown(v.realize(), value, sample) for k, v in text.sym_kwargs.items()}
    try:
        text.format_string.format(*args, **kwargs)
    except FORMAT_ERRORS:
        return True
    return False


def _fails(text: StringFormatVariable, value: TensorVariable) -> bool:
    """True if the format raises for a tensor; which, its dtype and number of dimensions tell."""
    example = value.as_proxy().node.meta["example_value"]
    if not re.search(r"[:.\[]", text.format_string):
        return False
    sample = torch.ones([1] * example.dim(), dtype=example.dtype)
    return _fails_for(text, value, sample)


class _AnyText:
    """Formatted by any specification."""

    def __format__(self, spec: str) -> str:
        return ""


def _shown(value: VariableTracker, number: VariableTracker, sample: object) -> object:
    return sample if value is number else _AnyText()


def _kept(
    compilation: Compilation, text: StringFormatVariable, value: VariableTracker
) -> VariableTracker:
    value, trace = value.realize(), compilation.trace
    if not is_plain(value) and not is_container(value):
        return value
    if any(value is made for made in formatted_in(trace)):
        return value
    try:
        kept = Snapshotter(InstructionTranslator.current_tx(), compilation)(value)
    except Refused as refused:
        if refused.reason.code == "effect-settings":
            trace.of(TextSettings).moved.append(text)
        return value
    if isinstance(kept, TensorVariable) or is_container(kept):
        trace.of(Snapshots).formatted.append(kept)
    return kept
