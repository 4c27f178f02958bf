"""Warnings of the program that a filter of its own block hides."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection
from typing import Final

from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.misc import StringFormatVariable

from graphmend_bc.contrib.warning_filters.blocks import Filter, Filters
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.host_values.argument_snapshots import lasts
from graphmend_bc.dynamo.host_values.host_reads import is_plain
from graphmend_bc.dynamo.host_values.passed_objects import is_fixed
from graphmend_bc.dynamo.trace.compilation import Compilation, current
from graphmend_bc.runtime import Site

_WARN: Final = warnings.warn


class WarningVariable(MarkedCalleeVariable):
    """`warnings.warn` in a block with filters of the frame."""

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker | None:
        """Nothing, if a filter of the block hides it."""
        filters = self.compilation.trace.of(Filters)
        said = _said(args, kwargs)
        if said is None or not _is_hidden(filters.own, *said):
            # What goes on after the break would say it with another line, as under stock.
            raise filters.refused("A warning may be shown, which breaks the graph.")
        self.compilation.trace.used[self.site] = "flags"
        result: VariableTracker = ConstantVariable.create(None)
        return result


def _is_hidden(own: Collection[Filter], text: str | None, category: type[Warning]) -> bool:
    """Whether a filter of the frame's is the first to match a warning, and hides it."""
    for item in warnings.filters:
        if not any(item is known for known in own):
            return False
        action, about, kind, module, line = item
        if not issubclass(category, kind):
            continue
        if about is not None:
            if text is None:
                return False
            if not about.match(text):
                continue
        return action == "ignore" and module is None and not line
    return False


def _said(args: Args, kwargs: Keywords) -> tuple[str | None, type[Warning]] | None:
    """The text of a warning, None if it is not known, and its category.

    None if the call may raise, or is not one of a text.
    """
    given = dict(zip(_PARAMETERS, args, strict=False)) | kwargs
    if len(given) != len(args) + len(kwargs) or not given.keys() <= set(_PARAMETERS):
        return None
    message, category, level = (
        None if (value := given.get(name)) is None else value.realize() for name in _PARAMETERS
    )
    if message is None or not _is_text(message) or not (level is None or _is_level(level)):
        return None
    kind: object = UserWarning
    if category is not None:
        kind = category.as_python_constant() if category.is_python_constant() else None
    if not (isinstance(kind, type) and issubclass(kind, Warning)):
        return None
    text = message.as_python_constant() if message.is_python_constant() else None
    return text, kind


_PARAMETERS: Final = ("message", "category", "stacklevel")
"""Of `warnings.warn`; it has others, which no filter is asked about."""


def _is_level(level: VariableTracker) -> bool:
    """True for a constant that `warnings.warn` takes."""
    known = level.as_python_constant() if level.is_python_constant() else None
    return type(known) is int and abs(known) <= sys.maxsize


def _is_text(said: VariableTracker) -> bool:
    """True for a text that can be left out: to make it runs no code of the user's."""
    if isinstance(said, StringFormatVariable):
        shown = [value.realize() for value in (*said.sym_args, *said.sym_kwargs.values())]
        return all(is_plain(v) or is_fixed(v) or lasts(v) or _is_text(v) for v in shown)
    return said.is_python_constant() and type(said.as_python_constant()) is str


def is_filtered(function: object) -> bool:
    """Whether a function is `warnings.warn`, in a trace that has set filters."""
    compilation = current() if function is _WARN else None
    return compilation is not None and compilation.trace.known(Filters) is not None


def warning(
    site: Site, callee: VariableTracker, function: object, compilation: Compilation
) -> VariableTracker:
    """What is called in its place."""
    del function
    return WarningVariable(site, callee, compilation)
