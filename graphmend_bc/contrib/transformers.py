"""transformers 5 installs hooks on a model the first time that it is called."""

from __future__ import annotations

from typing import Any, Final

from graphmend_bc.catalog.first_use import KnownPreparation
from graphmend_bc.extension import Extension


def _has_hooks(model: Any) -> bool:
    return bool(getattr(model, "_output_capturing_hooks_installed", False))


EXTENSION: Final = Extension(
    "transformers",
    preparations=(
        KnownPreparation(
            "transformers.utils.output_capturing", "maybe_install_capturing_hooks", _has_hooks
        ),
    ),
)
