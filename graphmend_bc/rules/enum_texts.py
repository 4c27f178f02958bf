"""Methods of text that are called on a member of an enumeration of texts."""

from __future__ import annotations

import enum
import inspect
import weakref
from types import MethodDescriptorType

from torch._dynamo import exc
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.guarded_constants import guard_on
from graphmend_bc.dynamo.calls.callees import owner_of
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

METHODS = frozenset(
    name
    for name, found in vars(str).items()
    if isinstance(found, MethodDescriptorType) and not name.startswith(("__", "format"))
)
"""Those that give something new: `format` may give the very object that it is called on."""


def _of_text(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """What the method gives for the plain text: a member is one object, and its text is fixed."""
    owner, name = method_read(callee.callee.realize())
    member = owner.value if isinstance(owner, UserDefinedObjectVariable) else None
    if not isinstance(member, enum.Enum) or not isinstance(member, str):
        return None
    if not _has_texts_own(member, name):
        return None
    if callee.compilation.is_saved:
        raise Refused("under-export", "Nobody asks for its class again where it is loaded.")
    known = weakref.ref(member)

    def is_texts() -> bool:
        return (asked := known()) is not None and _has_texts_own(asked, name)

    guard_on(f"text {id(member)} {name}", is_texts, True)
    return method_of_text(tx, str.__str__(member), name, args, kwargs)


def method_read(callee: VariableTracker) -> tuple[VariableTracker | None, str]:
    """The object whose method is called, and the name of that."""
    if (read := facts.method_read(callee)) is not None:
        return read[0].realize(), read[1]
    return owner_of(callee), getattr(getattr(callee, "descriptor", None), "__name__", "")


def method_of_text(
    tx: Translator, text: str, name: str, args: Args, kwargs: Keywords
) -> VariableTracker:
    """What a method of a plain text gives.

    Raises:
        Refused: it raises.
    """
    constant: VariableTracker = ConstantVariable.create(text)
    try:
        return constant.call_method(tx, name, args, kwargs)
    except exc.ObservedException as raised:
        exc.handle_observed_exception(tx)
        raise Refused("call-not-traced", "Dynamo would raise its error without a text.") from raised


def _has_texts_own(member: str, name: str) -> bool:
    """True if neither a member nor its class has a method in place of that of all texts."""
    return (
        name in METHODS
        and type(member).__getattribute__ is str.__getattribute__
        and inspect.getattr_static(member, name, None) is vars(str)[name]
    )


def _matches(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.callee in METHODS
    return {site.offset: MarkCallee(in_order=False)} if known else None


ENUM_TEXT = Rule(
    "enum-text",
    "polyfill",
    9,
    _matches,
    frozenset({"Unsupported method call"}),
    handler=known_call("polyfill", _of_text),
)
"""`mode.lower()` of a member of an enumeration of texts is that of its text."""

RULES = (ENUM_TEXT,)
