"""A layer of `nn.GRU` or `nn.RNN` as one operator of a graph, which backends leave as it is.

Of torch's own operators a backend makes a graph with each step of the sequence.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Final

import torch
from torch._ops import OpOverload

from graphmend_bc.dynamo.graph.operator_library import operator_library

NAMES: Final = ("gru", "rnn_relu", "rnn_tanh")
"""Of torch's operators. All have the same parameters, and the same form of results."""

_SIGNATURE = (
    "(bool[] learn, Tensor sequence, Tensor state, Tensor[] weights, bool has_biases, int layers,"
    " float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"
)


@cache
def one_operator(name: str) -> OpOverload:
    """The operator that calls the one of torch's with a name of `NAMES`.

    It is told first which tensors require a gradient, in the order of the others: torch chooses
    among its kernels by that, and AOTAutograd detaches what it gives to a graph.
    """
    library, torchs = operator_library(), getattr(torch.ops.aten, name).input
    library.define(f"{name}{_SIGNATURE}", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, partial(_called, torchs), "CompositeExplicitAutograd")
    torch.library.register_fake(f"graphmend_bc::{name}", form_of_results, lib=library)
    found: OpOverload = getattr(torch.ops.graphmend_bc, name).default
    return found


@torch.no_grad()
def _called(
    operator: OpOverload, learn: list[bool], *given: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """What an operator gives for tensors some of which require a gradient.

    AOTAutograd's graphs make no notes of views, and by these torch tells of a transposed weight
    whether that requires a gradient.
    """
    key = torch._C.DispatchKey.ADInplaceOrView
    hidden = torch._C._dispatch_tls_local_exclude_set().remove(key)
    sequence, state, weights, *options = given
    tensors = zip(learn, (sequence, state, *weights), strict=True)
    sequence, state, *weights = [t.detach().requires_grad_() if to else t for to, t in tensors]
    found: tuple[torch.Tensor, torch.Tensor]
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), hidden):
        found = operator(sequence, state, weights, *options)
    return found


def form_of_results(
    learn: list[bool], sequence: torch.Tensor, state: torch.Tensor, *rest: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tensors of the sizes and strides of the results; it has the operator's parameters."""
    del learn
    bidirectional, batch_first = rest[-2:]
    turned = sequence.transpose(0, 1) if batch_first else sequence
    steps, rows, _ = turned.shape
    made = sequence.new_empty(steps, rows, state.shape[-1] * (2 if bidirectional else 1))
    return made.transpose(0, 1) if batch_first else made, state.new_empty(state.shape)
