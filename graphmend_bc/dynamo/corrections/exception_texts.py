"""`str(error)`, where the class of an exception has a `__str__` of its own.

str(KeyError("k"))   is "'k'"; torch 2.13 gives the text of what the error was made of
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch._dynamo.exc import unimplemented
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Translator
from graphmend_bc.dynamo.trace.compilation import current


def text_of_exception(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`BuiltinVariable.call_str`, by the class of an exception."""

    def call_str(self: Any, tx: Translator, arg: Any) -> Any:
        compilation = current()
        if compilation is None or not compilation.may_mend or not isinstance(arg, facts.EXCEPTIONS):
            return stock(self, tx, arg)
        method: Any = arg.exc_type.__str__
        if isinstance(method, FunctionType):
            return VariableTracker.build(tx, method).call_function(tx, [arg], {})
        if method is KeyError.__str__ and len(arg.args) == 1:
            return BuiltinVariable(repr).call_function(tx, [*arg.args], {})
        if issubclass(arg.exc_type, _BY_FIELDS):
            unimplemented(
                gb_type="Text of an exception",
                context=f"str() of {arg.exc_type}",
                explanation="Its class makes the text of its fields.",
                hints=[],
            )
        return stock(self, tx, arg)

    return call_str


_BY_FIELDS = (OSError, SyntaxError, UnicodeError)
