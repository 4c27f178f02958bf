"""Who waits for the gradient of a parameter: hooks of it, and of the node that adds to it."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.utils.hooks import RemovableHandle

_NOTE: Final = "graphmend_bc"


def is_watched(leaf: torch.Tensor) -> bool:
    """Whether somebody is told when a gradient of a leaf comes."""
    return bool(leaf._backward_hooks or leaf._post_accumulate_grad_hooks)


def is_held(leaf: torch.Tensor) -> bool:
    """Whether somebody holds the node that adds to a leaf's gradient, which may have hooks.

    It lives as long as it is held, by a graph or by who has given it a hook. What is noted on it is
    there again only if it lives.
    """
    _accumulator(leaf).metadata[_NOTE] = True
    return _accumulator(leaf).metadata.pop(_NOTE, False) is True


def is_hooked(leaf: torch.Tensor) -> bool:
    """Whether the node that adds to a leaf's gradient has hooks, or knows it by another shape.

    It does not tell, but a new hook is put where the others are. Those of C++ are elsewhere: in
    torch those of processes that exchange gradients, which is asked for apart.
    """
    node = _accumulator(leaf)
    if any(tuple(known.shape) != tuple(leaf.shape) for known in node._input_metadata):
        return True
    return any(_found_beside(add(_idle)) for add in (node.register_hook, node.register_prehook))


def _found_beside(handle: RemovableHandle) -> bool:
    hooks: Any = handle.hooks_dict_ref()
    is_alone = len(hooks) == 1
    handle.remove()
    return not is_alone


def _idle(*gradients: object) -> None:
    """A hook that changes nothing."""


def _accumulator(leaf: torch.Tensor) -> Any:
    requires_one = leaf.requires_grad  # or it will, by the time that the graph runs
    try:
        with torch.enable_grad():
            of_view: Any = leaf.requires_grad_().view_as(leaf).grad_fn
    finally:
        leaf.requires_grad_(requires_one)
    return of_view.next_functions[0][0]
