"""`self.zero.requires_grad_()`, where the tensor stays: its flag is set when the frame is compiled.

    loss = self.zero          a buffer, which requires no gradient in the first call alone
    loss.requires_grad_()

The graph is the one of all later calls, which find the flag set, and so do its guards. The first
call gets the flag just before it begins. Nothing of that call may tell: what comes before asks the
tensor nothing and computes nothing from it. If the graph raises, the flag is taken back and the
original code runs.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import TensorVariable
from torch._guards import Source
from torch.fx import GraphModule

from graphmend_bc.dynamo.before_graph.gradient_flags import (
    VIEWED,
    check_flag,
    finds_no_view,
    is_computed,
    require_gradient,
    set_meanwhile,
    tensors_beside,
)
from graphmend_bc.dynamo.graph.lambda_guards import reader, value_at
from graphmend_bc.dynamo.graph.state_snapshot import StateSnapshot
from graphmend_bc.dynamo.trace.asked_inputs import AskedInputs
from graphmend_bc.dynamo.trace.compilation import CallLeft, Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature, RollbackNeed
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deoptimise import Deoptimise
from graphmend_bc.runtime.gradient_flags import GradientFlags


def flag_while_compiled(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, tensor: TensorVariable
) -> None:
    """Have a tensor that stays require a gradient once the frame is compiled, and in the trace.

    Args:
        tx: translator of the frame that sets the flag.
        compilation: of a frame that is about to be called.
        site: where it is set.
        tensor: an input of the graph that requires no gradient so far.

    Raises:
        Refused: the call could tell, or it raises.
    """
    check_flag(tx, compilation, tensor)
    source, node = tensor.source, tensor.as_proxy().node
    assert source is not None
    value: torch.Tensor = value_at(tx, source)
    asked = compilation.trace.known(AskedInputs)
    if node.users or (asked is not None and node in asked.nodes):
        raise Refused("leaf-noticed", "It is used before.")
    if value._base is not None or type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise Refused("leaf-noticed", "The tensor is a view, or of a class of its own.")
    if compilation.trace.effects or tx.output.root_tx.debug_locals:
        raise Refused("leaf-noticed", "What was met before may run after it.")
    kept = compilation.trace.of(KeptFlags)
    kept.leaves = compilation.leaves
    kept.is_late = kept.is_late or is_computed(tx.output.graph)
    kept.places.append((site, source))
    kept.tensors.append(weakref.ref(value))
    require_gradient(tx, tensor)


def check_stays(trace: Trace, tensor: TensorVariable) -> None:
    """A tensor is about to require no gradient.

    Args:
        trace: the attempt.
        tensor: it.

    Raises:
        SiteRefused: its flag was to be set for good.
    """
    kept = trace.known(KeptFlags)
    for site, place in () if kept is None else kept.places:
        if place == tensor.source:
            raise SiteRefused(Refused("leaf-noticed", "It is taken back afterwards."), site)


def call_left(compilation: Compilation, error: Exception) -> CallLeft | None:
    """Why this call is to run as it is; None if an attempt failed for another reason.

    Args:
        compilation: the attempt.
        error: what it failed with. Dynamo cannot look at a view of a tensor whose flag is not set
            yet, and is in the trace.
    """
    if isinstance(error, CallLeft):
        return error
    kept = compilation.trace.known(KeptFlags)
    is_view = kept is not None and kept.leaves and isinstance(error, AssertionError)
    return CallLeft(kept.places[0][0]) if kept is not None and is_view else None


@dataclass(slots=True, eq=False)
class KeptFlags(Feature):
    """Tensors that come to require a gradient when the frame is compiled.

    Attributes:
        flags: sets them, and takes them back while the call lasts that the frame is compiled for.
        places: where each flag is set, and where the frame finds the tensor.
        tensors: they.
        is_late: whether something is computed before, which may raise.
        leaves: whether the call may be left to eager Python instead.
    """

    order: ClassVar[int] = 61

    flags: GradientFlags = field(default_factory=GradientFlags)
    places: list[tuple[Site, Source]] = field(default_factory=list)
    tensors: list[weakref.ref[torch.Tensor]] = field(default_factory=list)
    is_late: bool = False
    leaves: bool = False

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        """No other tensor that was met may be a view of one of them: it would be traced as it was.

        Raises:
            CallLeft: one is, or may be.
        """
        root, others = output.root_tx, tensors_beside(output)
        for site, place in self.places:
            if not finds_no_view(reader([place, *others]), root.f_locals, root.f_globals):
                self._leave(site, VIEWED)

    def while_compiled(self) -> AbstractContextManager[None]:
        """A compiler sees them as they will be."""
        return set_meanwhile(self.tensors)

    def rolls_back(self) -> RollbackNeed:
        """What raises before a flag is set leaves it as it was."""
        return RollbackNeed.IF_FREE if self.is_late else RollbackNeed.NOT_NEEDED

    def blamed(self) -> Iterable[Site]:
        """As in `Feature`.

        Raises:
            CallLeft: instead, this call runs as it is: later ones set nothing.
        """
        if self.is_late and self.leaves:
            raise CallLeft(self.places[0][0])
        return [site for site, _ in self.places] if self.is_late else ()

    def on_roll_back(self, compilation: Compilation, undo: StateSnapshot | None) -> None:
        """A graph that raises before a flag is set has to be taken back with it."""
        if self.is_late and undo is None:
            self._leave(self.places[0][0], "Something before it may raise.")

    def guarded(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        """What was set stays set, once the graph has run."""
        flags = self.flags

        @functools.wraps(graph)
        def run_graph(*args: Any, **kwargs: Any) -> Any:
            try:
                results = graph(*args, **kwargs)
            except Deoptimise:
                raise  # the flags are taken back before the original code runs
            except BaseException:
                flags.begin()
                raise
            flags.begin()
            return results

        return run_graph

    def roll_back(self) -> Callable[[], None] | None:
        return self.flags.roll_back

    def before_guards(self) -> Callable[[], None]:
        """Set the flags.

        Returns:
            Takes them back.
        """
        self.flags.begin()
        for known in self.tensors:
            if (tensor := known()) is not None:
                self.flags.set(tensor)
        return self.flags.roll_back

    def _leave(self, site: Site, detail: str) -> NoReturn:
        if self.leaves:
            raise CallLeft(site)
        raise SiteRefused(Refused("leaf-noticed", detail), site)
