"""`torch.jit.isinstance`, which torchaudio asks for the types of its options."""

from __future__ import annotations

from typing import Final

import torch
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

_IS_INSTANCE: Final = torch.jit.isinstance
_CONTAINERS: Final = (dict, list, tuple)
"""Classes that it refuses: it wants to be told what is in them."""


def _asked(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """What the builtin `isinstance` says, which is asked in the end."""
    if function is not _IS_INSTANCE or _IS_INSTANCE.__module__ != "torch.jit":
        return None
    if kwargs or len(args) != 2:
        raise Refused("call-not-traced", "It is given a keyword, or not two arguments.")
    kinds = args[1].realize()
    known = kinds.as_python_constant() if kinds.is_python_constant() else None
    if not all(map(_is_plain, known if type(known) is tuple else (known,))):
        raise Refused("call-not-traced", "It is asked for something else than a plain class.")
    builtin: VariableTracker = VariableTracker.build(tx, isinstance)
    return builtin.call_function(tx, [args[0], kinds], {})


def _is_plain(kind: object) -> bool:
    """True for a class that says itself what its objects are, and looks into none."""
    is_container = any(kind is container for container in _CONTAINERS)
    return kind is torch.Tensor or (type(kind) is type and not is_container)


def _matches(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.callee == "isinstance"
    return {site.offset: MarkCallee(in_order=False)} if known else None


SCRIPT_TYPE = Rule(
    "script-type",
    "polyfill",
    9,
    _matches,
    frozenset({"Attempted to call function marked as skipped"}),
    handler=known_call("polyfill", _asked),
)
"""`torch.jit.isinstance(option, str)` is what `isinstance` says."""

RULES = (SCRIPT_TYPE,)
