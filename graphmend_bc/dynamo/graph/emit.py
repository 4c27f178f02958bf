"""Add operators to the graph that is being traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import wrap_fx_proxy
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch.fx import Proxy


def call(tx: InstructionTranslatorBase, name: str, *operands: Any, **named: Any) -> TensorVariable:
    """Add a call of `torch.<name>` to the graph; operands are variables or Python values."""
    return _node(tx, "call_function", getattr(torch, name), operands, named)


def method(tx: InstructionTranslatorBase, name: str, *operands: Any) -> TensorVariable:
    """Add a call of a tensor method to the graph; the tensor comes first."""
    return _node(tx, "call_method", name, operands)


def _node(
    tx: InstructionTranslatorBase,
    kind: str,
    target: str | Callable[..., Any],
    operands: tuple[Any, ...],
    named: dict[str, Any] | None = None,
) -> TensorVariable:
    args = tuple(o.as_proxy() if isinstance(o, VariableTracker) else o for o in operands)
    proxy = tx.output.create_proxy(kind, target, args, named or {})
    return cast(TensorVariable, wrap_fx_proxy(tx, proxy))


def as_tensor(
    tx: InstructionTranslatorBase, number: Proxy | float, dtype: torch.dtype
) -> TensorVariable:
    """A 0-dim tensor of a number, on the CPU."""
    made = tx.output.create_proxy("call_function", torch.scalar_tensor, (number,), {"dtype": dtype})
    return cast(TensorVariable, wrap_fx_proxy(tx, made))


def compared(
    tx: InstructionTranslatorBase,
    compare: Callable[[Any, Any], Any],
    number: SymNodeVariable,
    other: int,
) -> SymNodeVariable:
    """A comparison of a number known only at run time, such as `operator.ne`, with one that is."""
    proxy = tx.output.create_proxy("call_function", compare, (number.as_proxy(), other), {})
    return cast(SymNodeVariable, SymNodeVariable.create(tx, proxy))
