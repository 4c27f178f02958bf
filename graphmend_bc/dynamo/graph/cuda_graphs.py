"""Does the backend record CUDA graphs? `torch.cond` on a GPU has Inductor go without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.reporting.reasons import Refused


def check_keeps_cuda_graphs(tx: InstructionTranslatorBase, predicate: TensorVariable) -> None:
    """Refuse `torch.cond` where a graph without it would be launched as CUDA graphs.

    Inductor's lowering of `cond` sets `disable_cudagraphs_reason` for the whole graph if the
    predicate is on a CUDA device; the pieces that a break leaves keep theirs.

    Args:
        tx: translator of the frame that has the branch.
        predicate: the condition.

    Raises:
        Refused: the backend records CUDA graphs, and the predicate is on a GPU.
    """
    if records_cuda_graphs(tx, predicate):
        raise Refused("cond-and-cuda-graphs")


def records_cuda_graphs(tx: InstructionTranslatorBase, tensor: TensorVariable) -> bool:
    """Whether the backend records CUDA graphs of what is computed with a tensor.

    Args:
        tx: translator of a frame.
        tensor: in its graph.
    """
    device = tensor.as_proxy().node.meta["example_value"].device.type
    return are_recorded(device, getattr(tx.output.compiler_fn, "get_compiler_config", None))


def are_recorded(device: str, config: Callable[[], Mapping[str, Any]] | None) -> bool:
    """The same, decided from the settings.

    Args:
        device: type of the tensor's device.
        config: gives Inductor's settings, those of `torch.compile(mode=..., options=...)` included;
            None for another backend.

    Example:
        >>> are_recorded("cuda", lambda: {"triton.cudagraphs": True})
        True
        >>> are_recorded("cpu", lambda: {"triton.cudagraphs": True})
        False
    """
    return device == "cuda" and config is not None and bool(config().get("triton.cudagraphs"))
