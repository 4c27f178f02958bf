"""Objects of the user's classes as keys, which torch 2.13 compares by their identity alone.

{Key(1): 2.0}.get(Key(1))   Python asks `Key.__eq__`, of the key that is held already
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch._dynamo.exc import unimplemented
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable

from graphmend_bc.dynamo.trace.compilation import current


def equal_as_keys(stock: Callable[..., bool]) -> Callable[..., bool]:
    """`UserDefinedObjectVariable.is_python_equal`, by the method of the object's class."""

    def is_python_equal(self: UserDefinedObjectVariable, other: Any) -> bool:
        compilation, same = current(), stock(self, other)
        if same or compilation is None or not compilation.may_mend:
            return same
        if not isinstance(getattr(type(self.value), "__eq__", None), FunctionType):
            return False
        tx = InstructionTranslator.current_tx()
        answer = BuiltinVariable(operator.eq).call_function(tx, [self, other], {})
        if not answer.is_python_constant():
            unimplemented(
                gb_type="Comparison of keys",
                context=f"{type(self.value)} == {other}",
                explanation="Whether two keys are equal is known when the graph runs.",
                hints=[],
            )
        return bool(answer.as_python_constant())

    return is_python_equal
