"""How many steps an optimizer has taken, which eager Python reads from a tensor in each of them.

    step_t += 1
    bias_correction = 1 - beta ** step_t.item()

Stock computes with the tensor, in its precision, so that results differ in the last digits. The
number is read before the graph instead, where the tensor is an input, and enters as an int: a
guard asks whether all such tensors hold the same whole number.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, cast

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch._guards import Source
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import DimDynamic

from graphmend_bc.dynamo.before_graph.computed_source import hoisted_source
from graphmend_bc.dynamo.before_graph.graph_slice import Slice, source_of, written_inputs
from graphmend_bc.dynamo.graph.fx_nodes import is_writing, name_called, storages
from graphmend_bc.dynamo.graph.lambda_guards import guard_by, reader
from graphmend_bc.dynamo.symbols.symbolic_powers import close
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_EXACT: Final = 2**24
"""Up to here a float32 holds each whole number, and adding one to it is not rounded."""

_DTYPES: Final = frozenset({torch.float32, torch.float64, torch.int32, torch.int64})
"""Dtypes that hold them."""


@dataclass(slots=True, eq=False)
class StepNumbers(Feature):
    """What an attempt knows of numbers of steps.

    Attributes:
        numbers: by what it is in the call in which the frame is compiled, each number before the
            graph, and where the tensors are found that hold it.
        counted: floats, by the graph that is traced, that number and the steps taken since.
        sites: where the steps begin in which the numbers are read.
    """

    numbers: dict[int, tuple[VariableTracker, dict[Source, None]]] = field(default_factory=dict)
    counted: dict[tuple[object, int, int], VariableTracker] = field(default_factory=dict)
    sites: dict[Site, None] = field(default_factory=dict)

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Have guards ask whether the tensors agree, and whether each is changed alone.

        Raises:
            SiteRefused: they share memory with something else that the graph writes to.
        """
        groups = [[*sources] for _, sources in self.numbers.values()]
        if not groups:
            return
        assert compilation.trace.recorder is not None
        written = written_inputs(tx.output.graph, compilation.trace.recorder, elements=1)
        others = set(written).difference(*groups)
        readers, read_others = [*map(reader, groups)], reader(others)

        def holds(local: Any, scope: Any) -> bool:
            counts = [read(local, scope) for read in readers]
            return all(map(_agree, counts)) and _are_apart(counts, read_others(local, scope))

        root = tx.output.root_tx
        if not holds(root.f_locals, root.f_globals):
            raise SiteRefused(
                Refused("hoist-not-input", "Tensors that count steps share memory."), *self.sites
            )
        guard_by(holds, "the tensors that count an optimizer's steps agree, each in its own memory")


def _agree(tensors: Sequence[torch.Tensor]) -> bool:
    number = tensors[0].item()
    return all(tensor.item() == number for tensor in tensors)


def _are_apart(groups: Sequence[Sequence[torch.Tensor]], others: Sequence[torch.Tensor]) -> bool:
    """Whether no tensor that counts shares memory with another one that is written to.

    Args:
        groups: those that count; each is alone in its memory.
        others: what else has one element.
    """
    counts = [*chain.from_iterable(groups)]
    alone = all(t.untyped_storage().nbytes() == t.element_size() for t in counts)
    return alone and len({t.data_ptr() for t in (*counts, *others)}) == len(counts) + len(others)


def number_of_steps(
    tx: InstructionTranslatorBase, trace: Trace, site: Site, tensor: VariableTracker
) -> VariableTracker:
    """The number that a tensor holds which only counts up.

    Args:
        tx: translator of the frame that asks for it.
        trace: the attempt.
        site: where the step begins.
        tensor: what is asked.

    Returns:
        A float.

    Raises:
        Refused: the tensor holds anything else, or it is not known what.
    """
    if type(tensor) is not TensorVariable or trace.recorder is None:
        raise Refused("hoist-not-input", "What counts an optimizer's steps is no tensor.")
    node = tensor.as_proxy().node
    start, steps = _start_of(node, trace.recorder.written)
    if (made := _made_with(start)) is not None:
        return ConstantVariable.create(float(made + steps))
    source = source_of(start)
    if (value := whole(start.meta["grapharg"].example)) is None:
        raise Refused("hoist-not-input", "What counts an optimizer's steps is no such number.")
    known = trace.of(StepNumbers)
    known.sites[site] = None
    number = _before_graph(tx, known, value, source)
    key = tx.output.current_tracer, value, steps
    if key not in known.counted:
        counted = BuiltinVariable(operator.add).call_function(
            tx, [number, ConstantVariable.create(steps)], {}
        )
        found: VariableTracker = BuiltinVariable(float).call_function(tx, [counted], {})
        close(cast(SymNodeVariable, found))
        known.counted[key] = found
    return known.counted[key]


def _start_of(node: Node, written: Sequence[int]) -> tuple[Node, int]:
    """The node that first has the memory of another, and how often one was added in it since.

    Args:
        node: of a tensor of one element.
        written: storages that were changed in place by now.

    Raises:
        Refused: something else was done to it.
    """
    (storage,) = storages([node])
    known, left = set[Node](), [node]
    while left:
        if (near := left.pop()) not in known and storage in storages([near]):
            known.add(near)
            left += [*near.all_input_nodes, *near.users]
    adding = [n for n in known if is_writing(n)]
    starts = [n for n in known if known.isdisjoint(n.all_input_nodes)]
    counts = len(adding) == written.count(storage) and all(map(_adds_one, adding))
    if not counts or len(starts) != 1 or any(n.meta["example_value"].shape for n in known):
        raise Refused("hoist-not-input", "What counts an optimizer's steps was changed otherwise.")
    return starts[0], len(adding)


def _adds_one(node: Node) -> bool:
    """Whether a node adds one to a tensor in place, and does nothing else."""
    adds = node.target is operator.iadd or name_called(node) == "add_"
    return bool(adds and len(node.args) == 2 and not node.kwargs and node.args[1] == 1)


def _made_with(node: Node) -> float | None:
    """The whole number that the graph makes a tensor of."""
    number = node.args[0] if node.target is torch.tensor and len(node.args) == 1 else None
    return number if type(number) is float and number.is_integer() and number >= 0 else None


def _before_graph(
    tx: InstructionTranslatorBase, known: StepNumbers, value: int, source: Source
) -> VariableTracker:
    """The number of an input, which all that hold the same value have in common."""
    if value not in known.numbers:
        piece = Slice(f"steps in {source.name}", (source,), whole, 1)
        builder = VariableBuilder(tx, hoisted_source(tx, piece))
        known.numbers[value] = builder.wrap_symint(value, DimDynamic.DYNAMIC), {}
    number, sources = known.numbers[value]
    sources[source] = None
    return number


def whole(tensor: torch.Tensor) -> int | None:
    """The number of steps that a tensor holds; None if it is no such number.

    Args:
        tensor: of one element.

    Example:
        >>> whole(torch.tensor(3.0)), whole(torch.tensor(0.5))
        (3, None)
    """
    if tensor.dtype not in _DTYPES:
        return None
    number = tensor.item()
    return int(number) if 0 <= number < _EXACT and number == int(number) else None
