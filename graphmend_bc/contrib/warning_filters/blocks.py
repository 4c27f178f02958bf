"""Filters that a frame sets in blocks of `warnings.catch_warnings`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from types import CodeType
from typing import Any, ClassVar, Final

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.ctx_manager import (
    CatchWarningsCtxManagerVariable,
    WithExitFunctionVariable,
)

from graphmend_bc.contrib.warning_filters.recorded import silent
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.features import Feature, RollbackNeed
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.mark_callee import calls_named
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.signal_handlers import pass_on

_SETTERS: Final = (warnings.simplefilter, warnings.filterwarnings)
_CALLED: Final = frozenset(
    ("catch_warnings", "filterwarnings", "simplefilter", "warn", "warn_explicit")
)
"""What `warnings` has that tells nothing of the filters."""

Filter = tuple[Any, ...]
"""What `warnings.filters` holds: an action, a text, a category, a module and a line."""


@dataclass(slots=True, eq=False)
class Filters(Feature):
    """Filters that a frame sets in blocks of `catch_warnings`.

    Attributes:
        sites: the calls that set them.
        own: the filters, as `warnings.filters` holds them while tracing.
    """

    order: ClassVar[int] = 95  # what ends the graph may defer more

    sites: list[Site] = field(default_factory=list)
    own: list[Filter] = field(default_factory=list)

    def on_module_question(self, module: object, name: str) -> None:
        if module is warnings and name not in _CALLED:
            raise self.refused(f"'warnings.{name}' is read.")

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        if is_break and any(item is known for item in warnings.filters for known in self.own):
            raise self.refused("The graph breaks inside the block.")
        if compilation.trace.effects:
            raise self.refused("A call that runs after the graph may warn.")
        if not any(node.op.startswith("call") for node in tx.output.graph.nodes):
            raise self.refused("The graph is empty.")

    def rolls_back(self) -> RollbackNeed:
        return RollbackNeed.WORTH_COPIES

    def blamed(self) -> list[Site]:
        return self.sites

    def on_commit(self, compilation: Compilation) -> bool:
        return True

    def wrapped(self, compilation: Compilation, graph: Callable[..., Any]) -> Callable[..., Any]:
        failed = partial(compilation.outcomes.site_failed, self.sites[0])
        return silent(graph, None if compilation.one_graph else failed)

    def refused(self, detail: str) -> SiteRefused:
        """What leaves the blocks to Python."""
        return SiteRefused(Refused("flags-not-neutral", detail), *self.sites)


def _block(tx: InstructionTranslatorBase | None) -> CatchWarningsCtxManagerVariable | None:
    """The innermost block that is open; until it ends, what leaves it is on the stack."""
    while tx is not None:
        for item in reversed(tx.stack):
            ctx = item.ctx if isinstance(item, WithExitFunctionVariable) else None
            if isinstance(ctx, CatchWarningsCtxManagerVariable):
                return ctx
        tx = getattr(tx, "parent", None)
    return None


def set_filter(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """Set a filter while tracing; Dynamo restores what it was where the block ends."""
    if not any(function is setter for setter in _SETTERS):
        return None
    compilation, block = callee.compilation, _block(tx)
    _check_place(tx, compilation, block)
    known = [value.realize() for value in (*args, *kwargs.values())]
    if not all(value.is_python_constant() for value in known):
        raise Refused("flags-not-neutral", "What the filter is for is not constant.")
    given = [value.as_python_constant() for value in known]
    named = dict(zip(kwargs, given[len(args) :], strict=True))
    if named.get("append") or len(args) > _BEFORE_APPEND[function is _SETTERS[1]]:
        raise Refused("flags-not-neutral", "The filter is appended to others.")
    try:
        function(*given[: len(args)], **named)  # type: ignore[operator]
    except Exception as error:
        pass_on(error)
        raise Refused("flags-not-neutral", f"It raises {type(error).__name__}.") from error
    _check_shown(warnings.filters[0])
    filters = compilation.trace.of(Filters)
    filters.sites.append(callee.site)
    filters.own.append(warnings.filters[0])
    result: VariableTracker = ConstantVariable.create(None)
    return result


def _check_shown(filter: Filter) -> None:
    """Refuse to show or raise what operators say: AOTAutograd's graphs do not say it to Python."""
    action, _, category, *_ = filter
    concerned = issubclass(UserWarning, category) or issubclass(category, UserWarning)
    if action != "ignore" and concerned:
        raise Refused("flags-not-neutral", "It may show or raise a warning of an operator.")


_BEFORE_APPEND: Final = (3, 5)
"""How many parameters `simplefilter` and `filterwarnings` have before `append`."""


def _check_place(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    block: CatchWarningsCtxManagerVariable | None,
) -> None:
    """Refuse where the filter may stay, or may not be set."""
    if block is None:
        raise Refused("flags-not-neutral", "It is not in a block of `warnings.catch_warnings`.")
    given = block.catch_warnings_args.values()
    if any(value.as_python_constant() not in (False, None) for value in given):
        raise Refused("flags-not-neutral", "The block has options.")
    check_is_outermost(tx)
    if compilation.trace.arms:
        raise Refused("flags-not-neutral", "It is in an arm that may not be taken.")
    if compilation.is_saved:
        raise Refused("under-export")
    if getattr(sys.flags, "context_aware_warnings", False):
        raise Refused("flags-not-neutral", "Each context has filters of its own.")


def setters_in(code: CodeType) -> Collection[int]:
    """The calls that set filters in a code object that has a block for them."""
    if "catch_warnings" not in code.co_names or not NAMES.intersection(code.co_names):
        return ()
    return calls_named(code, NAMES)


NAMES: Final = frozenset(setter.__name__ for setter in _SETTERS)
