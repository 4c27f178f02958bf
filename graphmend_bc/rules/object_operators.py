"""`a @ b` and the like of the program's own objects, whose classes say what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable

from graphmend_bc.dynamo.absence.own_operators import function_of, gives_up, is_users
from graphmend_bc.dynamo.calls.markers import marker_as_python
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.operands import binary_operator
from graphmend_bc.rewriting.plan import CallOperation
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import CalledOperation, Marker

_Method = tuple[VariableTracker, str, VariableTracker]
"""An operand, the name of its method, and the other operand."""


def computed(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: the methods of the operands are called, in the order in which Python calls them."""
    assert isinstance(marker, CalledOperation)
    left, right = (item.realize() for item in args[0].unpack_var_sequence(tx))
    try:
        methods = _methods(tx, left, right, marker.function)
    except Refused as refused:
        compilation.trace.refused[marker.site] = refused
        return marker_as_python(tx, marker, args)
    for owner, name, other in methods:
        value = owner.call_method(tx, name, [other], {})
        if not gives_up(value):
            compilation.trace.used[marker.site] = "polyfill"
            return value
    raise SiteRefused(Refused("call-not-traced", "No operand says what it is."), marker.site)


def _methods(
    tx: InstructionTranslatorBase,
    left: VariableTracker,
    right: VariableTracker,
    function: Callable[..., Any],
) -> list[_Method]:
    """The methods that Python tries, in its order, until one knows the other operand.

    Raises:
        Refused: one of them is no plain function, or what stands on the left is asked in C.
    """
    name = function.__name__.strip("_")
    is_in_place = name.startswith("i")  # `iadd`; no other operator begins with that letter
    name = name[1:] if is_in_place else name
    asks_right = name == "matmul" and type(left) is ConstantVariable  # no constant has a product
    if not (is_users(left) or asks_right):
        raise Refused("call-not-traced", "An operand is of a type written in C.")
    reflected = f"__r{name}__"
    tries: list[_Method] = [(left, f"__{name}__", right)]
    if left.python_type() is not right.python_type():
        found = function_of(tx, right, reflected)
        is_special = issubclass(right.python_type(), left.python_type())
        overrides = is_special and found is not function_of(tx, left, reflected)
        tries.insert(0 if found and overrides else 1, (right, reflected, left))
    if is_in_place:
        tries.insert(0, (left, f"__i{name}__", right))
    return [each for each in tries if function_of(tx, each[0], each[1]) is not None]


def _matches(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and binary_operator(site.op) is not None
    return {site.offset: CallOperation()} if known else None


OPERATORS = Rule(
    "operators",
    "polyfill",
    9,
    _matches,
    frozenset({"Failed to trace builtin operator", "Failed to convert args/kwargs to proxy"}),
    handler=computed,
)
"""`a @ b`, and `a + t` with a tensor, call the methods of the program's own objects."""

RULES = (OPERATORS,)
