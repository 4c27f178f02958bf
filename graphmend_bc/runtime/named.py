"""`logging.getLogger` for loggers that exist: without the lock under which it makes new ones."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any


def get_logger(function: Callable[..., Any], name: Any = None) -> Any:
    """The logger of a name.

    Args:
        function: the original `getLogger`, which makes a logger that does not exist, and knows what
            the others are.
        name: its argument.
    """
    if isinstance(name, str):
        loggers = logging.Logger.manager.loggerDict
        if name in loggers and isinstance(loggers[name], logging.Logger):
            return loggers[name]
    return function(name)
