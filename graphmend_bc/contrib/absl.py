"""The logging functions of absl only observe."""

from __future__ import annotations

from typing import Final

from graphmend_bc.catalog.observers import ROOT_BREAK, Observer, each
from graphmend_bc.extension import Extension

_FUNCTIONS = (
    *("debug", "info", "warning", "warn", "error", "log", "vlog"),
    *("log_every_n", "log_first_n"),
)

EXTENSION: Final = Extension(
    "absl", observers=each("absl.logging", "", _FUNCTIONS, Observer(ROOT_BREAK))
)
