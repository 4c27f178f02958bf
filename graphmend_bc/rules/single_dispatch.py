"""Functions of `functools.singledispatch`, which choose by the class of their first argument."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Collection
from functools import partial
from types import CodeType, FunctionType
from typing import Final

from torch._dynamo.source import AttrSource, GetItemSource
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.catalog.first_use import is_same
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.guarded_constants import NO_ANSWER, answer_of, guard_on
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.mark_callee import calls_named
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import Rule


def _within(code: CodeType, *names: str) -> tuple[CodeType, ...]:
    """The code of functions that are defined in another one."""
    return tuple(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name in names)


_DISPATCH: Final = _within(functools.singledispatch.__code__, "dispatch")
_CALLERS: Final = (
    *_within(functools.singledispatch.__code__, "wrapper"),
    *_within(functools.singledispatchmethod.__get__.__code__, "_method"),
)
"""What calls it: a function of `singledispatch`, and a method of `singledispatchmethod`."""


def _dispatches(code: CodeType) -> Collection[int]:
    if code.co_name not in _NAMES or not any(is_same(code, known) for known in _CALLERS):
        return ()
    return calls_named(code, {"dispatch"})


_NAMES: Final = frozenset(code.co_name for code in _CALLERS)


def _chosen(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """The function that is chosen for a class, guarded on."""
    kind = args[0].realize() if len(args) == 1 and not kwargs else None
    if not isinstance(function, FunctionType) or function.__code__ not in _DISPATCH:
        return None
    if kind is None or not kind.is_python_constant():
        return None
    named = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    kind, found = kind.as_python_constant(), named["registry"].cell_contents
    chosen = answer_of(partial(function, kind))
    if chosen is NO_ANSWER:
        raise Refused("call-not-traced", "Choosing a function raises.")
    key = next(key for key, held in found.items() if held is chosen)
    if callee.compilation.is_saved:
        raise Refused("under-export", "Nobody asks again where it is loaded.")
    registry = _registry(tx, callee.callee.realize(), function)
    if tx.output.side_effects.is_modified(registry):
        raise Refused("call-not-traced", "The function itself registers another one.")
    _guard(function, kind, chosen)
    return registry.call_method(tx, "__getitem__", [VariableTracker.build(tx, key)], {})


def _registry(tx: Translator, dispatch: VariableTracker, function: FunctionType) -> VariableTracker:
    """The dict from classes to functions, which is in the closure of `dispatch`."""
    if dispatch.source is None:
        raise Refused("call-not-traced", "Where the function comes from is not known.")
    place = function.__code__.co_freevars.index("registry")
    cells = AttrSource(dispatch.source, "__closure__")
    cell = AttrSource(GetItemSource(cells, place), "cell_contents")
    assert function.__closure__ is not None
    found: VariableTracker = VariableTracker.build(
        tx, function.__closure__[place].cell_contents, cell
    )
    return found.realize()


def _guard(function: FunctionType, kind: type, chosen: object) -> None:
    """Compile anew if another function is chosen: one was registered, or a base class was."""
    known = weakref.ref(kind)

    def is_chosen() -> bool:
        return (asked := known()) is not None and function(asked) is chosen

    guard_on(f"dispatch {id(function)} {id(kind)}", is_chosen, True)


DISPATCH = Rule(
    "dispatch",
    "polyfill",
    9,
    lambda site: {site.offset: MarkCallee(in_order=False)} if site.callee == "dispatch" else None,
    handler=known_call("polyfill", _chosen),
    expects=_dispatches,
)
"""What `functools.singledispatch` chooses is asked for while tracing, and guarded on."""

RULES = (DISPATCH,)
