"""`min` and `max` of the program's own objects, which the methods of their class compare.

`torch.distributions.kl_divergence` chooses so among the functions that it knows for two classes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Final

from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.lists import TupleVariable

from graphmend_bc.dynamo.absence.own_operators import is_users
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.trace.compilation import SiteRefused
from graphmend_bc.dynamo.trace.tracing import inline, is_true
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

_COMPARED: Final = MappingProxyType({min: operator.lt, max: operator.gt})


def _chosen(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """The object that is chosen: each is asked for as it is compared, as Python does it."""
    if function not in (min, max) or kwargs or not args:
        return None
    compared = _COMPARED[function]
    items = args[0] if len(args) == 1 else TupleVariable(list(args))
    if issubclass(items.python_type(), (set, frozenset)):  # Dynamo does not keep their order
        return None
    found = inline(tx, _begun, items)
    best = _next(tx, found)
    if best is None:
        raise _used_up(callee, "There is nothing to choose from.")
    while (item := _next(tx, found)) is not None:
        if not is_users(best) or best.python_type() is not item.python_type():
            raise _used_up(callee, "It compares something else than objects of one class.")
        said = BuiltinVariable(compared).call_function(tx, [item, best], {})
        truth = inline(tx, is_true, said) if not said.is_tensor() else said
        if not truth.is_python_constant():
            raise _used_up(callee, "A tensor says which one is chosen.")
        best = item if truth.as_python_constant() else best
    return best


def _used_up(callee: KnownCalleeVariable, detail: str) -> SiteRefused:
    """The end of the attempt: what the function was given may be an iterator that was asked."""
    return SiteRefused(Refused("call-not-traced", detail), callee.site)


def _next(tx: Translator, found: VariableTracker) -> VariableTracker | None:
    given = inline(tx, _step, found).unpack_var_sequence(tx)
    return given[0].realize() if given else None


def _begun(items: Iterable[object]) -> Iterator[object]:
    return iter(items)


def _step(items: Iterator[object]) -> tuple[object, ...]:
    for item in items:
        return (item,)
    return ()


def _matches(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.callee in ("min", "max")
    return {site.offset: MarkCallee()} if known else None


EXTREME = Rule(
    "extreme",
    "polyfill",
    10,
    _matches,
    frozenset({"Failed to trace builtin operator"}),
    handler=known_call("polyfill", _chosen),
)
"""`min` and `max` of the program's own objects compare them by the methods of their class."""

RULES = (EXTREME,)
