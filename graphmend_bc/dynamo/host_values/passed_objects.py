"""Objects that an effect gets as they are: those that were there before the frame.

Generated code runs effects after the graph and before it replays what the function changed in
Python. So what was there before is then as the function found it, whatever happens to it later.
"""

from __future__ import annotations

import types
from typing import Any

import torch
from torch._dynamo import variables as vts
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import AttributeMutationNew, ValueMutationNew, VariableTracker
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime.objects import can_be_shown, is_enum, is_named_tuple

_FIXED = (type(None), bool, int, float, complex, str, bytes, range, type(...), type(NotImplemented))
_FIXED_OF_TORCH = (
    *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format),
    *(torch.finfo, torch.iinfo),
)
_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def is_fixed(value: VariableTracker) -> bool:
    """True for values that nobody can change, and for functions, modules and classes."""
    if isinstance(value, (vts.UserDefinedClassVariable, vts.BuiltinVariable)):
        return value.source is not None or isinstance(value, vts.BuiltinVariable)
    if not value.is_python_constant():
        return False
    constant = value.as_python_constant()
    if isinstance(constant, _NAMED):
        return value.source is not None
    return _is_fixed(constant)


def _is_fixed(constant: Any) -> bool:
    kind = type(constant)
    if kind is tuple:
        return all(map(_is_fixed, constant))
    if kind is slice:
        return all(map(_is_fixed, (constant.start, constant.stop, constant.step)))
    if is_named_tuple(kind):
        return all(map(_is_fixed, constant))
    if is_enum(kind):
        return _is_fixed(constant.value)
    return kind in _FIXED or kind in _FIXED_OF_TORCH


def check_whole(tx: InstructionTranslatorBase, value: VariableTracker, use: str) -> None:
    """Show that a deferred call may get an object as it is.

    Args:
        tx: translator of the frame in which the call stands.
        value: the object.
        use: what the call does with it: "text" if it makes its text; "read" if it only reads; empty
            if that is not known.

    Raises:
        Refused: it may be another than at the call, or its text may be.
    """
    name = type(value).__name__
    if not use:
        raise Refused("effect-argument", f"It is a {name}.")
    if value.source is None:
        raise Refused("effect-argument", f"It is a {name} made inside the compiled function.")
    if has_changed_something(tx):
        raise Refused("effect-argument", f"It is a {name}, and an object was changed before.")
    if use == "text" and not _is_parameter(value) and not can_be_shown(behind(value)):
        raise Refused("effect-argument", f"Making the text of a {name} may do more than read it.")


def behind(value: VariableTracker) -> object:
    """The object itself."""
    if (found := getattr(value, "value", None)) is not None:
        return found
    return value.as_python_constant() if value.is_python_constant() else _Unknown()


class _Unknown:
    def __repr__(self) -> str:
        raise NotImplementedError


def _is_parameter(value: VariableTracker) -> bool:
    return isinstance(value, TensorVariable) and value.python_type() is torch.nn.Parameter


def has_changed_something(tx: InstructionTranslatorBase) -> bool:
    """True if the function has changed an object that was there before it, so far."""
    return bool(tx.output.side_effects.tensor_hooks) or bool(changed_objects(tx))


def changed_objects(tx: InstructionTranslatorBase) -> dict[int, VariableTracker]:
    """The objects that were there before the function and that it has changed so far, by `id`."""
    effects = tx.output.side_effects
    known = {id(item): key for key, item in effects.id_to_variable.items()}
    items = [*effects.id_to_variable.values(), *effects.store_attr_mutations]
    return {
        known.get(id(item), 0): item
        for item in items
        if item.mutation_type is not None
        and not isinstance(item.mutation_type, (AttributeMutationNew, ValueMutationNew))
        and effects.is_modified(item)
    }
