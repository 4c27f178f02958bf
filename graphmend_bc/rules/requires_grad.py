"""`t.requires_grad = True` in the middle of a frame, where nobody can tell that it was left out.

Eager Python makes a leaf of `t`, whose gradient is lost with it if `t` does not leave the frame.
What is computed from `t` must require a gradient anyway, because of parameters. The flag of an
argument is set before the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.before_graph.gradient_flags import flag_before_graph, stays
from graphmend_bc.dynamo.calls.markers import marker_as_python
from graphmend_bc.dynamo.graph.fx_nodes import (
    has_out,
    is_in_place,
    is_input,
    is_torchs_own,
    storages,
    tensors_of,
)
from graphmend_bc.dynamo.host_values.host_reads import is_plain
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import CallOperation
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import Marker, Site


@dataclass(slots=True, eq=False)
class Leaves(Feature):
    """Tensors that the frame made require a gradient.

    Attributes:
        found: the site of each, its node, and the number of writes before.
    """

    order: ClassVar[int] = 40

    found: list[tuple[Site, Node, int]] = field(default_factory=list)

    def on_question(self, compilation: Compilation, tensor: VariableTracker, name: str) -> None:
        """Refuse questions about gradients of a leaf, or of a view of it.

        What else is computed from it requires a gradient anyway.
        """
        if name not in _ASK:
            return
        node = tensor.as_proxy().node
        for site, leaf, _ in self.found:
            if node is leaf or node in _reached(leaf):
                raise _noticed(site, f"'{name}' of it is asked for.")

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        """Show that the tensors that were to require a gradient are the same without."""
        recorder = compilation.trace.recorder
        assert recorder is not None
        for site, node, since in self.found:
            if node.graph is not gm.graph:
                continue
            storage = storage_of(node.meta["example_value"])
            if storage in recorder.written[since:]:
                raise _noticed(site, "It is changed in place afterwards.")
            reached = _reached(node)
            for user in reached:
                if problem := _problem(user, storage) or _changed(user, reached):
                    raise _noticed(site, problem)


def required(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: `tensor.requires_grad = value`; where it matters, as stock Dynamo traces it."""
    value, tensor = (item.realize() for item in args[0].unpack_var_sequence(tx))
    if is_plain(tensor) and value.is_python_constant():
        trace, site = compilation.trace, marker.site
        try:
            if value.as_python_constant() is True and _is_argument(tensor):
                if tensor.requires_grad:  # and does so already
                    trace.used[site] = "leaf"
                else:
                    flag_before_graph(tx, compilation, site, tensor)
                return ConstantVariable.create(None)
            _check(tx, trace, tensor, value.as_python_constant())
        except Refused as refused:
            trace.refused[site] = refused
        else:
            node = tensor.as_proxy().node
            assert trace.recorder is not None
            trace.of(Leaves).found.append((site, node, len(trace.recorder.written)))
            trace.used[site] = "leaf"
            result: VariableTracker = ConstantVariable.create(None)
            return result
    return marker_as_python(tx, marker, args)


def _check(
    tx: InstructionTranslatorBase, trace: Trace, tensor: VariableTracker, value: object
) -> None:
    if tx.export:
        raise Refused("under-export")
    check_is_outermost(tx)
    node = tensor.as_proxy().node
    fake = node.meta["example_value"]
    if value is not True or fake.requires_grad:
        raise Refused("leaf-noticed", "It is not set from False to True.")
    if is_input(node) or any(n is not node and _is(n, fake) for n in node.graph.nodes):
        raise Refused("leaf-noticed", "The tensor is an input.")
    if any(_is(chosen, fake) for chosen in trace.choices):
        raise Refused("leaf-noticed", "The tensor may be an input, or another one.")
    if trace.arms:
        raise Refused("leaf-noticed", "It is in an arm that may not be taken.")
    if not (fake.is_floating_point() or fake.is_complex()) or torch.is_inference_mode_enabled():
        raise Refused("leaf-noticed", "It raises.")


def _is_argument(tensor: TensorVariable) -> bool:
    """Whether it is an input of the graph, and a leaf, that may be another one next time."""
    source, node = tensor.source, tensor.as_proxy().node
    known = source is not None and is_input(node) and node.meta["example_value"].is_leaf
    return known and source is not None and not stays(source)


def _is(node: Node, fake: torch.Tensor) -> bool:
    """True for another name of the same tensor."""
    return any(tensor is fake for tensor in tensors_of(node))


def _reached(node: Node) -> list[Node]:
    """All nodes that are computed from a node."""
    found: dict[Node, None] = {}
    work = [node]
    while work:
        fresh = [user for user in work.pop().users if user not in found]
        found |= dict.fromkeys(fresh)
        work += fresh
    return list(found)


def _problem(user: Node, storage: int) -> str:
    """How a node that is computed from a leaf would differ; empty if it would not."""
    if user.op == "output":
        leaks = any(storage_of(t) == storage for n in user.all_input_nodes for t in tensors_of(n))
        return "It leaves the graph." if leaks else ""
    asks = str(getattr(user.target, "__module__", "")).startswith("torch.autograd")
    if asks or not is_torchs_own(user) or user.target == "backward":
        return f"{user.target} is given it."
    for tensor in tensors_of(user):
        differentiable = tensor.is_floating_point() or tensor.is_complex()
        if differentiable and not tensor.requires_grad and storage_of(tensor) != storage:
            return f"The result of {user} requires no gradient but for it."
    return ""


def _changed(user: Node, reached: list[Node]) -> str:
    """Which operator changes a tensor that does not depend on a leaf so far; empty if none does.

    What else is computed from such a tensor would not be looked at.
    """
    writes = is_in_place(user) or has_out(user) or "example_value" not in user.meta
    if not writes or user.op == "output":
        return ""
    first = user.args[0] if user.args and not has_out(user) else None
    if isinstance(first, Node) and first in reached:
        changed = {storage_of(tensor) for tensor in tensors_of(first)}
        others = [node for node in user.graph.nodes if node not in reached]
        if changed and changed.isdisjoint(storages(others)):
            return ""
    return f"{user.target} changes something with it."


_ASK = frozenset(
    (
        "backward",
        "detach_",
        "grad",
        "grad_fn",
        "is_leaf",
        "register_hook",
        "register_post_accumulate_grad_hook",
        "requires_grad",
        "requires_grad_",
        "retain_grad",
        "retains_grad",
    )
)


def _noticed(site: Site, detail: str) -> SiteRefused:
    return SiteRefused(Refused("leaf-noticed", detail), site)


def _matches(site: BreakSite) -> Rewrites | None:
    known = site.op.name == "STORE_ATTR" and site.op.arg == "requires_grad"
    return {site.offset: CallOperation()} if known else None


# The second since torch 2.15, which traces it where nothing that leaves the graph depends on it.
_BREAKS = frozenset(
    {"setattr() on Tensor.requires_grad", "requires_grad_() intermediate leaked as output"}
)

LEAF = Rule("leaf", "leaf", 8, _matches, _BREAKS, handler=required)
"""`t.requires_grad = True` is left out where nobody reads the gradient, or set before the graph."""

RULES = (LEAF,)
