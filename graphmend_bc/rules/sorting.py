"""Lists that are sorted by tensors, by numbers read from tensors, or by tuples of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import ListVariable

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.predication.key_order import KeyOrder
from graphmend_bc.dynamo.predication.site_tracer import SiteTracer
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.tracing import check_is_outermost, inline
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import Marker


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee()} if site.callee in ("sort", "sorted") else None


def _sorting(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: the method `sort` of a list."""
    return _SortVariable(marker.site, args[0], compilation)


class _SortVariable(MarkedCalleeVariable):
    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker | None:
        """`items.sort(key=..., reverse=...)` or `sorted(items, ...)`."""
        callee = self.callee.realize()
        if kwargs.keys() - {"key", "reverse"}:
            return None
        check_is_outermost(tx)
        if (read := facts.method_read(callee)) is not None and not args:
            items = read[0].realize()
            if type(items) is not ListVariable or not items.is_mutable():
                return None
            return self._sort(tx, items, kwargs)
        if isinstance(callee, BuiltinVariable) and callee.fn is sorted and len(args) == 1:
            if args[0].python_type() in (set, frozenset):  # Dynamo does not keep their order
                return None
            items = inline(tx, _listed, args[0])
            assert isinstance(items, ListVariable)
            return ListVariable(
                self._order(tx, items.items, kwargs), mutation_type=ValueMutationNew()
            )
        return None

    def _sort(self, tx: Translator, items: ListVariable, kwargs: Keywords) -> VariableTracker:
        found = list(items.items)
        items.items[:] = []  # what the function that gives the keys finds
        try:
            order = self._order(tx, found, kwargs)
            if items.items:
                raise Refused("call-not-traced", "The list is changed while it is sorted.")
        finally:
            items.items[:] = found
        tx.output.side_effects.mutation(items)
        items.items[:] = order
        result: VariableTracker = ConstantVariable.create(None)
        return result

    def _order(
        self, tx: InstructionTranslatorBase, items: Sequence[VariableTracker], kwargs: Keywords
    ) -> list[VariableTracker]:
        """The items as Python sorts them.

        Raises:
            Refused: it is not known how two keys compare.
        """
        key, reverse = kwargs.get("key"), kwargs.get("reverse")
        keys = items
        if key is not None and not key.realize().is_constant_none():
            keys = [key.call_function(tx, [item], {}) for item in items]
        compared = KeyOrder(SiteTracer(tx, self.compilation, self.site))
        order = sorted(
            (_Key(compared, found, place) for place, found in enumerate(keys)),
            reverse=reverse is not None and bool(reverse.as_python_constant()),
        )
        self.compilation.trace.used.setdefault(self.site, "polyfill")
        return [items[entry.place] for entry in order]


def _listed(values: Iterable[object]) -> list[object]:
    return [*values]


class _Key:
    """The key of one item, compared as `list.sort` compares keys."""

    def __init__(self, order: KeyOrder, key: VariableTracker, place: int) -> None:
        self.order, self.key, self.place = order, key, place

    def __lt__(self, other: _Key) -> bool:
        return self.order.is_less(self.key, other.key)


ORDER = Rule(
    "order",
    "speculate",
    44,
    _matches,
    frozenset({"sort with non-constant keys"}),
    handler=_sorting,
)
"""The order of a list that is sorted by tensors is assumed to be that of this call.

Each comparison that `list.sort` makes of tensors is a truth value, which is speculated on like the
condition of a branch. Python's own sort asks for them, so they are the ones that eager Python asks
for, in its order. Where other parts of the keys decide, no tensor is asked.
"""

RULES = (ORDER,)
