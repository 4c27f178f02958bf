"""`warnings.simplefilter` and `filterwarnings` in a block of `warnings.catch_warnings`.

Dynamo leaves such a block out of the graph. So it is shown in each call that nothing warns while
the graph runs, whatever the filters are: if something does, the graph is rolled back and the
original code runs. What the program itself says in the block, and a filter of the block hides, is
left out.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from types import CodeType
from typing import Any, ClassVar, Final

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.ctx_manager import (
    CatchWarningsCtxManagerVariable,
    WithExitFunctionVariable,
)

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.deferral.deferred_calls import KnownCallee
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, current
from graphmend_bc.dynamo.trace.features import Feature, RollbackNeed
from graphmend_bc.dynamo.trace.planner import GraphOutcomes
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.extension import Extension
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.mark_callee import CALLS, name_of_callee
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.signal_handlers import pass_on

_SETTERS: Final = (warnings.simplefilter, warnings.filterwarnings)
_WARN: Final = warnings.warn
_CALLED: Final = frozenset(
    ("catch_warnings", "filterwarnings", "simplefilter", "warn", "warn_explicit")
)
"""What `warnings` has that tells nothing of the filters."""

_Filter = tuple[Any, ...]
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
    own: list[_Filter] = field(default_factory=list)

    def on_module_question(self, module: object, name: str) -> None:
        if module is warnings and name not in _CALLED:
            raise self._refused(f"'warnings.{name}' is read.")

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        if is_break and any(item is known for item in warnings.filters for known in self.own):
            raise self._refused("The graph breaks inside the block.")
        if compilation.trace.effects:
            raise self._refused("A call that runs after the graph may warn.")
        if not any(node.op.startswith("call") for node in tx.output.graph.nodes):
            raise self._refused("The graph is empty.")

    def rolls_back(self) -> RollbackNeed:
        return RollbackNeed.WORTH_COPIES

    def blamed(self) -> list[Site]:
        return self.sites

    def on_commit(self, compilation: Compilation) -> bool:
        return True

    def wrapped(self, compilation: Compilation, graph: Callable[..., Any]) -> Callable[..., Any]:
        return _silent(graph, compilation.outcomes, self.sites[0])

    def _refused(self, detail: str) -> SiteRefused:
        return SiteRefused(Refused("flags-not-neutral", detail), *self.sites)


def _silent(graph: Callable[..., Any], told: GraphOutcomes, site: Site) -> Callable[..., Any]:
    """A compiled graph that is rolled back if anything warns meanwhile."""

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        with _recorded() as said:
            results = graph(*args, **kwargs)
        if said:
            told.site_failed(site, "flags-not-neutral", "An operator of the graph warned")
            raise RuntimeError(f"An operator warned: {said[0]}")
        return results

    return run_graph


_alone: Final = RLock()


@contextmanager
def _recorded() -> Iterator[list[object]]:
    """Record all that is said meanwhile, in place of showing it.

    What torch says only once is said each time, and counts as not yet said. To set filters makes
    `warnings` forget what it has shown, as the program's block does. Another thread may enter a
    block meanwhile and leave it later: it then puts back what shows as before.
    """
    said: list[object] = []
    with _alone:
        filters, show, always = (
            warnings.filters,
            warnings.showwarning,
            torch.is_warn_always_enabled(),
        )
        is_open = True

        def record(message: Any, *args: Any, **kwargs: Any) -> None:
            if is_open:
                said.append(message)
            else:
                show(message, *args, **kwargs)

        ours: Any = [*filters]
        warnings.filters, warnings.showwarning = ours, record
        _SETTERS[0]("always")
        torch.set_warn_always(True)
        try:
            yield said
        finally:
            is_open = False
            torch.set_warn_always(always)
            ours[:] = filters
            if warnings.filters is ours:
                warnings.filters = filters
            if warnings.showwarning is record:
                warnings.showwarning = show


def _block(tx: InstructionTranslatorBase | None) -> CatchWarningsCtxManagerVariable | None:
    """The innermost block that is open; until it ends, what leaves it is on the stack."""
    while tx is not None:
        for item in reversed(tx.stack):
            ctx = item.ctx if isinstance(item, WithExitFunctionVariable) else None
            if isinstance(ctx, CatchWarningsCtxManagerVariable):
                return ctx
        tx = getattr(tx, "parent", None)
    return None


def _set(
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
    filters = compilation.trace.of(Filters)
    filters.sites.append(callee.site)
    filters.own.append(warnings.filters[0])
    result: VariableTracker = ConstantVariable.create(None)
    return result


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


def _sets(code: CodeType) -> Collection[int]:
    """The calls that set filters in a code object that has a block for them."""
    if "catch_warnings" not in code.co_names or not _NAMES.intersection(code.co_names):
        return ()
    graph = graph_of(code)
    calls = [op for op in graph.listing.ops if op.name in CALLS]
    return [call.offset for call in calls if name_of_callee(graph, call) in _NAMES]


_NAMES: Final = frozenset(setter.__name__ for setter in _SETTERS)


class WarningVariable(MarkedCalleeVariable):
    """`warnings.warn` in a block with filters of the frame."""

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker | None:
        """Nothing, if a filter of the block hides it."""
        text, category = _said(args, kwargs)
        own = self.compilation.trace.of(Filters).own
        for item in warnings.filters:
            if not any(item is known for known in own):
                raise Refused("effect-moved", "The function catches warnings.")
            action, about, kind, module, line = item
            if not issubclass(category, kind):
                continue
            if about is not None and (text is None or not about.match(text)):
                if text is None:
                    raise Refused("effect-moved", "The function catches warnings.")
                continue
            if action != "ignore" or module is not None or line:
                break
            self.compilation.trace.used[self.site] = "flags"
            result: VariableTracker = ConstantVariable.create(None)
            return result
        raise Refused("effect-moved", "The function catches warnings.")


def _said(args: Args, kwargs: Keywords) -> tuple[str | None, type[Warning]]:
    """The text of a warning, None if it is not known, and its category.

    Raises:
        Refused: the category is not known, or what is said is no text.
    """
    given = dict(zip(("message", "category"), args, strict=False)) | kwargs
    message, category = given.get("message"), given.get("category")
    said = None if message is None else message.realize()
    if said is None or said.python_type() is not str:
        raise Refused("effect-moved", "The function catches warnings.")
    kind = None if category is None else category.realize()
    known = kind.as_python_constant() if kind is not None and kind.is_python_constant() else None
    if kind is not None and not (isinstance(known, type) and issubclass(known, Warning)):
        raise Refused("effect-moved", "The function catches warnings.")
    text = said.as_python_constant() if said.is_python_constant() else None
    return text, known or UserWarning


def _is_filtered(function: object) -> bool:
    compilation = current() if function is _WARN else None
    return compilation is not None and compilation.trace.known(Filters) is not None


def _warning(
    site: Site, callee: VariableTracker, function: object, compilation: Compilation
) -> VariableTracker:
    del function
    return WarningVariable(site, callee, compilation)


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee(in_order=False)} if site.callee in _NAMES else None


EXTENSION: Final = Extension(
    "warnings",
    rules=(
        Rule(
            "filters",
            "flags",
            7,
            _matches,
            handler=known_call("flags", _set),
            needs=frozenset({capabilities.MODULE_FLAGS}),
            expects=_sets,
        ),
    ),
    callees=(KnownCallee(_is_filtered, _warning),),
)
