"""Calls that make a Python value of a tensor: `t.item()`, `bool(t)`, `torch.equal(a, b)` ...

Where the value is a truth value, or goes into one comparison only, it becomes a predicate of the
graph: a tensor if it only steers a jump, else a speculation.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.misc import GetAttrVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable
from torch.fx.experimental.symbolic_shapes import (
    free_unbacked_symbols,
    statically_known_true,
)

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.graph.emit import call, method
from graphmend_bc.dynamo.graph.fx_nodes import input_storages
from graphmend_bc.dynamo.predication import site_tracer
from graphmend_bc.dynamo.trace import tracing
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.legality.choose import check_predicate
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import MarkedCallee, Marker, Speculate


def predicate_of_read(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    mark: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: the callee of a call that may make a truth value of a tensor."""
    assert isinstance(mark, MarkedCallee)
    return AskedVariable(args[0], mark, compilation)


class AskedVariable(MarkedCalleeVariable):
    """The callee of a marked call."""

    _nonvar_fields: ClassVar[set[str]] = {"primitive", *MarkedCalleeVariable._nonvar_fields}  # type: ignore[misc]

    def __init__(
        self,
        callee: VariableTracker,
        primitive: MarkedCallee,
        compilation: Compilation,
        **kwargs: Any,
    ) -> None:
        super().__init__(primitive.site, callee, compilation, **kwargs)
        self.primitive = primitive

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker | None:
        """The call's value, if it is a truth value or a number that is compared."""
        name, operands = _parse(self.callee.realize(), [arg.realize() for arg in args])
        tensors = [o for o in operands[:2] if type(o) is TensorVariable]
        if not tensors or tensors[0] is not operands[0]:
            return None
        tracing.check_is_outermost(tx)
        tracer = site_tracer.SiteTracer(tx, self.compilation, self.primitive.site)
        example = tensors[0].as_proxy().node.meta["example_value"]
        if name == "item" and example.dtype is not torch.bool:
            if not self.primitive.use.compared or len(operands) > 1 or kwargs:
                return None
            check_predicate(example)
            self.compilation.trace.used.setdefault(self.primitive.site, "capture")
            return HostNumberVariable(wide(tx, tensors[0]), tracer, self.primitive)
        if name == "_check_tensor_all":
            return _checked(tracer, tensors[0], example)
        truth = self._truth(tx, name, tensors, operands, kwargs)
        if truth is None or not isinstance(truth, TensorVariable):
            return truth
        if self.primitive.use.tested:
            self.compilation.trace.used.setdefault(self.primitive.site, "capture")
            return truth
        return tracer.speculate(truth, Speculate(self.primitive.site, self.primitive.use.likely))

    def _truth(
        self,
        tx: InstructionTranslatorBase,
        name: str,
        tensors: list[TensorVariable],
        operands: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker | None:
        if name in ("item", "bool", "is_nonzero", "__bool__") and len(operands) == 1:
            return tensors[0]
        if name == "equal" and len(tensors) == len(operands) == 2:
            return _equal(tx, tensors[0], tensors[1])
        if name == "allclose" and len(tensors) == 2 and _dtype(tensors[0]) == _dtype(tensors[1]):
            found = TorchInGraphFunctionVariable(torch.isclose).call_function(tx, operands, kwargs)
            assert isinstance(found, TensorVariable)
            return call(tx, "all", found)
        return None


class HostNumberVariable(VariableTracker):
    """The Python number of a tensor, which only a comparison will see.

    Args:
        tensor: a 0-dim tensor of float64 or int64 with the same value.
        tracer: of the site where the number is asked for.
        primitive: what the comparison is used for.
    """

    _nonvar_fields: ClassVar[set[str]] = {  # type: ignore[misc]
        "tracer",
        "primitive",
        *VariableTracker._nonvar_fields,
    }

    def __init__(
        self,
        tensor: TensorVariable,
        tracer: site_tracer.SiteTracer,
        primitive: MarkedCallee,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tensor = tensor
        self.tracer = tracer
        self.primitive = primitive

    def compare(
        self, tx: InstructionTranslatorBase, name: str, other: VariableTracker, reverse: bool
    ) -> VariableTracker:
        """The comparison with another number, as a tensor or speculated on.

        Args:
            tx: translator of the frame.
            name: "gt", "le" ...
            other: a Python constant or another number of a tensor.
            reverse: True if `other` is on the left.

        Raises:
            SiteRefused: the comparison of tensors might round where Python does not.
        """
        try:
            truth = self._truth(tx, name, other, reverse)
            if self.primitive.use.tested:
                return truth
            return self.tracer.speculate(
                truth, Speculate(self.tracer.site, self.primitive.use.likely)
            )
        except Refused as refused:
            raise SiteRefused(refused, self.tracer.site) from refused

    def _truth(
        self, tx: InstructionTranslatorBase, name: str, other: VariableTracker, reverse: bool
    ) -> TensorVariable:
        right = other.tensor if isinstance(other, HostNumberVariable) else other
        return numbers_compared(tx, _SWAPPED[name] if reverse else name, self.tensor, right)


def numbers_compared(
    tx: InstructionTranslatorBase, name: str, left: TensorVariable, right: VariableTracker
) -> TensorVariable:
    """The comparison of two Python numbers of which at least one was read from a tensor.

    Args:
        tx: translator of the frame.
        name: "gt", "le" ...
        left: what `wide` gives for the number of a tensor.
        right: the same, or a Python constant.

    Raises:
        Refused: the comparison of tensors might round where Python does not.
    """
    if not isinstance(right, TensorVariable):
        return call(tx, name, left, _exact(right, _dtype(left)))
    if _dtype(left) != _dtype(right):
        raise Refused("predicate-not-exact", "A whole number meets a float.")
    return call(tx, name, left, right)


_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}

COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
"""Names of torch's functions for Python's comparisons."""


def _exact(other: VariableTracker, dtype: torch.dtype) -> int | float:
    """A Python number that a tensor of the type compares with as Python would."""
    value: Any = other.as_python_constant() if other.is_python_constant() else None
    if dtype is torch.float64 and type(value) in (float, int):
        if type(value) is int and int(float(value)) != value:
            raise Refused("predicate-not-exact", f"{value} is no float.")
        return float(value)
    if dtype is torch.int64 and type(value) is float and value.is_integer():
        value = int(value)
    if dtype is torch.int64 and type(value) is int and -(2**63) <= value < 2**63:
        return value
    raise Refused("predicate-not-exact", f"The other operand is {other}.")


def wide(tx: InstructionTranslatorBase, tensor: TensorVariable) -> TensorVariable:
    """The number of a tensor with one element, as a 0-dim tensor of float64 or int64.

    Raises:
        Refused: neither holds every number of the tensor's type.
    """
    dtype = _dtype(tensor)
    if dtype.is_complex or dtype is torch.uint64:
        raise Refused("predicate-not-exact", f"The tensor is of {dtype}.")
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    # The number is what it is now, whatever is written to the tensor before it is compared.
    copy = method(tx, "clone", method(tx, "reshape", tensor, ()))
    return method(tx, "to", copy, wide)


def _dtype(tensor: TensorVariable) -> torch.dtype:
    dtype: torch.dtype = tensor.as_proxy().node.meta["example_value"].dtype
    return dtype


def _parse(
    callee: VariableTracker, args: list[VariableTracker]
) -> tuple[str, list[VariableTracker]]:
    """The name of the function and its operands, the tensor of a method included."""
    if isinstance(callee, GetAttrVariable) and isinstance(callee.obj, TensorVariable):
        return callee.name, [callee.obj, *args]
    if isinstance(callee, BuiltinVariable) and callee.fn is bool:
        return "bool", args
    if getattr(callee, "value", getattr(callee, "fn", None)) is torch._check_tensor_all:
        return "_check_tensor_all", args
    if isinstance(callee, TorchInGraphFunctionVariable):
        for function in (torch.equal, torch.allclose, torch.is_nonzero):
            if callee.value is function:
                return function.__name__, args
    return "", args


def _checked(
    tracer: site_tracer.SiteTracer, condition: TensorVariable, example: torch.Tensor
) -> VariableTracker | None:
    """`torch._check_tensor_all`, which raises unless all elements are true."""
    if example.dtype is not torch.bool:
        return None
    truth = call(tracer.tx, "all", condition)
    tracer.speculate(truth, Speculate(tracer.site, likely=True, firm=True))
    return ConstantVariable.create(None)


def _same_shape(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have one shape; the graph is guarded on it if they have not.

    Raises:
        Refused: it is known only at run time, or a guard would make a constant of a size that may
            change.
    """
    if a.dim() != b.dim():
        return False
    pairs = [pair for pair in zip(a.shape, b.shape, strict=True) if not _surely_equal(*pair)]
    if any(map(free_unbacked_symbols, pairs)):
        raise Refused("predicate-not-exact", "A size is known only at run time.")
    for one, other in pairs:
        if _now(one) != _now(other):
            return bool(one == other)  # which makes the guard
    if pairs:
        raise Refused("predicate-not-exact", "Sizes that may change are the same in this call.")
    return True


def _surely_equal(one: int | torch.SymInt, other: int | torch.SymInt) -> bool:
    return bool(statically_known_true(one == other))


def _now(size: int | torch.SymInt) -> object:
    """A size in the call that is compiled for."""
    return size if isinstance(size, int) else size.node.hint


def _equal(
    tx: InstructionTranslatorBase, left: TensorVariable, right: TensorVariable
) -> VariableTracker:
    """`torch.equal` as a tensor.

    It says yes at once for the same memory, even if there are NaNs in it, so that has to be ruled
    out for floats.
    """
    a, b = (v.as_proxy().node.meta["example_value"] for v in (left, right))
    if a.dtype != b.dtype or a.device != b.device or a.layout is not torch.strided:
        raise Refused("predicate-not-exact", "The tensors differ in dtype, device or layout.")
    if not _same_shape(a, b):
        return ConstantVariable.create(False)
    if a.is_floating_point() or a.is_complex():
        both = {storage_of(a), storage_of(b)}
        if len(both) == 1 or both <= input_storages(tx.output.graph):
            raise Refused("predicate-not-exact", "Both may be the same memory.")
    return call(tx, "all", call(tx, "eq", left, right))
