"""Does the backend record CUDA graphs? `torch.cond` on a GPU has Inductor go without them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.reporting.reasons import Refused


def check_keeps_cuda_graphs(tx: InstructionTranslatorBase, predicate: TensorVariable) -> None:
    """Refuse operators for branches and loops where graphs would be launched as CUDA graphs.

    Inductor's lowering of `cond` sets `disable_cudagraphs_reason` for the whole graph if the
    predicate is on a CUDA device; the pieces that a break leaves keep theirs. What it makes of
    `while_loop` there raised in each call but the first, with torch 2.11.

    Args:
        tx: translator of the frame that has the branch.
        predicate: the condition.

    Raises:
        Refused: the backend records CUDA graphs, and the predicate is on a GPU.
    """
    if records_cuda_graphs(tx, predicate):
        raise Refused("cond-and-cuda-graphs")


def is_rerecorded(tx: InstructionTranslatorBase) -> bool:
    """Whether each value, or size, of an input has a CUDA graph recorded.

    Args:
        tx: translator of the frame, whose graph has the input.
    """
    return frame_records_cuda_graphs(tx.output.compiler_fn, tx.output.root_tx.f_locals.values())


def records_cuda_graphs(tx: InstructionTranslatorBase, tensor: TensorVariable) -> bool:
    """Whether the backend records CUDA graphs of what is computed with a tensor.

    Args:
        tx: translator of a frame.
        tensor: in its graph.
    """
    device = tensor.as_proxy().node.meta["example_value"].device.type
    return are_recorded(device, _settings_of(tx.output.compiler_fn))


def frame_records_cuda_graphs(compiler_fn: Any, values: Iterable[Any]) -> bool:
    """Whether the backend records CUDA graphs of a frame, told from what the frame is given.

    Args:
        compiler_fn: the backend, as Dynamo has it.
        values: locals of the frame. Tensors are looked for in containers and in modules too.
    """
    settings = _settings_of(compiler_fn)
    if settings is None:
        return False
    return any(are_recorded(device, settings) for device in {*_devices(values)})


def _settings_of(compiler_fn: Any) -> Callable[[], Mapping[str, Any]] | None:
    found: Callable[[], Mapping[str, Any]] | None
    found = getattr(compiler_fn, "get_compiler_config", None)
    return found


def _devices(values: Iterable[Any]) -> Iterator[str]:
    plain = (list, tuple, dict)  # what else the program can flatten is code of its own
    known = torch.utils._pytree.tree_leaves(list(values), lambda v: type(v) not in plain)
    for value in known:
        if isinstance(value, torch.nn.Module):
            tensors = chain(value.parameters(), value.buffers())
            yield from (tensor.device.type for tensor in islice(tensors, 1))
        elif isinstance(value, torch.Tensor):
            yield value.device.type


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
