"""`x.requires_grad_()`, where `x` is an input of the graph: its flag is set before the graph.

    def forces(places):
        places.requires_grad_()
        return -torch.autograd.grad(energy(places), places)[0]

Nothing of the graph may have used the tensor before: it would see the flag. Nothing may have raised
before either: eager Python would not have set it. Views of the tensor come to require a gradient
with it, so no other input may be one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.source import is_from_local_source
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import NumpyNdarrayVariable, TensorVariable
from torch._guards import Source
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves

from graphmend_bc.dynamo.before_graph.apart_guards import is_made_before_graph
from graphmend_bc.dynamo.before_graph.prologue import call_in_prologue
from graphmend_bc.dynamo.graph.fx_nodes import is_input, name_called
from graphmend_bc.dynamo.graph.lambda_guards import Reader, guard_by, reader, value_at
from graphmend_bc.dynamo.host_values.host_reads import is_plain
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import Forwards, check_is_outermost
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.gradient_flags import GradientFlags


@dataclass(slots=True, eq=False)
class FlaggedInputs(Feature):
    """Inputs that come to require a gradient before the graph.

    Attributes:
        flags: sets them in each call, and takes them back where the original code is to run.
        places: where each flag is set, and where the frame finds the tensor.
        tensors: those of the call in which it is compiled.
    """

    order: ClassVar[int] = 61

    flags: GradientFlags = field(default_factory=GradientFlags)
    places: list[tuple[Site, Source]] = field(default_factory=list)
    tensors: list[weakref.ref[torch.Tensor]] = field(default_factory=list)

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        """No other tensor that was met may be a view of one of them, now or later.

        The graph need not use it: the frame may ask it whether it requires a gradient.
        """
        root, others = output.root_tx, tensors_beside(output)
        for site, place in self.places:
            holds = partial(finds_no_view, reader([place, *others]))
            if not holds(root.f_locals, root.f_globals):
                raise SiteRefused(Refused("leaf-noticed", VIEWED), site)
            guard_by(holds, f"no other input is a view of {place.name}")

    def while_compiled(self) -> AbstractContextManager[None]:
        """A compiler sees them as they will be: it looks whether anything requires a gradient."""
        return set_meanwhile(self.tensors)

    def roll_back(self) -> Callable[[], None] | None:
        return self.flags.roll_back if self.tensors else None


def flag_before_graph(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, tensor: TensorVariable
) -> None:
    """Have an input require a gradient before the graph, and in the trace from now on.

    Args:
        tx: translator of the frame that sets the flag.
        compilation: what is being compiled.
        site: where it is set.
        tensor: an input of the graph that requires no gradient so far.

    Raises:
        Refused: the difference could be seen, or the call raises.
    """
    trace = compilation.trace
    flagged = trace.of(FlaggedInputs)
    check_flag(tx, compilation, tensor)
    _check_comes_first(tx, compilation, {site for site, _ in flagged.places})
    assert tensor.source is not None
    if not flagged.tensors:
        call_in_prologue(tx, flagged.flags.begin, (), "flags")
    flagged.places.append((site, tensor.source))
    flagged.tensors.append(weakref.ref(value_at(tx, tensor.source)))
    call_in_prologue(tx, flagged.flags.set, (tensor.source,), "flagged")
    require_gradient(tx, tensor)
    trace.used[site] = "leaf"


def require_gradient(tx: InstructionTranslatorBase, tensor: TensorVariable) -> None:
    """Have an input require a gradient in the trace from now on.

    Args:
        tx: translator of the frame.
        tensor: a leaf.
    """
    node = tensor.as_proxy().node
    node.meta["example_value"].requires_grad_()
    for known in (tensor, *tx.output.input_source_to_var.values()):
        if isinstance(known, TensorVariable) and known.as_proxy().node is node:
            known.requires_grad = True


@contextmanager
def set_meanwhile(tensors: Iterable[weakref.ref[torch.Tensor]]) -> Iterator[None]:
    """Tensors require a gradient in a `with` block.

    Args:
        tensors: those that are still there.
    """
    flags = GradientFlags()
    flags.begin()
    try:
        for known in tensors:
            if (tensor := known()) is not None:
                flags.set(tensor)
        yield
    finally:
        flags.roll_back()


def stays(source: Source) -> bool:
    """Whether a tensor is likely to be the same in the next call.

    Args:
        source: where the frame finds it.
    """
    kind = source.guard_source
    is_of_module = kind.is_unspecialized_nn_module() or kind.is_specialized_nn_module()
    return is_of_module or not is_from_local_source(source)


def check_flag(
    tx: InstructionTranslatorBase, compilation: Compilation, tensor: TensorVariable
) -> None:
    """Refuse to set a flag outside of the graph where that raises, or changes more than it.

    Args:
        tx: translator of the frame that sets the flag.
        compilation: what is being compiled.
        tensor: whose flag it is.

    Raises:
        Refused: so it is.
    """
    trace, node = compilation.trace, tensor.as_proxy().node
    if tx.export or compilation.is_saved:
        raise Refused("under-export", "It would be set outside of the graph.")
    check_is_outermost(tx)
    if trace.arms:
        raise Refused("leaf-noticed", "It is in an arm that may not be taken.")
    forwards = trace.known(Forwards)
    if forwards is not None and forwards.depth:
        raise Refused("leaf-noticed", "It is inside of an autograd function.")
    if not is_plain(tensor) or not is_input(node):
        raise Refused("leaf-noticed", "The tensor is no plain input of the graph.")
    assert tensor.source is not None
    value: torch.Tensor = value_at(tx, tensor.source)
    given = tree_leaves([*tx.output.root_tx.f_locals.values()])
    if not _has_no_view(value, given):
        raise Refused("leaf-noticed", VIEWED)
    # The fake tensor of an inference tensor is none.
    fake = node.meta["example_value"]
    if not (fake.is_floating_point() or fake.is_complex()) or value.is_inference():
        raise Refused("leaf-noticed", "It raises.")


def _check_comes_first(
    tx: InstructionTranslatorBase, compilation: Compilation, sites: AbstractSet[Site]
) -> None:
    """Refuse a flag before which something is done that could see it, or raise."""
    if is_computed(tx.output.graph):
        raise Refused("leaf-noticed", "Something is computed before.")
    # Dynamo registers hooks after the graph.
    hooked = (known.as_proxy().node for known, *_ in tx.output.side_effects.tensor_hooks.values())
    if not all(other.meta["example_value"].requires_grad for other in hooked):
        raise Refused("leaf-noticed", "A hook is registered before, which raises.")
    if compilation.trace.mended.keys() - sites or tx.output.root_tx.debug_locals:
        raise Refused("leaf-noticed", "What was met before may run after it.")


def is_computed(graph: Graph) -> bool:
    """Whether a graph computes something by now.

    Args:
        graph: as it is traced so far.
    """
    return not all(is_input(node) or _only_sets_a_mode(node) for node in graph.nodes)


def tensors_beside(output: OutputGraph) -> list[Source]:
    """Where a frame finds all tensors that its trace has met, and has not made before the graph.

    Args:
        output: Dynamo's, at the end of the trace.
    """
    known = output.input_source_to_var.items()
    places = [place for place, value in known if _is_tensor(value)]
    return [place for place in places if not is_made_before_graph(place)]


VIEWED: Final = "Another input is a view of it."


def _is_tensor(value: VariableTracker) -> bool:
    """Whether the frame has a tensor there, and no array or number that Dynamo makes one of."""
    return is_plain(value) and not isinstance(value, NumpyNdarrayVariable)


def finds_no_view(read: Reader, local: Any, scope: Any) -> bool:
    """Whether no other tensor that is read is a view of the first one.

    Args:
        read: gives the tensors of a frame.
        local, scope: the locals and globals of the frame.
    """
    tensor, *others = read(local, scope)
    return _has_no_view(tensor, others)


def _has_no_view(tensor: torch.Tensor, others: Iterable[object]) -> bool:
    with torch._C.DisableTorchFunctionSubclass():
        tensors = (other for other in others if isinstance(other, torch.Tensor))
        return all(other._base is not tensor for other in tensors)


def _only_sets_a_mode(node: Node) -> bool:
    return name_called(node) == "_set_grad_enabled"
