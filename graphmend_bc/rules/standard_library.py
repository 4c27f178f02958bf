"""Functions of the standard library, and functions that prepare something once.

Eager calls the latter in the first call of the frame; we do when the frame is compiled, which is
just before. Then the frame is traced anew, with everything as it is now.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType, MethodDescriptorType
from typing import Any, Final

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import NestedUserFunctionVariable

from graphmend_bc.catalog.first_use import Preparation, preparation_by
from graphmend_bc.catalog.polyfills import polyfill_by
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.concrete_eval import evaluate_concretely
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.calls.markers import outlined
from graphmend_bc.dynamo.trace.compilation import Compilation, Trace
from graphmend_bc.dynamo.trace.tracing import inline
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee, Outline
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.named import get_logger


class Prepared(Exception):
    """Something was prepared; the frame has to be traced anew."""


def _prepared(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    function: VariableTracker,
    args: Sequence[VariableTracker],
) -> VariableTracker:
    assert isinstance(function, NestedUserFunctionVariable)
    preparation = preparation_by(function.get_code())
    polyfill = polyfill_by(function.get_code())
    if preparation is not None:
        _prepare(tx, compilation, site, preparation, args)
    elif polyfill is None:
        raise Refused("once-not-sure", "The function is not known.")
    if polyfill is not None:
        if compilation.is_saved and polyfill is get_logger:
            raise Refused("under-export", "The logger may not be there where it is loaded.")
        compilation.trace.used[site] = "polyfill"
        return inline(tx, polyfill, function, *args)
    compilation.trace.used[site] = "once"
    return function.call_function(tx, list(args), {})


prepared = outlined(_prepared)
"""Handler: what a function gives that finds its argument prepared; it raises `Prepared` once."""


def _prepare(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    preparation: Preparation,
    args: Sequence[VariableTracker],
) -> None:
    subject = _subject(args, preparation)
    if preparation.is_done(subject):
        return
    if tx.export:
        raise Refused("under-export")
    if compilation.trace.arms or not _speculations_hold(tx, compilation.trace):
        raise Refused("once-not-sure", "It depends on a condition.")
    preparation.function(subject)
    if not preparation.is_done(subject):  # another version of the function; not called again
        raise Refused("once-not-sure", "It did not prepare its argument.")
    raise Prepared(
        f"{subject if isinstance(subject, str) else type(subject).__name__} was prepared at {site}."
    )


def _subject(args: Sequence[VariableTracker], preparation: Preparation) -> Any:
    """The module that is to be prepared, or the name of what is."""
    found = args[0].realize() if len(args) == 1 else None
    if found is not None and preparation.by_name and found.is_python_constant():
        return found.as_python_constant()
    model = getattr(found, "value", None)
    if not isinstance(model, torch.nn.Module):
        raise Refused("once-not-sure", "Its argument is no module, and not known.")
    return model


def _speculations_hold(tx: InstructionTranslatorBase, trace: Trace) -> bool:
    """True if what was assumed so far is known to be right in this call."""
    return all(evaluate_concretely(tx, trace, wrong) is False for _, wrong in trace.speculations)


def _matches_library(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and polyfill_by(site.code) is not None
    return {site.offset: Outline()} if known else None


LIBRARY = Rule(
    "library",
    "polyfill",
    3,
    _matches_library,
    frozenset({"Unsupported context manager", "Unresolved GetAttrVariable comparison"}),
    handler=prepared,
)
"""`functools.cached_property` and `logging.getLogger` are traced without the locks they hold."""


def _matches_once(site: BreakSite) -> Rewrites | None:
    code = site.code
    known = site.gb_type and preparation_by(code) is not None and polyfill_by(code) is None
    return {site.offset: Outline()} if known else None


ONCE = Rule("once", "once", 2, _matches_once, handler=prepared)
"""A function that prepares a module the first time it is used is called while compiling."""


_COPIES: Final = MappingProxyType({kind.copy: kind for kind in (dict, list, set)})
"""From the function that copies to the type that it copies."""


def _copied(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    # Since CPython 3.14 it is called as a method of the type.
    if (read := facts.method_read(callee.callee.realize())) is not None and read[1] == "copy":
        owner = read[0].realize()
        kind = owner.as_python_constant() if owner.is_python_constant() else None
        function = next((method for method, known in _COPIES.items() if known is kind), function)
    if not isinstance(function, MethodDescriptorType) or function not in _COPIES:
        return None
    copied = args[0].realize() if len(args) == 1 and not kwargs else None
    # A subclass may have a method of its own, which the function does not call.
    if copied is None or copied.python_type() is not _COPIES[function]:
        return None
    return copied.call_method(tx, "copy", [], {})


copied = known_call("copy", _copied)


def _matches_copies(site: BreakSite) -> Rewrites | None:
    # `copier` is the name in the code of `copy.copy`.
    known = site.gb_type and site.callee in ("copier", "copy")
    return {site.offset: MarkCallee(in_order=False)} if known else None


COPIES = Rule(
    "copies",
    "copy",
    9,
    _matches_copies,
    frozenset({"Attempted to call function marked as skipped", "Unsupported method call"}),
    handler=copied,
)
"""`copy.copy` of a plain dict, list or set is traced as its own method `copy`."""

RULES = (LIBRARY, ONCE, COPIES)
