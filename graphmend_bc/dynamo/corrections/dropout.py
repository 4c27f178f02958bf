"""Dropout that drops nothing gives its argument, as eager Python's does.

For the compiler it gives a copy. Stock returns the argument itself only where it breaks the graph
behind it or where the backend runs the operator as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import TensorVariable
from torch.nn import functional as F

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.trace.compilation import current

_DEFAULTS = {
    F.dropout: {"p": 0.5, "training": True, "inplace": False},
    F.alpha_dropout: {"p": 0.5, "training": False, "inplace": False},
    F.feature_alpha_dropout: {"p": 0.5, "training": False, "inplace": False},
    F.dropout1d: {"p": 0.5, "training": True, "inplace": False},
    F.dropout2d: {"p": 0.5, "training": True, "inplace": False},
    F.dropout3d: {"p": 0.5, "training": True, "inplace": False},
    torch.dropout: {"p": None, "train": None},
    torch.alpha_dropout: {"p": None, "train": None},
    torch.feature_dropout: {"p": None, "train": None},
}
"""The functions, with what follows the tensor among their parameters."""

_RANKS = {F.dropout1d: 3, F.dropout2d: 4, F.dropout3d: 5}
"""Those that warn of tensors of another rank, or reshape them."""


def call_dropout(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TorchInGraphFunctionVariable.call_function`: a dropout that drops nothing is no operator."""

    def call_function(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        compilation = current()
        if compilation is not None and compilation.may_mend and not tx.export:
            passed = _passed_on(self.value, args, kwargs)
            if passed is not None:
                return passed
        result: VariableTracker = stock(self, tx, args, kwargs)
        return result

    return call_function


def _passed_on(function: object, args: Args, kwargs: Keywords) -> TensorVariable | None:
    """The tensor that a call gives as it is; None for other calls."""
    try:
        defaults = _DEFAULTS.get(function)  # type: ignore[call-overload]
    except TypeError:  # not hashable
        return None
    if defaults is None or len(args) > 1 + len(defaults):
        return None
    given = dict(zip(("input", *defaults), args, strict=False)) | kwargs
    tensor = given.pop("input", None)
    tensor = None if tensor is None else tensor.realize()
    known = {name: value.realize() for name, value in given.items()}
    if type(tensor) is not TensorVariable or not known.keys() <= defaults.keys():
        return None
    if not all(value.is_python_constant() for value in known.values()):
        return None
    rank = tensor.as_proxy().node.meta["example_value"].dim()
    if _RANKS.get(function, rank) != rank:  # type: ignore[call-overload]
        return None
    p, training, *_ = {**defaults, **{n: v.as_python_constant() for n, v in known.items()}}.values()
    is_valid = type(p) in (int, float) and 0 <= p <= 1 and type(training) is bool
    return tensor if is_valid and (p == 0 or not training) else None
