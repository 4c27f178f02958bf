"""Indices used after a speculation on an accelerator; one out of bounds stops the process there.

Labels and token ids are not known to be in bounds. They are put in bounds before they are used, and
the graph says whether that changed any: then the speculation counts as wrong, and the original code
runs, with the indices as they are.

    F.cross_entropy(logits, labels)      safe = where(labels == -100, labels, labels.clamp(0, 9))
                                         F.cross_entropy(logits, safe); (safe != labels).any()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from types import MappingProxyType
from typing import Any, Final

import torch.nn.functional as F
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import Node, Proxy

from graphmend_bc.dynamo.graph.emit import call, method
from graphmend_bc.dynamo.trace.compilation import Trace


def check_index_bounds(tx: InstructionTranslatorBase, trace: Trace) -> None:
    """At the end of a graph: put indices in bounds; the last speculation fails if one was not.

    Args:
        tx: translator of the frame that ends the graph.
        trace: the attempt that is running; what it knows of unprotected operators is rolled back.
    """
    recorder = trace.recorder
    if recorder is None or not trace.speculations:
        return
    for node in list(recorder.guarded):
        if node is not None and (changed := _put_in_bounds(tx, node)) is not None:
            del recorder.guarded[node]
            speculation, wrong = trace.speculations[-1]
            moved = method(tx, "to", changed, wrong.as_proxy().node.meta["example_value"].device)
            trace.speculations[-1] = speculation, call(tx, "logical_or", wrong, moved)


def _put_in_bounds(tx: InstructionTranslatorBase, node: Node) -> TensorVariable | None:
    """Whether an index of a node was out of bounds, which it is not any more; None if not known."""
    find = _USES.get(node.target) if callable(node.target) else None
    if find is None or node.graph is not tx.output.graph:
        return None
    given = signature(node.target).bind(*node.args, **node.kwargs)  # type: ignore[arg-type]
    given.apply_defaults()
    indices, size, ignored = find(given.arguments)
    if not isinstance(indices, Node) or not isinstance(size, int):
        return None
    with tx.output.graph.inserting_before(node):
        proxy = Proxy(indices, tx.output.current_tracer)
        safe = method(tx, "clamp", proxy, 0, size - 1)
        if ignored is not None:
            safe = call(tx, "where", method(tx, "eq", proxy, ignored), proxy, safe)
        changed = call(tx, "any", method(tx, "ne", safe, proxy))
    node.replace_input_with(indices, safe.as_proxy().node)
    return changed


_Found = tuple[Any, Any, int | None]


def _of_embedding(given: Mapping[str, Any]) -> _Found:
    """The indices, how many there are, and one that is left out, as for all of these."""
    return given["input"], given["weight"].meta["example_value"].shape[0], None


def _of_classes(given: Mapping[str, Any]) -> _Found:
    shape = given["input"].meta["example_value"].shape
    return given["target"], shape[1 if len(shape) > 1 else 0], given["ignore_index"]


_USES: Final[Mapping[Any, Callable[[Mapping[str, Any]], _Found]]] = MappingProxyType(
    {F.embedding: _of_embedding, F.cross_entropy: _of_classes, F.nll_loss: _of_classes}
)
