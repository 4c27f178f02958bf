"""Settings that texts depend on: what a deferred call shows is shown under those of its own place.

Dynamo replays what the function changes in Python, print options included, when deferred calls have
run; the default dtype it changes in the graph, which is before. So a text must not be made later if
the function has changed the options before it, or if another dtype is the default in the end.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass, field
from types import ModuleType
from typing import Final

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.misc import StringFormatVariable

from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused

_WRITERS: Final = ("builtins", "_io")
"""Modules of functions that write a text as it is."""


@dataclass(slots=True, eq=False)
class TextSettings(Feature):
    """Under which settings an attempt has met texts.

    Attributes:
        dtypes: default dtypes at the places of what is shown later.
        moved: texts that would be made under other settings than the program's.
    """

    dtypes: set[torch.dtype] = field(default_factory=set)
    moved: list[StringFormatVariable] = field(default_factory=list)

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Refuse to show tensors under another default dtype."""
        deferred = [site for site, how in compilation.trace.used.items() if how == "defer"]
        if deferred and self.dtypes - {torch.get_default_dtype()}:
            detail = "It sets the default dtype, which texts of tensors depend on."
            raise SiteRefused(Refused("effect-settings", detail), *deferred)


def note_shown(tx: InstructionTranslatorBase, trace: Trace) -> None:
    """A tensor or an object is met that is shown when the graph has run.

    Raises:
        Refused: its text would be another one then.
    """
    if _has_changed(tx, torch._tensor_str):
        raise Refused("effect-settings", "It changes the print options of torch before.")
    trace.of(TextSettings).dtypes.add(torch.get_default_dtype())


def check_process(tx: InstructionTranslatorBase, function: object) -> None:
    """Refuse a call of a function after settings of its module were changed."""
    if getattr(function, "__module__", None) in _WRITERS:
        return
    for module in (logging, warnings):
        if _has_changed(tx, module):
            detail = f"It changes the module {module.__name__} before."
            raise Refused("effect-settings", detail)


def is_moved(trace: Trace, text: VariableTracker) -> bool:
    """Whether a text would be made under other settings than the program makes it under."""
    settings = trace.known(TextSettings)
    return settings is not None and any(text is moved for moved in settings.moved)


def _has_changed(tx: InstructionTranslatorBase, module: ModuleType) -> bool:
    """True if the function has changed a module, or what it holds, so far."""
    effects = tx.output.side_effects
    held = {id(module), *map(id, vars(module).values())}
    changed = [item for key, item in effects.id_to_variable.items() if key in held]
    changed += [
        item
        for item in effects.store_attr_mutations
        if (value := getattr(item, "value", None)) is not None and id(value) in held
    ]
    return any(map(effects.is_modified, changed))
