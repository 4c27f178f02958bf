"""Short names for what Dynamo hands to whatever stands for a callee."""

from __future__ import annotations

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker

Translator = InstructionTranslatorBase
"""What traces a frame."""

Args = list[VariableTracker]
"""Positional arguments."""

Keywords = dict[str, VariableTracker]
"""Arguments by name."""
