"""`NDArray[np.float64]`: an item of a parametrised type, which stock takes for any object."""

from __future__ import annotations

import typing
from types import GenericAlias
from typing import Any, Final

from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import LocalSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._guards import Source

from graphmend_bc.dynamo.calls.markers import marker_as_python
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.operands import is_subscript
from graphmend_bc.rewriting.plan import CallOperation
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import CalledOperation, Marker


def _item(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: the type with its parameters filled in, which Python computes of constants alone."""
    assert isinstance(marker, CalledOperation)
    owner, key = (item.realize() for item in args[0].unpack_var_sequence(tx))
    try:
        alias, source = _alias(owner)
        if not key.is_python_constant():
            raise Refused("call-not-traced", "What it is asked for is no constant.")
        filled = _filled(alias, key.as_python_constant())
    except Refused as refused:
        compilation.trace.refused[marker.site] = refused
        return marker_as_python(tx, marker, args)
    install_guard(source.make_guard(GuardBuilder.ID_MATCH))
    compilation.trace.used[marker.site] = "polyfill"
    found: VariableTracker = VariableTracker.build(tx, filled)
    return found


def _alias(owner: VariableTracker) -> tuple[GenericAlias, Source]:
    """The type that is asked, with nothing in it that runs code of the program's, and its place."""
    alias: Any = getattr(owner, "value", None)
    if type(alias) is not GenericAlias:
        raise Refused("call-not-traced", "It is no parametrised type.")
    # One that the caller has made for this call is another object in the next one.
    if owner.source is None or isinstance(owner.source, LocalSource):
        raise Refused("call-not-traced", "The type was not there before the call.")
    if not _is_plain(alias):
        raise Refused("call-not-traced", "The type has parameters of the program's own kind.")
    return alias, owner.source


def _is_plain(part: Any) -> bool:
    """True if Python itself knows how to fill in each parameter of a part of a type."""
    if type(part) is GenericAlias:
        kinds = map(type, part.__parameters__)
        return all(kind in _PARAMETERS for kind in kinds) and all(map(_is_plain, part.__args__))
    return isinstance(part, type) or not getattr(part, "__parameters__", ())


_PARAMETERS: Final = (typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple)


def _filled(alias: Any, key: object) -> Any:
    try:
        return alias[key]
    except TypeError as error:  # where the program can catch it
        raise Refused("call-not-traced", "Python raises a TypeError there.") from error


def _matches(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and is_subscript(site.op)
    return {site.offset: CallOperation()} if known else None


GENERIC_ALIAS = Rule(
    "generic-alias",
    "polyfill",
    9,
    _matches,
    frozenset(
        {
            "missing_mp_subscript",
            "C-implemented special method without VariableTracker model",  # torch 2.15
        }
    ),
    handler=_item,
)
"""`NDArray[np.float64]` is the type that Python makes of it, a constant."""

RULES = (GENERIC_ALIAS,)
