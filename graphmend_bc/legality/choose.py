"""May `torch.where` choose between two tensors and be told apart by nobody?"""

from __future__ import annotations

import torch

from graphmend_bc.reporting.reasons import Refused


def check_predicate(predicate: torch.Tensor) -> None:
    """Show that the predicate has one element, as `bool(tensor)` wants it.

    Raises:
        Refused: it has more, none, or a number known only at run time.
    """
    if predicate.layout is not torch.strided:
        raise Refused("predicate-not-scalar", f"Its layout is {predicate.layout}.")
    count = predicate.numel()
    if not isinstance(count, int) or count != 1:
        raise Refused("predicate-not-scalar", f"Its shape is {tuple(predicate.shape)}.")


def check_can_choose(left: torch.Tensor, right: torch.Tensor) -> None:
    """Show that two tensors differ in nothing but their values and gradients.

    `where` broadcasts and promotes, so every difference must be ruled out here.

    Raises:
        Refused: naming the first difference.
    """
    for what in ("shape", "dtype", "device", "layout"):
        a, b = getattr(left, what), getattr(right, what)
        if not _surely_equal(a, b):
            raise Refused(
                "arms-differ-in-layout",
                f"The {what} is {_show(a)} in one arm and {_show(b)} in the other.",
            )
    if left.layout is not torch.strided:
        raise Refused("arms-differ-in-layout", f"The layout {left.layout} cannot be chosen.")
    if not _surely_equal(left.stride(), right.stride()) or not _is_dense(left):
        raise Refused(
            "arms-differ-in-layout", f"The strides are {left.stride()} and {right.stride()}."
        )
    if left.dim() > 1 and any(type(size) is int and size == 0 for size in left.shape):
        # Kernels give an empty result other strides than it has while tracing.
        raise Refused("arms-differ-in-layout", "The tensors are empty.")
    for tensor in (left, right):
        if tensor.is_conj() or tensor.is_neg() or tensor.is_quantized:
            raise Refused("arms-differ-in-layout", "A lazy or quantized tensor cannot be chosen.")
    if left.requires_grad != right.requires_grad:
        raise Refused(
            "gradient-reach", "One arm's tensor requires a gradient, the other's does not."
        )


def _surely_equal(left: object, right: object) -> bool:
    """Equal without asking a symbolic size for a guard that this run alone would justify."""
    if isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)):
        return len(left) == len(right) and all(map(_surely_equal, left, right))
    if isinstance(left, torch.SymInt) or isinstance(right, torch.SymInt):
        return str(left) == str(right)
    return left == right


def _is_dense(tensor: torch.Tensor) -> bool:
    """Non-overlapping and dense, so that `where` gives its result the same strides."""
    expected: int | torch.SymInt = 1
    pairs = [
        (stride, size)
        for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
        if not _surely_equal(size, 1)
    ]
    if all(isinstance(stride, int) for stride, _ in pairs):
        pairs.sort(key=lambda pair: pair[0])
    else:
        pairs.reverse()
    for stride, size in pairs:
        if not _surely_equal(stride, expected):
            return False
        expected = expected * size
    return True


def _show(value: object) -> str:
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value)
