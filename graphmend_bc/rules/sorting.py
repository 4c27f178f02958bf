"""Lists that are sorted by tensors."""

from __future__ import annotations

from collections.abc import Sequence

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import ListVariable
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.graph.emit import method
from graphmend_bc.dynamo.predication.site_tracer import SiteTracer
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import Marker, Speculate


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
        """`items.sort(key=..., reverse=...)` or `sorted(items, ...)`, if the keys are tensors."""
        callee = self.callee.realize()
        if kwargs.keys() - {"key", "reverse"}:
            return None
        check_is_outermost(tx)
        if (read := facts.method_read(callee)) is not None and not args:
            items = read[0].realize()
            if type(items) is not ListVariable or not items.is_mutable():
                return None
            order = self._order(tx, items.items, kwargs)
            tx.output.side_effects.mutation(items)
            items.items[:] = order
            result: VariableTracker = ConstantVariable.create(None)
            return result
        if isinstance(callee, BuiltinVariable) and callee.fn is sorted and len(args) == 1:
            order = self._order(tx, args[0].unpack_var_sequence(tx), kwargs)
            return ListVariable(order, mutation_type=ValueMutationNew())
        return None

    def _order(
        self,
        tx: InstructionTranslatorBase,
        items: Sequence[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> list[VariableTracker]:
        """The items as Python sorts them.

        Raises:
            Refused: a key is no tensor.
        """
        key, reverse = kwargs.get("key"), kwargs.get("reverse")
        if key is None or key.realize().is_constant_none():
            keys = [item.realize() for item in items]
        else:
            keys = [key.call_function(tx, [item], {}).realize() for item in items]
        if not all(type(found) is TensorVariable for found in keys):
            raise Refused("call-not-traced", "Not every key is a tensor.")
        tracer = SiteTracer(tx, self.compilation, self.site)
        order = sorted(
            (_Key(tracer, found, place) for place, found in enumerate(keys)),
            reverse=reverse is not None and bool(reverse.as_python_constant()),
        )
        return [items[entry.place] for entry in order]


class _Key:
    """The key of one item, compared as `list.sort` compares keys."""

    def __init__(self, tracer: SiteTracer, key: VariableTracker, place: int) -> None:
        self.tracer, self.key, self.place = tracer, key, place

    def __lt__(self, other: _Key) -> bool:
        """Whether the tensor is less than another, which is assumed and checked."""
        less = method(self.tracer.tx, "lt", self.key, other.key)
        return bool(self.tracer.speculate(less, Speculate(self.tracer.site)).as_python_constant())


ORDER = Rule(
    "order",
    "speculate",
    44,
    _matches,
    frozenset({"sort with non-constant keys"}),
    handler=_sorting,
)
"""The order of a list that is sorted by tensors is assumed to be that of this call.

Each comparison that `list.sort` makes is a truth value of a tensor, which is speculated on like the
condition of a branch. Python's own sort asks for them, so they are the ones that eager Python asks
for, in its order.
"""

RULES = (ORDER,)
