"""Objects that the function makes and whose end somebody notices: their frame runs eagerly.

del d                       runs `__del__` of its class, if that was the last reference
weakref.ref(d, callback)    and `weakref.finalize(d, callback)` call something then; `ref()` is None

Dynamo runs `__del__` for the object with which it traces, and none in later calls. A reference to
what a graph makes is alive for as long as the trace wants it. A frame that is compiled keeps the
objects that it changed, so what the frame calls is not compiled either.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch._dynamo import exc
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.trace.compilation import current
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.references import reference


class FrameLeft(exc.SkipFrame):
    """The frame and what it calls run without compilation, in this call and in later ones.

    Args:
        refused: why.
    """

    def __init__(self, refused: Refused) -> None:
        super().__init__(f"{refused} ({reference(refused.reason.code)})")
        self.refused = refused


def make_finalised(
    stock: Callable[..., VariableTracker],
) -> Callable[..., VariableTracker]:
    """`SideEffects.track_new_user_defined_object`: an object is made, or a copy of one."""

    def track(self: Any, base: VariableTracker, kind: Any, *args: Any, **kwargs: Any) -> Any:
        _check_class(kind.value)
        return stock(self, base, kind, *args, **kwargs)

    return track


def call_class(stock: Callable[..., VariableTracker]) -> Callable[..., VariableTracker]:
    """`UserDefinedClassVariable.call_function`: an object is made, or a weak reference to one."""

    def call_function(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        if getattr(self.value, "__new__", None) is object.__new__:
            _check_class(self.value)  # Dynamo makes one to see whether it can
        refers = any(self.value is kind for kind in _REFERENCES)
        if refers and args and args[0].realize().source is None:
            _leave(f"A '{self.value.__name__}' refers to what the function made.")
        return stock(self, tx, args, kwargs)

    return call_function


def _check_class(kind: object) -> None:
    owner = _class_with_finaliser(kind) if isinstance(kind, type) else None
    if owner is not None:
        _leave(f"'{owner.__qualname__}' has a method '__del__'.")


_REFERENCES = (weakref.ref, weakref.finalize, weakref.WeakMethod)


def _class_with_finaliser(kind: type) -> type | None:
    """The class that has a finaliser for objects of a class, if that can tell what went before."""
    for base in kind.__mro__:
        if "__del__" in vars(base):
            return None if base.__module__.partition(".")[0] in _KEEP_TO_THEMSELVES else base
    return None


_KEEP_TO_THEMSELVES = ("torch", "tqdm")
"""Libraries whose finalisers only put away what the object holds; a bar closes itself."""


def _leave(detail: str) -> None:
    compilation = current()
    if compilation is not None and compilation.leaves:
        raise FrameLeft(Refused("object-finalised", detail))
