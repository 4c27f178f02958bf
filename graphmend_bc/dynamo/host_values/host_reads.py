"""Calls that make a Python value of a tensor: `t.item()`, `t.tolist()`, `float(t)`, `str(t)`."""

from __future__ import annotations

from typing import TypeGuard, cast

import torch
from torch._dynamo import variables as vts
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import TensorVariable, UnspecializedPythonVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.graph.emit import method
from graphmend_bc.dynamo.host_values.argument_snapshots import Snapshots, Snapshotter
from graphmend_bc.dynamo.host_values.host_value import (
    ComputedVariable,
    HostVariable,
    Reads,
    ReadVariable,
)
from graphmend_bc.dynamo.trace.compilation import Compilation, Trace
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.runtime import Site

ITEM_BREAK = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
"""What stock Dynamo calls the break at such a call."""

_METHODS = ("item", "tolist")
_CONVERSIONS = (float, int, str, repr)


def is_read(callee: VariableTracker) -> bool:
    """True for a callee that may read a value from a tensor."""
    callee = callee.realize()
    if isinstance(callee, vts.GetAttrVariable):
        return callee.name in _METHODS and is_plain(callee.obj)
    return isinstance(callee, vts.BuiltinVariable) and callee.fn in _CONVERSIONS


def is_plain(value: VariableTracker) -> TypeGuard[TensorVariable]:
    """True for a tensor that is one in the user's program too."""
    value = value.realize()
    return isinstance(value, TensorVariable) and not isinstance(value, UnspecializedPythonVariable)


class MarkedReadVariable(MarkedCalleeVariable):
    """The callee of such a call."""

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker | None:
        """The value, for after the graph."""
        if kwargs:
            return None
        check_is_outermost(tx)
        check_no_function_mode(tx)  # it sees the call, and may answer it
        if (value := self._read(tx, args)) is not None:
            self.compilation.trace.used[self.site] = "defer"
            self.compilation.trace.gb_types[self.site] = ITEM_BREAK
        return value

    def _read(
        self, tx: InstructionTranslatorBase, args: list[VariableTracker]
    ) -> HostVariable | None:
        callee = self.callee.realize()
        if isinstance(callee, vts.GetAttrVariable):
            return None if args else read(tx, self.compilation, self.site, callee.obj, callee.name)
        if len(args) != 1 or not is_plain(args[0]):
            return None
        assert isinstance(callee, vts.BuiltinVariable)
        if callee.fn in (str, repr):
            kept = Snapshotter(tx, self.compilation)(args[0])
            return ComputedVariable(self.site, str, callee.fn, [kept])
        value = read(tx, self.compilation, self.site, args[0], "item")
        if value is None or value.kind is complex or (callee.fn is int and value.kind is float):
            return None
        return ComputedVariable(self.site, callee.fn, callee.fn, [value])


def read_predicate(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, predicate: TensorVariable
) -> VariableTracker:
    """The truth value of a branch around a deferred call, for after the graph."""
    node, known = predicate.as_proxy().node, compilation.trace.of(Reads).predicates
    if node not in known:
        known[node] = read(tx, compilation, site, predicate, "item") or predicate
    return known[node]


def read(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    tensor: VariableTracker,
    method: str,
) -> ReadVariable | None:
    """The value of a tensor, for after the graph.

    Returns:
        None if the call would raise, or the tensor is none of the plain kind.
    """
    tensor = tensor.realize()
    example = tensor.as_proxy().node.meta.get("example_value")
    if tensor.python_type() is not torch.Tensor or not _is_readable(example, method):
        return None
    recorder = compilation.trace.listen(tx.output)
    value = _copied(tx, compilation.trace, recorder, cast(TensorVariable, tensor))
    if recorder.checks:
        # A backend that drops what nobody uses would drop an exception, which may be handled.
        compilation.trace.kept.append(value)
    kind = list if method == "tolist" and example.dim() else _kind(example.dtype)
    return ReadVariable(site, kind, value, method, compilation.trace)


def _copied(
    tx: InstructionTranslatorBase, trace: Trace, recorder: Recorder, tensor: TensorVariable
) -> TensorVariable:
    """A tensor as it is now, without a gradient; the same until something is written."""
    node, copies = tensor.as_proxy().node, trace.of(Reads).copies
    moment = node, len(recorder.written)
    if moment not in copies:
        if node.meta["example_value"].requires_grad:
            copies[moment] = method(tx, "clone", method(tx, "detach", tensor))
        else:
            copies[moment] = method(tx, "clone", tensor)
            trace.of(Snapshots).read.append((copies[moment].as_proxy().node, moment[1]))
    return copies[moment]


def _is_readable(example: torch.Tensor, method: str) -> bool:
    sizes = example.shape
    if example.layout is not torch.strided or example.is_quantized or example.device.type == "meta":
        return False
    if method == "tolist":
        return True
    return all(isinstance(size, int) and size == 1 for size in sizes)


def _kind(dtype: torch.dtype) -> type:
    if dtype.is_complex:
        return complex
    if dtype is torch.bool:
        return bool
    return float if dtype.is_floating_point else int
