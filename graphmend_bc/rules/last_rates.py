"""`scheduler.get_last_lr()`, which torch marks as not to be traced with the rest of the class."""

from __future__ import annotations

from types import MethodType
from typing import Final

from torch._dynamo.variables.base import VariableTracker
from torch.optim.lr_scheduler import LRScheduler

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import owner_of
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.trace.tracing import inline
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

_NAME = "get_last_lr"


def _rates(scheduler: LRScheduler) -> object:
    """Traced by Dynamo in the place of the method, which does the same."""
    return scheduler._last_lr


_IS_KNOWN: Final = LRScheduler.get_last_lr.__code__.co_code == _rates.__code__.co_code


def _last(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    method = function.__func__ if isinstance(function, MethodType) else None
    owner = owner_of(callee.callee)
    if method is not LRScheduler.get_last_lr or owner is None or args or kwargs or not _IS_KNOWN:
        return None
    return inline(tx, _rates, owner)


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee()} if site.gb_type and site.callee == _NAME else None


LAST_RATE = Rule(
    "last-rate",
    "train",
    9,
    _matches,
    frozenset({"Attempted to inline function marked as skipped"}),
    handler=known_call("train", _last),
)
"""`scheduler.get_last_lr()` reads what the scheduler has set last."""

RULES = (LAST_RATE,)
