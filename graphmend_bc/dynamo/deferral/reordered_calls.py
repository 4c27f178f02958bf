"""Functions of `torch._dynamo.config.reorderable_logging_functions`, which Dynamo itself defers.

Stock notes such a call where it is made, without keywords, and shows tensors as they are after the
graph. A call in an inlined function is lost. Mended graphs are larger and inline more, so here such
a call is deferred as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch._dynamo.variables.constant import ConstantVariable

from graphmend_bc import config
from graphmend_bc.catalog.observers import Observer, observer_of
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.deferral.deferred_calls import DeferredCallVariable
from graphmend_bc.dynamo.frames.breaks import instruction_of
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, current
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_OF_USERS: Final = Observer("", gradients="refuse")


def call_reordered(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`DebuggingVariable.call_function`: a call that the user lets Dynamo make after the graph."""

    def call_function(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> Any:
        compilation = current()
        place = None if compilation is None or tx.export else instruction_of(tx)
        known = facts.may_reorder(self, args, kwargs)
        if compilation is None or place is None or not compilation.may_mend or not known:
            return stock(self, tx, args, kwargs)
        try:
            _defer(self, tx, compilation, compilation.planner.site_at(*place), args, kwargs)
        except Refused as refused:
            if compilation.trace.arms:
                raise SiteRefused(refused, compilation.trace.arms[-1]) from refused
            is_inner = refused.reason.code in ("inside-transform", "inside-function")
            return stock(self, tx if is_inner else tx.output.root_tx, args, kwargs)
        return ConstantVariable.create(None)

    return call_function


def _defer(
    callee: Any, tx: Translator, compilation: Compilation, site: Site, args: Args, kwargs: Keywords
) -> None:
    if "defer" not in config.strategies or "defer" in config.rules_off:
        raise Refused("strategy-off", "It is 'defer'.")
    if not compilation.mends(site):
        raise Refused("call-not-traced")
    observer = observer_of(callee.value, config.effects) or _OF_USERS
    call = DeferredCallVariable(site, callee, callee.value, observer, compilation)
    call.defer(tx, args, kwargs)
