"""Warnings of the program that a filter of its own block hides."""

from __future__ import annotations

import warnings
from typing import Final

from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.misc import StringFormatVariable

from graphmend_bc.contrib.warning_filters.blocks import Filters
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.trace.compilation import Compilation, current
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_WARN: Final = warnings.warn


class WarningVariable(MarkedCalleeVariable):
    """`warnings.warn` in a block with filters of the frame."""

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker | None:
        """Nothing, if a filter of the block hides it."""
        text, category = _said(args, kwargs)
        own = self.compilation.trace.of(Filters).own
        for item in warnings.filters:
            if not any(item is known for known in own):
                raise Refused("effect-moved", "The function catches warnings.")
            action, about, kind, module, line = item
            if not issubclass(category, kind):
                continue
            if about is not None and (text is None or not about.match(text)):
                if text is None:
                    raise Refused("effect-moved", "The function catches warnings.")
                continue
            if action != "ignore" or module is not None or line:
                break
            self.compilation.trace.used[self.site] = "flags"
            result: VariableTracker = ConstantVariable.create(None)
            return result
        raise Refused("effect-moved", "The function catches warnings.")


def _said(args: Args, kwargs: Keywords) -> tuple[str | None, type[Warning]]:
    """The text of a warning, None if it is not known, and its category.

    Raises:
        Refused: the category is not known, or what is said is no text.
    """
    given = dict(zip(("message", "category"), args, strict=False)) | kwargs
    message, category = given.get("message"), given.get("category")
    said = None if message is None else message.realize()
    if said is None or not _is_text(said):
        raise Refused("effect-moved", "The function catches warnings.")
    kind = None if category is None else category.realize()
    known = kind.as_python_constant() if kind is not None and kind.is_python_constant() else None
    if kind is not None and not (isinstance(known, type) and issubclass(known, Warning)):
        raise Refused("effect-moved", "The function catches warnings.")
    text = said.as_python_constant() if said.is_python_constant() else None
    return text, known or UserWarning


def _is_text(said: VariableTracker) -> bool:
    if isinstance(said, StringFormatVariable):
        return True
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
