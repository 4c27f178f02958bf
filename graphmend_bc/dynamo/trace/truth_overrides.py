"""Python code of the user's that eager runs where a tensor is asked for its truth value.

A tensor subclass may define `__bool__`, `__torch_function__` or `__torch_dispatch__`, and a
`TorchFunctionMode` sees every call; an operator that we put into the graph passes them by.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import NumpyNdarrayVariable, TensorVariable
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from graphmend_bc.reporting.reasons import Refused


def check_no_function_mode(tx: InstructionTranslatorBase) -> None:
    """Refuse sites under a mode of the user's; the default device is a mode that does not matter.

    Raises:
        Refused: such a mode is entered.
    """
    for value in _modes(tx):
        name = type(value).__name__
        raise Refused("inside-transform", f"The torch function mode {name} is entered.")


def is_under_mode(tx: InstructionTranslatorBase) -> bool:
    """True if a mode of the user's is entered, or what one does with a call is traced."""
    frame: InstructionTranslatorBase | None = tx
    while frame is not None and frame.f_code.co_name != "__torch_function__":
        frame = frame.parent
    return frame is not None or any(True for _ in _modes(tx))


def _modes(tx: InstructionTranslatorBase) -> Iterator[object]:
    for mode in tx.symbolic_torch_function_state.mode_stack:
        value = getattr(mode.realize(), "value", None)
        if not isinstance(value, DeviceContext):
            yield value


def check_truth_is_plain(condition: TensorVariable) -> None:
    """Refuse a condition whose class answers for itself.

    Raises:
        Refused: it is of such a class.
    """
    kind = condition.python_type()
    if kind in (torch.Tensor, torch.nn.Parameter) or isinstance(condition, NumpyNdarrayVariable):
        return
    example = condition.as_proxy().node.meta["example_value"]
    if (
        getattr(kind, "__bool__", None) is not torch.Tensor.__bool__
        or not _is_default(kind)
        or is_traceable_wrapper_subclass(example)
    ):
        raise Refused("predicate-not-exact", f"It is a {kind.__name__}, which may answer itself.")


def _is_default(kind: type) -> bool:
    function = getattr(kind, "__torch_function__", None)
    return getattr(function, "__func__", function) in (
        torch.Tensor.__torch_function__.__func__,  # type: ignore[attr-defined]
        torch._C._disabled_torch_function_impl,
    )
