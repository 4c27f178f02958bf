"""The methods of loguru's logger only observe."""

from __future__ import annotations

from typing import Final

from graphmend_bc.catalog.observers import CALLED, Observer, each
from graphmend_bc.extension import Extension

_METHODS = ("trace", "debug", "info", "success", "warning", "error", "critical", "log")

EXTENSION: Final = Extension(
    "loguru", observers=each("loguru._logger", "Logger.", _METHODS, Observer(CALLED))
)
