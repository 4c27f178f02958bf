"""What autograd functions save, where a backend runs the graph of the trace itself.

The operator that stands for an autograd function keeps what was saved to itself. So it is not
noticed if that is written before the backward pass, hooks do not see it, a second backward pass
finds it still there, and what the backward pass gives has no history and does not say so.
AOTAutograd, which takes the operator apart, has autograd save it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import torch
from torch._functorch.autograd_function import autograd_function_apply
from torch.fx import GraphModule, Interpreter

_NEEDED: Final = frozenset({"saved_for_backward_idx", "non_differentiable_idx"})
"""What `apply_function` has to be told."""


def save_by_autograd(gm: GraphModule) -> None:
    """Have autograd save what autograd functions save.

    Args:
        gm: a graph that will run as it is, and may hold others.
    """
    for module in (each for each in gm.modules() if isinstance(each, GraphModule)):
        nodes = module.graph.find_nodes(op="call_function", target=autograd_function_apply)
        # Some releases of torch do not say what was saved.
        if known := [node for node in nodes if node.kwargs.keys() >= _NEEDED]:
            for node in known:
                node.target = apply_function
            module.recompile()


def apply_function(forward: GraphModule, backward: GraphModule, *args: Any, **marks: Any) -> Any:
    """Apply an autograd function whose passes are graphs.

    Args:
        forward: gives the outputs, and what the backward pass needs.
        backward: from gradients of the outputs, and what it needs, to those of the inputs.
        args: the inputs.
        marks: which outputs the function has marked, and what of that which the backward pass
            needs `ctx` has saved; the rest are attributes of `ctx`, which nobody looks after.

    Returns:
        The outputs.
    """
    if torch._C._functorch.peek_interpreter_stack() is not None:  # it asks for another form
        return autograd_function_apply(forward, backward, *args, **marks)
    places: Sequence[int] = marks["saved_for_backward_idx"]

    class Applied(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            outputs, needed = Interpreter(forward).run(*given)
            ctx.save_for_backward(*(needed[place] for place in places))
            ctx.needed = [None if place in places else each for place, each in enumerate(needed)]
            if dirty := marks.get("dirty_idx"):
                ctx.mark_dirty(*(outputs[place] for place in dirty))
            if flat := marks["non_differentiable_idx"]:
                ctx.mark_non_differentiable(*(outputs[place] for place in flat))
            return outputs

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            needed = list(ctx.needed)
            for place, saved in zip(places, ctx.saved_tensors, strict=True):
                needed[place] = saved
            with torch.no_grad():  # the graph was traced so, and switches gradients on itself
                found = Interpreter(backward).run(*gradients, *needed)
            recorded = _recorded([*gradients, *needed])
            return _without_history(found, recorded) if recorded else found

    return cast(Any, Applied).apply(*args)


def _recorded(values: Iterable[object]) -> list[torch.Tensor]:
    """What eager Python would note a backward pass to depend on, among some values."""
    if not torch.is_grad_enabled():
        return []
    return [each for each in values if isinstance(each, torch.Tensor) and each.requires_grad]


def _without_history(
    gradients: Sequence[torch.Tensor | None], recorded: Sequence[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """Gradients that raise where they are differentiated for what they depend on."""
    places = [place for place, gradient in enumerate(gradients) if gradient is not None]
    given = [gradients[place] for place in places]
    found = cast(Any, _NoHistory).apply(len(given), *given, *recorded)
    results = dict(zip(places, found, strict=True))
    return tuple(results.get(place) for place in range(len(gradients)))


class _NoHistory(torch.autograd.Function):
    """Some tensors as they are, with a history that raises."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.detach() for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise RuntimeError(
            "torch.compile has no second derivative of an autograd function. Compile less than "
            "the function that calls it, or use graphmend_bc.leave_alone."
        )
