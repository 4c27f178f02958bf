"""The builtin `pow` of tensors."""

from __future__ import annotations

import operator

from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

_PARAMETERS = ("base", "exp", "mod")


def _power(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    if function is not pow or len(args) > len(_PARAMETERS):
        return None
    given = dict(zip(_PARAMETERS, args, strict=False))
    if given.keys() & kwargs.keys():
        return None
    given.update(kwargs)
    modulus = given.pop("mod", None)
    if given.keys() != {"base", "exp"}:
        return None
    if modulus is not None and not modulus.realize().is_constant_none():
        return None
    operands = [given["base"].realize(), given["exp"].realize()]
    if not all(map(_is_plain, operands)):
        return None
    check_no_function_mode(tx)
    return BuiltinVariable(operator.pow).call_function(tx, operands, {})


def _is_plain(operand: VariableTracker) -> bool:
    """True for tensors and numbers; objects of other classes have a say in what their power is."""
    if type(operand) in (TensorVariable, SymNodeVariable):
        return True
    return type(operand) is ConstantVariable and type(operand.value) in (bool, int, float, complex)


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee(in_order=False)} if site.callee == "pow" else None


POWER = Rule(
    "power",
    "polyfill",
    9,
    _matches,
    frozenset({"Failed to trace builtin operator", "invalid call to builtin op handler"}),
    handler=known_call("polyfill", _power),
)
"""`pow(a, b)` of a tensor is traced as `a ** b`, which is what it computes."""

RULES = (POWER,)
