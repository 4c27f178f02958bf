"""Tensors of a list as one tensor that is made before the graph, whatever their number.

`torch.cat` of a list gives what it gives of the joined beginning and the rest: the same elements,
copied once more. That holds for tensors of one type, device and number of dimensions. Four or more
dimensions may have another order in memory, which all tensors decide together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.tensor import TensorVariable
from torch._guards import Source

from graphmend_bc.dynamo.before_graph.apart_guards import check_apart_now, guard_apart
from graphmend_bc.dynamo.before_graph.computed_source import hoisted_source
from graphmend_bc.dynamo.before_graph.graph_slice import Slice, written_inputs
from graphmend_bc.dynamo.graph.cuda_graphs import is_rerecorded
from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime.signal_handlers import pass_on

_TENSORS = {torch.Tensor}
_MOST_DIMS = 3
_REDUCED = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class Joining:
    """How the tensors of a list become one.

    Attributes:
        each: the comprehension that each of them goes through first; None if there is none.
        dim: along which they are joined; not negative.
    """

    each: CodeType | None
    dim: int

    def label(self, place: Source) -> str:
        """Names the tensor; the same for the same computation."""
        code = self.each
        parts = () if code is None else (code.co_code, code.co_consts, code.co_names)
        told = hashlib.sha1(repr(parts).encode()).hexdigest()[:12]
        return f"joined {place.name} {self.dim} {told}"

    def function(self, marks: bool) -> Callable[[Any], Any]:
        """From the list to the tensor, or to None if it is not what `torch.cat` would make of it.

        Args:
            marks: whether the size is a symbol from the start: a list that grows has another one in
                each call.
        """
        each = None if self.each is None else FunctionType(self.each, {"__builtins__": {}})
        dim = self.dim

        def join(values: Any) -> torch.Tensor | None:
            if type(values) is not list or set(map(type, values)) != _TENSORS:
                return None
            with torch.enable_grad():  # the result tells whether anything has a gradient
                made = values if each is None else each(iter(values))
                found = torch.cat(made, dim) if _are_alike(made, dim) else None
            if found is None or not _is_plain(found):
                return None
            if marks:
                torch._dynamo.maybe_mark_dynamic(found, dim)
            return found

        return join


def _are_alike(values: list[Any], dim: int) -> bool:
    if set(map(type, values)) != _TENSORS or len({value.dtype for value in values}) != 1:
        return False
    dims = {value.ndim for value in values}
    return len(dims) == 1 and dim < max(dims) <= _MOST_DIMS


def _is_plain(joined: torch.Tensor) -> bool:
    """Whether tensors, by what they are joined to, have nothing but their elements."""
    return (
        joined.layout is torch.strided
        and not joined.requires_grad
        and not joined.is_complex()
        and not joined.is_quantized
        and not joined.is_nested
        and not any(getattr(joined, "names", ()))
    )


def joined(
    tx: InstructionTranslatorBase, trace: Trace, place: Source, values: list[Any], joining: Joining
) -> TensorVariable:
    """The tensors of a list, of which the graph changes none before, as one input of the graph.

    Args:
        tx: translator of any frame of the trace.
        trace: the attempt.
        place: of the list.
        values: what it holds in this call.
        joining: how they are joined.

    Raises:
        Refused: they cannot be shown to be joined by `torch.cat`.
    """
    if is_rerecorded(tx):
        raise Refused("hoist-and-cuda-graphs")
    marks = bool(torch._dynamo.config.automatic_dynamic_shapes)
    function = joining.function(marks)
    written = written_inputs(tx.output.graph, trace.listen(tx.output))
    label = f"{joining.label(place)} {len(written)} {marks}"
    piece = Slice(label, (place,), function, 1, written=written)
    check_apart_now(tx, piece)
    try:
        value = piece.run([values])
    except Exception as error:
        pass_on(error)
        raise Refused("hoist-not-input", f"It raises {type(error).__name__}.") from error
    if value is None:
        raise Refused("hoist-not-input", "It is no list of tensors that are alike.")
    if value.dtype in _REDUCED and torch.is_autocast_enabled(value.device.type):
        raise Refused("hoist-not-input", "Automatic mixed precision may change its type.")
    guard_apart(piece)
    source = hoisted_source(tx, piece)
    found: VariableTracker = VariableBuilder(tx, source)(value)
    if type(found) is not TensorVariable:
        raise Refused("hoist-not-input", "It is no plain tensor to Dynamo.")
    return found


def check_joins(old: TensorVariable, new: list[VariableTracker], dim: int) -> None:
    """Check that tensors of the graph follow a joined one as they would follow its parts.

    Raises:
        Refused: one is of another type, so that all decide about the result together.
    """
    first = _example(old)
    for value in new:
        if type(value) is not TensorVariable or value.python_type() is not torch.Tensor:
            raise Refused("hoist-not-input", "Something else is in the list.")
        other = _example(value)
        kinds = [(t.dtype, t.device, t.ndim, t.layout) for t in (first, other)]
        if kinds[0] != kinds[1]:
            raise Refused("hoist-not-input", "Its tensors are not alike.")
        if not all(one == two for one, two in _other_sizes(first, other, dim)):
            raise Refused("hoist-not-input", "Its tensors have other sizes.")


def _other_sizes(first: Any, other: Any, dim: int) -> Iterator[tuple[Any, Any]]:
    for place, sizes in enumerate(zip(first.shape, other.shape, strict=True)):
        if place != dim:
            yield sizes


def _example(value: VariableTracker) -> Any:
    return value.as_proxy().node.meta["example_value"]
