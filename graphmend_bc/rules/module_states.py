"""`module.named_modules()` after one of the module's buffers, parameters or submodules was set.

Dynamo traces `nn.Module.__setattr__` down to the dicts that hold them, and `named_modules` reads
those. It breaks the graph all the same, from a time when it kept what was set apart from the dicts.
"""

from __future__ import annotations

from typing import Final

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._dynamo.variables.nn_module import NNModuleVariable, UnspecializedNNModuleVariable

from graphmend_bc.code.listing import name_of
from graphmend_bc.dynamo.calls.markers import marker_as_python, read_attribute
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import CallOperation
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import CalledOperation, GetAttribute, Marker

_STATES: Final = ("_parameters", "_buffers", "_modules")
_METHODS: Final = frozenset(
    {"parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules"}
)


def read(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: the method is that of a module of which nothing was set."""
    assert isinstance(marker, CalledOperation)
    assert isinstance(marker.function, GetAttribute)
    owner = args[0].unpack_var_sequence(tx)[0].realize()
    if not isinstance(owner, UnspecializedNNModuleVariable) or not owner.is_state_mutated:
        return marker_as_python(tx, marker, args)
    if _is_kept_apart(tx, owner):
        compilation.trace.refused[marker.site] = Refused(
            "call-not-traced", "What was set is in none of the dicts that the method reads."
        )
        return marker_as_python(tx, marker, args)
    owner.is_state_mutated = False
    try:
        found = read_attribute(tx, owner, marker.function.name)
    finally:
        owner.is_state_mutated = True
    compilation.trace.used[marker.site] = "polyfill"
    return found


def _is_kept_apart(tx: InstructionTranslatorBase, owner: UnspecializedNNModuleVariable) -> bool:
    """Whether an attribute that was set may be state, and Dynamo holds it as an attribute."""
    state = {name for each in _STATES for name in vars(owner.value).get(each, ())}
    held = tx.output.side_effects.store_attr_mutations.get(owner, {})
    return any(name in state or _is_state(value) for name, value in held.items())


def _is_state(value: VariableTracker) -> bool:
    """True for a module, a parameter or a buffer, as `nn.Module.__setattr__` tells them."""
    if isinstance(value, LazyVariableTracker):
        if not value.is_realized():
            known = (torch.nn.Module, torch.nn.Parameter, torch.nn.Buffer)
            return isinstance(value.peek_value(), known)
        value = value.realize()
    if value.is_tensor():
        return value.python_type() is not torch.Tensor
    return isinstance(value, (NNModuleVariable, UnspecializedNNModuleVariable))


def _matches(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.op.name in ("LOAD_ATTR", "LOAD_METHOD")
    if not known or name_of(site.op.arg) not in _METHODS:
        return None
    return {site.offset: CallOperation()}


MODULE_STATE = Rule(
    "module-state",
    "polyfill",
    9,
    _matches,
    frozenset({"getattr() on nn.Module with pending mutation"}),
    handler=read,
)
"""`module.named_modules()` is traced after a buffer or submodule of the module was set."""

RULES = (MODULE_STATE,)
