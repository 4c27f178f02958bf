"""What a primitive means inside a Dynamo trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch._dynamo.codegen import PyCodegen
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.higher_order import depth_of
from graphmend_bc.dynamo.calls.markers import marker_as_python
from graphmend_bc.dynamo.host_values.host_reads import is_plain
from graphmend_bc.dynamo.predication import site_tracer
from graphmend_bc.dynamo.predication.empty_selection import with_empty_selection
from graphmend_bc.dynamo.predication.while_loop import loop
from graphmend_bc.dynamo.speculation.backward_conditions import forward_value, note_condition
from graphmend_bc.dynamo.speculation.speculate import assume
from graphmend_bc.dynamo.symbols.captures import is_unknown
from graphmend_bc.dynamo.trace import tracing
from graphmend_bc.dynamo.trace.compilation import Compilation, current
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Both, Branch, Loop, Marker, Primitive, Speculate


def load_const(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`InstructionTranslatorBase._load_const`: the constant may be a primitive."""

    def _load_const(self: Any, inst: Any) -> VariableTracker:
        if isinstance(inst.argval, Primitive):
            return PrimitiveVariable(inst.argval)
        constant: VariableTracker = stock(self, inst)
        return constant

    return _load_const


class PrimitiveVariable(VariableTracker):
    """A primitive met as a constant of rewritten code."""

    _nonvar_fields: ClassVar[set[str]] = {"primitive", *VariableTracker._nonvar_fields}  # type: ignore[misc]

    def __init__(self, primitive: Primitive, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.primitive = primitive

    def python_type(self) -> type:
        return type(self.primitive)

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen.append_output(codegen.create_load_const_unchecked(self.primitive))

    def call_function(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        """Trace a call of the primitive; without a compilation, trace what Python would do."""
        del kwargs
        compilation = current()
        if compilation is not None and not compilation.mends(self.primitive.site):
            compilation = None
        if isinstance(self.primitive, Marker):
            handler = None if compilation is None else compilation.handlers.get(self.primitive.rule)
            if compilation is None or handler is None:
                return marker_as_python(tx, self.primitive, args)
            return handler(tx, compilation, self.primitive, args)
        condition = args[0].realize()
        if isinstance(self.primitive, Loop):
            return self._as_loop(tx, compilation, condition, args[1:])
        if compilation is None or not is_plain(condition):
            if compilation is not None and isinstance(self.primitive, Speculate):
                return self._as_assumption(tx, compilation, condition)
            if compilation is not None and _is_either(self.primitive) and is_unknown(condition):
                return self._as_no_branch(tx, compilation, condition, args[1:])
            return self._as_python(tx, condition, args[1:])
        tracer = site_tracer.SiteTracer(tx, compilation, self.primitive.site)
        try:
            return self._as_choice(tracer, condition, args[1:])
        except Refused as refused:
            if not (isinstance(self.primitive, Branch) and self.primitive.conditional):
                tracer.go_on(condition, refused)
            raise tracing.as_break(compilation, self.primitive.site, refused) from refused

    def _as_assumption(
        self, tx: InstructionTranslatorBase, compilation: Compilation, condition: VariableTracker
    ) -> VariableTracker:
        """A speculation on a condition on symbols, such as the size of a tensor."""
        assert isinstance(self.primitive, Speculate)
        if is_unknown(condition):
            try:
                value = assume(tx, compilation, self.primitive, condition)
                return ConstantVariable.create(value)
            except Refused as refused:
                raise tracing.as_break(compilation, self.primitive.site, refused) from refused
        return self._as_python(tx, condition, [])

    def _as_no_branch(
        self,
        tx: InstructionTranslatorBase,
        compilation: Compilation,
        condition: SymNodeVariable,
        rest: list[VariableTracker],
    ) -> VariableTracker:
        """A branch on a size that does nothing if there is nothing to do it with."""
        tracer = site_tracer.SiteTracer(tx, compilation, self.primitive.site)
        try:
            tracing.check_is_outermost(tx)
            return with_empty_selection(tracer, condition, rest[0], rest[1], rest[2:])
        except Refused as refused:
            raise tracing.as_break(compilation, self.primitive.site, refused) from refused

    def _as_python(
        self,
        tx: InstructionTranslatorBase,
        condition: VariableTracker,
        rest: list[VariableTracker],
    ) -> VariableTracker:
        if isinstance(self.primitive, Both):
            first = ConstantVariable.create(self.primitive.first)
            second = ConstantVariable.create(self.primitive.second)
            whole = tracing.inline(tx, _both, first, second, condition, *rest)
            compilation = current()
            if compilation is None:
                return whole
            return compilation.trace.of(site_tracer.ShortCircuits).note(
                whole, site_tracer.FirstPart(None, None)
            )
        if isinstance(self.primitive, Speculate):
            return tracing.inline(tx, tracing.is_true, condition)
        return tracing.inline(tx, _branch, condition, *rest)

    def _as_loop(
        self,
        tx: InstructionTranslatorBase,
        compilation: Compilation | None,
        condition: VariableTracker,
        rest: list[VariableTracker],
    ) -> VariableTracker:
        assert isinstance(self.primitive, Loop)
        if compilation is None:
            carried, enters, again = (
                ConstantVariable.create(value)
                for value in (self.primitive.carried, self.primitive.enters, self.primitive.again)
            )
            return tracing.inline(tx, _loop, carried, enters, again, condition, *rest)
        tracer = site_tracer.SiteTracer(tx, compilation, self.primitive.site)
        try:
            if isinstance(condition, TensorVariable):
                ours = 0 if self.primitive.entered else depth_of(compilation.trace)
                tracing.check_is_outermost(tx, ours)
            return loop(tracer, self.primitive, condition, rest[0], rest[1:])
        except Refused as refused:
            raise tracing.as_break(compilation, self.primitive.site, refused) from refused

    def _as_choice(
        self,
        tracer: site_tracer.SiteTracer,
        condition: TensorVariable,
        rest: list[VariableTracker],
    ) -> VariableTracker:
        tx = tracer.tx
        if isinstance(self.primitive, Speculate) and tracing.functions_around(tx):
            check_no_function_mode(tx)
            value = tracer.speculate(condition, self.primitive)
            note_condition(tracer.trace, condition, value.as_python_constant())
            return value
        if (known := forward_value(tx, tracer.compilation, condition, tracer.site)) is not None:
            return self._as_python(tx, ConstantVariable.create(known), rest)
        ours = 0 if isinstance(self.primitive, Speculate) else depth_of(tracer.trace)
        tracing.check_is_outermost(tx, ours)
        if (constant := tracer.fold(condition)) is not None:
            return self._as_python(tx, ConstantVariable.create(constant), rest)
        if isinstance(self.primitive, Both):
            return tracer.both(self.primitive, condition, rest[0], rest[1:])
        if isinstance(self.primitive, Speculate):
            return tracer.speculate(condition, self.primitive)
        assert isinstance(self.primitive, Branch)
        return tracer.branch(self.primitive, condition, rest[0], rest[1], rest[2:])


def _is_either(primitive: Primitive) -> bool:
    """True for a branch whose arms are both traced."""
    return isinstance(primitive, Branch) and not primitive.conditional


# Traced by Dynamo for conditions that are not tensors; the same as calling the primitive.


def _branch(predicate: Any, when_true: Any, when_false: Any, *live_ins: Any) -> Any:
    if predicate:
        return when_true(*live_ins)
    return when_false(*live_ins)


def _loop(
    carried: int, enters: bool, again: bool, condition: Any, step: Any, *variables: Any
) -> Any:
    state, fixed = variables[:carried], variables[carried:]
    goes_on = enters
    while condition if goes_on else not condition:
        condition, *state = step(*state, *fixed)
        goes_on = again
    return tuple(state)


def _both(first: bool, second: bool, condition: Any, test: Any, *live_ins: Any) -> bool:
    if first:
        if not condition:
            return False
    elif condition:
        return False
    return test(*live_ins) if second else not test(*live_ins)
