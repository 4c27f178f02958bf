"""A list of the indices at which a mask is true is taken to have them all.

`mask.nonzero(as_tuple=True)[0].tolist()` is how routers find the experts that have something to do.
The list steers the trace, so it cannot stay unknown until run time; but where many tokens are
routed every expert has some. So the list is assumed to be as long as the mask, and such a list is
that of all indices.
"""

from __future__ import annotations

import logging
import operator
from dataclasses import replace
from typing import Final, cast

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import ListVariable
from torch._dynamo.variables.misc import GetAttrVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch.fx import Node

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.graph_slice import Limits, slice_of
from graphmend_bc.dynamo.before_graph.hoist import HoistedCalleeVariable
from graphmend_bc.dynamo.graph.emit import compared
from graphmend_bc.dynamo.graph.fx_nodes import name_called
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.dynamo.speculation.speculate import assume
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.references import with_references
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.rules.scalar_reads import CAPTURABLE
from graphmend_bc.runtime import Marker, Speculate

log = logging.getLogger("graphmend_bc")


def listed(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    mark: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: the callee of a call that makes a list of a tensor."""
    return ListedCalleeVariable(mark.site, args[0], compilation)


class ListedCalleeVariable(HoistedCalleeVariable):
    """The callee of a call that makes a list of a tensor."""

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        """The list of a mask's indices: computed before the graph if possible, else assumed."""
        indices, mask = self._indices()
        if is_cheap(self.compilation.trace, mask):
            try:
                return super().value(tx, args, kwargs)
            except Refused as refused:
                why = with_references(refused)
                log.debug("graphmend_bc speculates on the list at %s: %s", self.site, why)
        try:
            return self._speculated(tx, indices, mask)
        except Refused as refused:
            raise SiteRefused(refused, self.site) from refused

    def limits(self) -> Limits:
        """What the slice may cost; how long the list is shows only at run time."""
        return replace(super().limits(), elements=None)

    def _indices(self) -> tuple[TensorVariable, Node]:
        """The indices, and their mask."""
        callee, trace = self.callee.realize(), self.compilation.trace
        refused = Refused("list-not-full", "It is not known to be a list of such indices.")
        if isinstance(callee, GetAttrVariable) and callee.name == "tolist":
            indices = callee.obj.realize()
            if type(indices) is TensorVariable:
                node = indices.as_proxy().node
                assert trace.recorder is not None
                written = storage_of(node.meta["example_value"]) in trace.recorder.written
                if (mask := mask_of(node)) is not None and not written:
                    return indices, mask
                if node.meta["example_value"].dtype.is_floating_point:
                    raise refused  # no attempt is lost: the next rule is tried in this one
        raise SiteRefused(refused, self.site)

    def _speculated(
        self, tx: InstructionTranslatorBase, indices: TensorVariable, mask: Node
    ) -> VariableTracker:
        length = len(mask.meta["example_value"])
        size = indices.call_method(tx, "size", [ConstantVariable.create(0)], {})
        if not isinstance(size, SymNodeVariable):
            raise Refused("list-not-full", "Its length is known already.")
        is_full = compared(tx, operator.eq, size, length)
        if not assume(tx, self.compilation, Speculate(self.site, likely=True), is_full):
            raise Refused("list-not-full", f"The mask has length {length}.")
        items = [ConstantVariable.create(index) for index in range(length)]
        return ListVariable(items, mutation_type=ValueMutationNew())


def is_cheap(trace: Trace, mask: Node) -> bool:
    """True if a mask can be computed before the graph, at a cost that nobody minds."""
    assert trace.recorder is not None
    try:
        slice_of([mask], tuple, "", trace.recorder, Limits.of_hoists())
    except Refused:
        return False
    return True


def mask_of(node: Node) -> Node | None:
    """The mask whose true indices a node gives in one dimension.

    Args:
        node: of a tensor.

    Returns:
        A node of one dimension whose size is known; None if there is none.
    """
    of_tuple = node.target is operator.getitem and bool(node.args[1] == 0)
    if not of_tuple and (name_called(node), node.args[1:], node.kwargs) not in _FLATTENING:
        return None
    return _known_mask(_source(cast(Node, node.args[0]), is_tuple=of_tuple))


def mask_of_rows(node: Node) -> Node | None:
    """The mask whose true indices a node gives in its rows; otherwise as `mask_of`."""
    if node.target is operator.getitem and node.args[1] == slice(None):
        node = cast(Node, node.args[0])
    return mask_of(node) or _known_mask(_source(node, is_tuple=False))


def _known_mask(mask: Node | None) -> Node | None:
    """A mask, if it is of one dimension whose size is known."""
    if mask is None:
        return None
    shape = mask.meta["example_value"].shape
    return mask if len(shape) == 1 and isinstance(shape[0], int) else None


_FLATTENING: tuple[tuple[str, tuple[object, ...], dict[str, object]], ...] = (
    ("getitem", ((slice(None), 0),), {}),
    ("flatten", (), {}),
    ("squeeze", (-1,), {}),
    ("squeeze", (1,), {}),
    ("view", (-1,), {}),
    ("reshape", (-1,), {}),
)


def _source(node: Node, *, is_tuple: bool) -> Node | None:
    """What a call of `nonzero` or `where` looks at, if it gives a tuple of indices or not."""
    name, named = name_called(node), dict(node.kwargs)
    gives_tuple = name == "where" or bool(named.pop("as_tuple", False))
    if name not in ("nonzero", "where") or gives_tuple is not is_tuple:
        return None
    return None if named or len(node.args) != 1 else cast(Node, node.args[0])


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee()} if site.callee == "tolist" else None


RULE: Final = Rule(
    "hits",
    "speculate",
    45,
    _matches,
    CAPTURABLE | {"UserError"},
    handler=listed,
    needs=frozenset({capabilities.SYMBOLS, capabilities.COMPUTED_GUARDS}),
)
