"""What a primitive means inside a Dynamo trace."""

from __future__ import annotations

from typing import Any

from torch._dynamo.codegen import PyCodegen
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import UserFunctionVariable
from torch._dynamo.variables.tensor import TensorVariable, UnspecializedPythonVariable

from graphmend_bc.dynamo import effects, select
from graphmend_bc.dynamo.compilation import current
from graphmend_bc.reasons import Refused
from graphmend_bc.runtime import Both, Branch, Defer, Primitive


class PrimitiveVariable(VariableTracker):
    """A primitive met as a constant of rewritten code."""

    _nonvar_fields = {"primitive", *VariableTracker._nonvar_fields}

    def __init__(self, primitive: Primitive, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.primitive = primitive

    def python_type(self) -> type:
        return type(self.primitive)

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen.append_output(codegen.create_load_const_unchecked(self.primitive))

    def call_function(
        self,
        tx: InstructionTranslatorBase,
        args: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        """Trace a call of the primitive; without a compilation of ours, trace what Python would do."""
        del kwargs
        compilation = current()
        if isinstance(self.primitive, Defer):
            return args[0] if compilation is None else effects.deferred(tx, compilation, self.primitive.site, args[0])
        condition = args[0].realize()
        if compilation is None or not _is_plain_tensor(condition):
            plain = _branch if isinstance(self.primitive, Branch) else _both
            extra = [] if isinstance(self.primitive, Branch) else [
                VariableTracker.build(tx, self.primitive.first),
                VariableTracker.build(tx, self.primitive.second),
            ]
            return UserFunctionVariable(plain).call_function(tx, [*extra, condition, *args[1:]], {})
        try:
            select.check_is_outermost(tx)
            tracer = select.SiteTracer(tx, compilation, self.primitive.site)
            if isinstance(self.primitive, Branch):
                return tracer.branch(condition, args[1], args[2], args[3:])
            assert isinstance(self.primitive, Both)
            return tracer.both(self.primitive, condition, args[1], args[2:])
        except Refused as refused:
            raise select.as_break(compilation, self.primitive.site, refused) from refused


def _is_plain_tensor(value: VariableTracker) -> bool:
    return isinstance(value, TensorVariable) and not isinstance(value, UnspecializedPythonVariable)


# Traced by Dynamo for conditions that are not tensors; the same as calling the primitive.


def _branch(predicate: Any, when_true: Any, when_false: Any, *live_ins: Any) -> Any:
    if predicate:
        return when_true(*live_ins)
    return when_false(*live_ins)


def _both(first: bool, second: bool, condition: Any, test: Any, *live_ins: Any) -> bool:
    if first:
        if not condition:
            return False
    elif condition:
        return False
    return test(*live_ins) if second else not test(*live_ins)
