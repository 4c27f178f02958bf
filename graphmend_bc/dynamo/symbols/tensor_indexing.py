"""Subscripts of tensors by tensors without a dimension that hold one whole number or truth value.

Eager Python asks such an index for its number and selects by it, which Dynamo cannot trace. The
number stands for it instead: the one it is known to be, or one that the graph reads when it runs.
A truth value becomes a mask of one element.

    x[:, t]      torch.select(x, 1, t.item())[:]
    x[c]         x.unsqueeze(0)[c.unsqueeze(0)]
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import wrap_fx_proxy
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import BaseListVariable, TupleVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch.fx.experimental.symbolic_shapes import expect_true

from graphmend_bc.dynamo.graph.fx_nodes import storages
from graphmend_bc.dynamo.symbols.array_numbers import check_assigned, refuse_numbers
from graphmend_bc.dynamo.symbols.captures import note_here
from graphmend_bc.dynamo.symbols.full_masks import FullMasks, with_all_indices
from graphmend_bc.dynamo.symbols.key_dims import first_dims
from graphmend_bc.dynamo.symbols.known_integers import (
    KnownIntegers,
    is_index,
    number_in,
    with_numbers,
)
from graphmend_bc.dynamo.trace.compilation import Compilation, current


def _may_know(compilation: Compilation) -> bool:
    trace = compilation.trace
    knows = trace.known(KnownIntegers) is not None or trace.known(FullMasks) is not None
    return compilation.captures or knows


def call_method(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TensorVariable.call_method`: a tensor tells its number, and such indices select."""

    def call(
        self: Any, tx: Any, name: str, args: list[VariableTracker], *rest: Any, **kwargs: Any
    ) -> Any:
        compilation = current()
        if name == "__setitem__":
            check_assigned(args[1])
        if compilation is None or not _may_know(compilation):
            return stock(self, tx, name, args, *rest, **kwargs)
        if name == "item" and (number := number_in(compilation.trace, self)) is not None:
            return ConstantVariable.create(number)
        if name == "__getitem__":
            args = [with_all_indices(compilation.trace, self, args[0])]
        if name in ("__getitem__", "__setitem__"):
            self, key = _selected(tx, compilation, self, *args)
            if key is None and name == "__getitem__":
                return self
            args = [key or ConstantVariable.create(...), *args[1:]]
            return stock(self, tx, name, args, *rest, **kwargs)
        with refuse_numbers(args):
            return stock(self, tx, name, args, *rest, **kwargs)

    return call


def set_item(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TensorVariable.mp_ass_subscript_impl`: `t[k] = v`, where that is no call of the method."""

    def set_(self: Any, tx: Any, key: VariableTracker, value: Any) -> Any:
        compilation = current()
        if value is not None:
            check_assigned(value)
        if compilation is not None and _may_know(compilation) and value is not None:
            self, left = _selected(tx, compilation, self, key, value)
            key = left or ConstantVariable.create(...)
        return stock(self, tx, key, value)

    return set_


def call_builtin(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`BuiltinVariable.call_function`: subscripts, and `operator.index`."""

    def call(self: Any, tx: Any, args: list[VariableTracker], *rest: Any, **kwargs: Any) -> Any:
        if self.fn in (int, float):
            with refuse_numbers(args):
                return stock(self, tx, args, *rest, **kwargs)
        compilation = current() if self.fn in (operator.getitem, operator.index) else None
        if compilation is None or not _may_know(compilation):
            return stock(self, tx, args, *rest, **kwargs)
        target = args[0].realize()
        if self.fn is operator.index:
            number = number_in(compilation.trace, target)
            if number is not None:
                return ConstantVariable.create(int(number))
        elif type(target) is TensorVariable:
            asked = with_all_indices(compilation.trace, target, args[1])
            target, key = _selected(tx, compilation, target, asked)
            if key is None:
                return target
            args = [target, key]
        elif isinstance(target, BaseListVariable):
            args = [target, with_numbers(compilation.trace, args[1])]
        return stock(self, tx, args, *rest, **kwargs)

    return call


def _selected(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    target: TensorVariable,
    key: VariableTracker,
    value: VariableTracker | None = None,
) -> tuple[TensorVariable, VariableTracker | None]:
    """The part of a tensor that such indices select, and what is left of the key, if anything.

    Args:
        tx: translator of the frame that is traced.
        compilation: what is being compiled.
        target: the tensor.
        key: what it is asked for.
        value: what the part is set to, if it is.
    """
    key = with_numbers(compilation.trace, key)
    if not compilation.captures or type(target) is not TensorVariable:
        return target, key
    if _is_truth_value(key.realize(), target) and not _is_of(value, target):
        note_here(tx, compilation)
        rows, mask = (one.call_method(tx, "unsqueeze", [_FIRST], {}) for one in (target, key))
        return cast(TensorVariable, rows), mask
    items = [item.realize() for item in key.items] if type(key) is TupleVariable else [key]
    tensor = target.as_proxy().node.meta["example_value"]
    found = list(_places(items, tensor.dim()))
    if not found or tensor.layout is not torch.strided or tensor.is_nested:
        return target, key
    for place, dim in reversed(found):
        target = _select(tx, target, dim, cast(TensorVariable, items.pop(place)))
    return target, TupleVariable(items) if items else None


_FIRST = ConstantVariable.create(0)


def _is_truth_value(key: VariableTracker, target: TensorVariable) -> bool:
    """True if eager Python asks for its value, and a mask may be where it is."""
    if type(key) is not TensorVariable or key.dtype is not torch.bool or key.ndim != 0:
        return False
    return key.device in (target.device, torch.device("cpu"))


def _is_of(value: VariableTracker | None, target: TensorVariable) -> bool:
    """True for a tensor that shares memory with another, of which eager Python may set no part."""
    known = None if value is None else value.realize()
    if not isinstance(known, TensorVariable):
        return False
    one, other = (storages([tensor.as_proxy().node]) for tensor in (known, target))
    return not one.isdisjoint(other)


def _places(items: list[VariableTracker], dims: int) -> Iterator[tuple[int, int]]:
    """Each such index by its place in the key, and the dimension it selects from."""
    found = first_dims(items, dims) or ()
    for place, (item, dim) in enumerate(zip(items, found, strict=False)):
        if is_index(item):
            yield place, dim


def _select(
    tx: InstructionTranslatorBase, target: TensorVariable, dim: int, index: TensorVariable
) -> TensorVariable:
    """What the index selects; the graph raises if it is not from 0 to the size of the dimension."""
    number = index.call_method(tx, "item", [], {})
    proxy = target.as_proxy()
    if isinstance(number, SymNodeVariable):
        symbol: Any = number.sym_num
        size = proxy.node.meta["example_value"].shape[dim]
        for fact in (symbol >= 0, symbol < size):
            expect_true(fact)
    arguments = (proxy, dim, number.as_proxy())
    node = tx.output.create_proxy("call_function", torch.select, arguments, {})
    return cast(TensorVariable, wrap_fx_proxy(tx, node))
