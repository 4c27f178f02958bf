"""What a `contextvars.ContextVar` gives: an input, read in the context of each call."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinMethodType
from typing import Any, ClassVar, Final, NoReturn

from torch._dynamo.bytecode_transformation import create_instruction
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._guards import Source

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.computed_source import HoistedSource
from graphmend_bc.dynamo.before_graph.graph_slice import Slice
from graphmend_bc.dynamo.before_graph.prologue import call_in_prologue
from graphmend_bc.dynamo.calls.cached_calls import is_cached
from graphmend_bc.dynamo.calls.callees import owner_of
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.trace.compilation import Compilation, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused

_UNSET: Final = object()


@dataclass(slots=True, eq=False)
class ContextValues(Feature):
    """What context variables gave in an attempt, by the question."""

    stays: ClassVar[bool] = True

    known: dict[str, VariableTracker] = field(default_factory=dict)


def _got(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """The value of `variable.get()`; None if it is another function.

    Raises:
        Refused: a guard could not read it.
    """
    variable = getattr(function, "__self__", None)
    if not isinstance(function, BuiltinMethodType) or type(variable) is not ContextVar:
        return None
    if function.__name__ != "get" or kwargs or len(args) > 1:
        return None
    trace, owner = callee.compilation.trace, owner_of(callee.callee)
    source = None if owner is None else owner.source
    if owner is None or source is None or callee.compilation.is_saved:
        raise Refused("probe-not-fixed", "A guard would not find the context variable.")
    if is_cached(trace):
        raise Refused("probe-not-fixed", "It is asked in a function that caches its results.")
    if trace.recorder is not None and trace.recorder.foreign:
        raise Refused("probe-not-fixed", "A function that is not traced runs before it.")
    read = _reading(source, has_default=bool(args))
    value = read.function(variable)
    if value is _UNSET:
        _guard_on_unset(source, read)
        return args[0] if args else _raise(tx, owner)
    known = trace.of(ContextValues).known
    if read.label not in known:
        if type(value) is float and value == 0:  # a guard on it does not tell 0.0 from -0.0
            text = read.text()
            install_guard(HoistedSource(text.label, text).make_guard(GuardBuilder.CONSTANT_MATCH))
        # Not `hoisted_source`: what a lookup remembers would keep the program's object alive.
        local = call_in_prologue(tx, read.function, read.sources, "context")
        where = HoistedSource(read.label, read, local)
        known[read.label] = VariableTracker.build(tx, value, where)
    return known[read.label]


context_value = known_call("probe", _got)


def get_unset(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`ContextVarVariable._get_value` of torch 2.14, which does not guard on what raises."""

    def _get_value(self: Any, tx: Any, has_default: bool, default_value: Any) -> Any:
        compilation = current()
        is_unset = not has_default and _read(False, self.cv_obj) is _UNSET
        if is_unset and self.source is not None and compilation is not None:
            compilation.trace.of(UnsetVariables).sources.append(self.source)
            _raise(tx, self)
        return stock(self, tx, has_default, default_value)

    return _get_value


@dataclass(slots=True, eq=False)
class UnsetVariables(Feature):
    """Context variables that gave nothing to Dynamo, by their sources."""

    stays: ClassVar[bool] = True

    sources: list[Source] = field(default_factory=list)

    def on_graph_end(self, compilation: Compilation, tx: Any, is_break: bool) -> None:
        """Guard on them, if the frame is mended: stock's graph breaks may hide that it does not."""
        if compilation.is_mended and not compilation.is_saved:
            for source in dict.fromkeys(self.sources):
                _guard_on_unset(source, _reading(source, has_default=False))


def _reading(source: Source, has_default: bool) -> Slice:
    read = partial(_read, has_default)
    return Slice(f"value of {source.name} {has_default}", (source,), read)


def _read(has_default: bool, variable: Any) -> object:
    """What a context variable gives, or that it gives nothing of its own."""
    if type(variable) is not ContextVar:
        return object()  # no guard holds
    try:
        return variable.get(_UNSET) if has_default else variable.get()
    except LookupError:
        return _UNSET


def _guard_on_unset(source: Source, read: Slice) -> None:
    asked = Slice(f"{read.label} is unset", (source,), lambda value: read.function(value) is _UNSET)
    install_guard(HoistedSource(asked.label, asked).make_guard(GuardBuilder.CONSTANT_MATCH))


def _raise(tx: Any, owner: VariableTracker) -> NoReturn:
    """Raise what `get` raises, in the trace."""
    tx.push(BuiltinVariable(LookupError).call_function(tx, [owner], {}))
    tx.RAISE_VARARGS(create_instruction("RAISE_VARARGS", arg=1))
    raise AssertionError("The trace goes on after an exception.")
