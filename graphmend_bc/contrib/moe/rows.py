"""A loop over the indices at which a mask is true is taken to go over all of them.

The rows in `for e in mask.nonzero()` are assumed to be those of all indices, as in lists of them
(lists.py), or of all but the last: routers have a place behind the last expert for tokens that go
nowhere. Either way it is known which index is in which row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, cast

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from graphmend_bc.contrib.moe.lists import is_cheap, mask_of_rows
from graphmend_bc.dynamo.graph.emit import compared, method
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.dynamo.speculation.speculate import assume, speculate
from graphmend_bc.dynamo.symbols.known_integers import KnownIntegers
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkOperands
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import Marker, Site, Speculate


def known_rows(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: assume how many indices a loop goes over, and with that, which ones.

    What Dynamo knows the length of is left alone.

    Raises:
        SiteRefused: it is not known to hold indices of a mask, or holds others.
    """
    (value,) = args[0].unpack_var_sequence(tx)
    try:
        _know_rows(tx, compilation, marker.site, value)
    except Refused as refused:
        raise SiteRefused(refused, marker.site) from refused
    return args[0]


def _know_rows(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, value: VariableTracker
) -> None:
    rows = value.realize()
    if type(rows) is not TensorVariable or not _is_unsized(rows):
        return
    node, trace = rows.as_proxy().node, compilation.trace
    assert trace.recorder is not None
    tensor = node.meta["example_value"]
    mask = mask_of_rows(node)
    if mask is None or storage_of(tensor) in trace.recorder.written:
        raise Refused("list-not-full", "It is not known to hold such indices.")
    if is_cheap(trace, mask):
        raise Refused(
            "list-not-full", "A check could fail, and they can be computed before the graph."
        )
    trace.recorder.ranges.count(tensor, _speculated_length(tx, compilation, site, rows, mask))
    trace.of(KnownIntegers)


def _is_unsized(tensor: TensorVariable) -> bool:
    shape = tensor.as_proxy().node.meta["example_value"].shape
    return bool(shape) and bool(free_unbacked_symbols(shape[0]))


def _speculated_length(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    rows: TensorVariable,
    mask: Node,
) -> int:
    """How many of the first indices there are, and no others."""
    length = len(mask.meta["example_value"])
    size = rows.call_method(tx, "size", [ConstantVariable.create(0)], {})
    assert isinstance(size, SymNodeVariable)

    def is_so(compare: Callable[[Any, Any], Any], number: int, likely: bool) -> bool:
        condition = compared(tx, compare, size, number)
        return assume(tx, compilation, Speculate(site, likely=likely, once=True), condition)

    if is_so(operator.eq, length, not _is_never_last(compilation.trace, mask)):
        return length
    # Asked so that the likely answer is no, as to the first question: one flip holds for all.
    if length < 2 or is_so(operator.ne, length - 1, False):
        raise Refused("list-not-full", f"The mask has length {length}.")
    last = method(tx, "reshape", method(tx, "select", rows, 0, length - 2), ())
    is_last = method(tx, "eq", last, length - 1)
    if speculate(tx, compilation, Speculate(site, likely=False, once=True), is_last):
        raise Refused("list-not-full", f"The mask has length {length}.")
    return length - 1


_FAR = 8


def _is_never_last(trace: Trace, mask: Node) -> bool:
    """True if a mask looks as if its last element could not be true.

    It comes from `one_hot` of numbers that are all smaller than the last class.
    """
    assert trace.recorder is not None
    node: Any = mask
    for _ in range(_FAR):
        if not isinstance(node, Node) or not node.args:
            return False
        if node.target is torch.nn.functional.one_hot:
            classes = node.kwargs.get("num_classes", node.args[-1])
            numbers = cast(Node, node.args[0]).meta["example_value"]
            ranges = trace.recorder.ranges
            return isinstance(classes, int) and ranges.is_within(numbers, 0, classes - 1)
        node = node.args[0]
    return False


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkOperands()} if site.op.name == "GET_ITER" else None


RULE: Final = Rule(
    "rows",
    "speculate",
    46,
    _matches,
    frozenset({"UserError", "constrain_as_size_example"}),
    handler=known_rows,
    needs=frozenset({capabilities.SYMBOLS, capabilities.COMPUTED_GUARDS}),
)
