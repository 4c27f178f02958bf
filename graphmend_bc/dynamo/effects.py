"""Deferred effects: calls that only observe run after the graph, with their arguments as they were.

Dynamo runs the `debug_locals` of the root translator right after the graph and before it replays
side effects. An effect is put there from however deep an inlined function it was met in.
"""

from __future__ import annotations

import builtins
import logging
from functools import partial
from inspect import CO_GENERATOR
from typing import Any, ClassVar

import torch
from torch._dynamo import variables as vts
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.builder import wrap_fx_proxy
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.functions import WrapperUserMethodVariable
from torch._dynamo.variables.lists import ListVariable, TupleVariable
from torch._dynamo.variables.misc import StringFormatVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable

from graphmend_bc import config
from graphmend_bc.dynamo.compilation import Compilation
from graphmend_bc.dynamo.epilogue import RuntimeCallVariable
from graphmend_bc.dynamo.select import check_is_outermost
from graphmend_bc.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.effects import run

PRINT_BREAK = "Failed to trace builtin operator"
LOGGER_BREAK = "logging.Logger method not supported for non-export cases"
"""What stock Dynamo calls the breaks at calls of `print` and of logger methods."""

_LOGGER_METHODS = frozenset(["debug", "info", "warning", "warn", "error", "critical", "log"])
_NEEDS_STACK = frozenset({"stacklevel", "stack_info", "exc_info"})


def deferred(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, callee: VariableTracker
) -> VariableTracker:
    """The callee of a marked call: one that defers if it only observes, else itself.

    Args:
        tx: translator of the frame in which the call stands.
        compilation: what is being compiled.
        site: the call in the user's code.
        callee: what is to be called.
    """
    if tx.export or not _only_observes(_real_object(callee)):
        return callee
    return DeferredCallVariable(site, callee, compilation)


class DeferredCallVariable(VariableTracker):
    """A callee whose call is noted for later instead of being traced."""

    _nonvar_fields: ClassVar[set[str]] = {"site", "compilation", *VariableTracker._nonvar_fields}  # type: ignore[misc]

    def __init__(
        self, site: Site, callee: VariableTracker, compilation: Compilation, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.site = site
        self.callee = callee
        self.compilation = compilation

    def python_type(self) -> type:
        return self.callee.python_type()

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen(self.callee)

    def call_function(
        self,
        tx: InstructionTranslatorBase,
        args: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        """Note the call; where that would not be exact, trace it as stock Dynamo does."""
        trace = self.compilation.trace
        try:
            check_is_outermost(tx)
            for name in _NEEDS_STACK & kwargs.keys():
                raise Refused("effect-stack", f"The keyword is '{name}'.")
            _check_frames(tx)
            keep = _Keeper(tx, self.compilation)
            kept = [keep(arg) for arg in args]
            _check_print_keywords(kwargs)
            kept_kwargs = {k: _file(v) if k == "file" else keep(v) for k, v in kwargs.items()}
        except Refused as refused:
            trace.refused[self.site] = refused
            return self.callee.call_function(tx, args, kwargs)
        predicates: list[VariableTracker] = [
            TupleVariable([predicate, ConstantVariable.create(taken)])
            for predicate, taken in trace.predicates
        ]
        call = [self.callee, TupleVariable(predicates), TupleVariable(kept), _dict(kept_kwargs)]
        effect = RuntimeCallVariable("__gm_effect", partial(run, self.site, tx.f_globals))
        tx.output.root_tx.debug_locals.append((effect, call))
        trace.used[self.site] = "defer"
        is_print = isinstance(self.callee, vts.BuiltinVariable)
        trace.gb_types[self.site] = PRINT_BREAK if is_print else LOGGER_BREAK
        trace.effects.append(self.site)
        return ConstantVariable.create(None)


class _Keeper:
    """Makes values that will still be what they are now when the graph has run."""

    def __init__(self, tx: InstructionTranslatorBase, compilation: Compilation) -> None:
        self.tx = tx
        self.trace = compilation.trace
        self.recorder = compilation.trace.listen(tx.output.fake_mode)

    def __call__(self, value: VariableTracker) -> VariableTracker:
        value = value.realize()
        if isinstance(value, TensorVariable):
            return self._tensor(value)
        if isinstance(value, StringFormatVariable):
            args = [self(arg) for arg in value.sym_args]
            kwargs = {name: self(arg) for name, arg in value.sym_kwargs.items()}
            return StringFormatVariable(value.format_string, args, kwargs)
        if type(value) is ListVariable:
            return ListVariable(
                [self(item) for item in value.items], mutation_type=ValueMutationNew()
            )
        if type(value) is TupleVariable:
            return TupleVariable([self(item) for item in value.items])
        if value.is_python_constant() or isinstance(value, SymNodeVariable):
            return value
        raise Refused("effect-argument", f"It is a {type(value).__name__}.")

    def _tensor(self, value: TensorVariable) -> VariableTracker:
        example = value.as_proxy().node.meta["example_value"]
        if value.python_type() is not torch.Tensor:
            raise Refused("effect-argument", "It is a parameter or another kind of tensor.")
        if example.requires_grad:
            raise Refused("effect-shows-grad")
        proxy = self.tx.output.create_proxy("call_method", "clone", (value.as_proxy(),), {})
        copy = wrap_fx_proxy(self.tx, proxy)
        self.trace.snapshots.append((copy.as_proxy().node, len(self.recorder.written)))
        return copy


def _check_frames(tx: InstructionTranslatorBase | None) -> None:
    """Refuse effects in generators: Dynamo may run the rest of one that the program does not."""
    while tx is not None:
        if tx.f_code.co_flags & CO_GENERATOR:
            raise Refused("effect-in-generator")
        tx = tx.parent


def _check_print_keywords(kwargs: dict[str, VariableTracker]) -> None:
    """Refuse what would make the call itself raise, where the user may expect to catch it."""
    for name in kwargs.keys() & {"sep", "end"}:
        value = kwargs[name].realize()
        if not value.is_python_constant() or not isinstance(
            value.as_python_constant(), (str, type(None))
        ):
            raise Refused("effect-argument", f"The keyword is '{name}'.")


def _file(value: VariableTracker) -> VariableTracker:
    """The stream a print goes to: the object itself, not a copy."""
    value = value.realize()
    if value.source is None and not value.is_constant_none():
        raise Refused("effect-argument", "The stream was made inside the compiled function.")
    return value


def _dict(values: dict[str, VariableTracker]) -> VariableTracker:
    items = {ConstantVariable.create(name): value for name, value in values.items()}
    return ConstDictVariable(items, mutation_type=ValueMutationNew())


def _real_object(callee: VariableTracker) -> object:
    """The Python object behind a callee, or None if it cannot be named again after the graph."""
    callee = callee.realize()
    if isinstance(callee, vts.BuiltinVariable):
        return callee.fn
    if callee.source is None:
        return None
    if isinstance(callee, WrapperUserMethodVariable):
        return _bound(callee.obj, callee.wrapper_obj)
    if isinstance(callee, vts.UserMethodVariable):
        return _bound(callee.obj, callee.fn)
    if isinstance(callee, vts.GetAttrVariable):
        owner = getattr(callee.obj, "value", None)
        return getattr(owner, callee.name, None) if isinstance(owner, logging.Logger) else None
    return getattr(callee, "fn", None) or getattr(callee, "value", None)


def _bound(owner: VariableTracker, function: Any) -> object:
    value = getattr(owner, "value", None)
    return None if value is None else function.__get__(value)


def _only_observes(function: object) -> bool:
    if function is builtins.print or any(function is known for known in config.effects):
        return True
    owner, method = getattr(function, "__self__", None), getattr(function, "__func__", None)
    if not isinstance(owner, logging.Logger) or method is None:
        return False
    if any(method is vars(logging.Logger).get(name) for name in _LOGGER_METHODS):
        return True
    inner = getattr(method, "__wrapped__", None)
    return hasattr(method, "cache_info") and _only_logs(inner)


def _only_logs(function: Any) -> bool:
    """True for a cached method that only passes its arguments to the logger's own methods."""
    code = getattr(function, "__code__", None)
    return code is not None and not code.co_freevars and set(code.co_names) <= _LOGGER_METHODS
