"""Dynamo's own settings, for programs that are not the user's."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Final

import torch._dynamo


def default_settings() -> AbstractContextManager[Any]:
    """A block with the settings on which it depends whether and how a small program is compiled."""
    settings: Any = torch._dynamo.config
    known = {name: value for name, value in _DEFAULTS.items() if hasattr(settings, name)}
    block: AbstractContextManager[Any] = settings.patch(known)
    return block


_DEFAULTS: Final = MappingProxyType(
    {
        "disable": False,
        "suppress_errors": False,
        "error_on_recompile": False,
        "recompile_limit": 8,
        "capture_scalar_outputs": False,
        "capture_dynamic_output_shape_ops": False,
        "assume_static_by_default": True,
        "automatic_dynamic_shapes": True,
    }
)
