"""Methods of text on the name of a class or function that Dynamo keeps as torch's own.

`type(weight).__module__.startswith("torchao.")`: Dynamo knows the names of most classes, but holds
those of `nn.Parameter`, of dtypes' classes and of torch's functions as attributes to be read later.
"""

from __future__ import annotations

import weakref
from types import BuiltinFunctionType, FunctionType

from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.misc import GetAttrVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.guarded_constants import guard_on
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.enum_texts import METHODS, method_of_text, method_read
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

_NAMES = ("__module__", "__name__", "__qualname__")


def _of_name(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """What the method gives for the name, which is a constant of the trace."""
    text, method = method_read(callee.callee.realize())
    if not isinstance(text, GetAttrVariable) or method not in METHODS:
        return None
    named, name = getattr(text.obj.realize(), "value", None), text.name
    known = getattr(named, name) if name in _NAMES and _is_plain(named) else None
    if type(known) is not str:
        return None
    if callee.compilation.is_saved:
        raise Refused("under-export", "Nobody asks for the name again where it is loaded.")
    again = weakref.ref(named)
    guard_on(f"{name} of {id(named)}", lambda: getattr(again(), name, None), known)
    return method_of_text(tx, known, method, args, kwargs)


def _is_plain(named: object) -> bool:
    """True for a function, or a class whose own class has no say in what its name is."""
    if isinstance(named, type):
        return type(named).__getattribute__ is type.__getattribute__
    return isinstance(named, (BuiltinFunctionType, FunctionType))


def _matches(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.callee in METHODS
    return {site.offset: MarkCallee(in_order=False)} if known else None


NAME = Rule(
    "name-text",
    "polyfill",
    10,
    _matches,
    frozenset({"Unsupported method call"}),
    handler=known_call("polyfill", _of_name),
)
"""`type(weight).__module__.startswith("torchao.")` is that of the name."""

RULES = (NAME,)
