"""Frames that stand for the user's: for code that looks for its caller."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType, FunctionType
from typing import Any

from graphmend_bc.runtime.signal_handlers import pass_on
from graphmend_bc.runtime.site import Site

_MACHINERY = ("torch._dynamo.", "graphmend_bc.")
"""Modules whose frames eager Python does not have."""

_CALLERS = ("graphmend_bc.testing.",)
"""Ours that call eager Python and compiled code alike."""


@dataclass(frozen=True, slots=True, eq=False)
class CallPlace:
    """A line in a function of the user's that is being run.

    Attributes:
        filename, name, qualname: of the function's code object.
        lineno: counted from 1.
        module_globals: of the function.
    """

    filename: str
    name: str
    qualname: str
    lineno: int
    module_globals: dict[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        """What is saved with code that is compiled ahead of time: the module by its name."""
        module = str(self.module_globals.get("__name__", ""))
        return _loaded, (self.filename, self.name, self.qualname, self.lineno, module)

    @classmethod
    def of_site(cls, site: Site, module_globals: dict[str, Any]) -> CallPlace:
        """The place of a call."""
        return cls(site.filename, site.name, site.qualname, site.lineno, module_globals)

    @classmethod
    def of_frame(cls, frame: FrameType) -> CallPlace:
        """Where a frame is now."""
        code = frame.f_code
        lineno = frame.f_lineno or code.co_firstlineno
        return cls(code.co_filename, code.co_name, code.co_qualname, lineno, frame.f_globals)


def _loaded(filename: str, name: str, qualname: str, lineno: int, module: str) -> CallPlace:
    """A place that was saved; it looks the same if its module cannot be imported here."""
    try:
        module_globals = vars(importlib.import_module(module))
    except Exception as error:  # whatever the module does
        pass_on(error)
        module_globals = {"__name__": module}
    return CallPlace(filename, name, qualname, lineno, module_globals)


def shim_at(place: CallPlace) -> FunctionType:
    """A function that calls its first argument, from a frame that says it is at a place.

    Its other arguments are a tuple and a dict: those of the call.
    """
    return FunctionType(code_at(place), place.module_globals, place.name)


def is_machinery(module_globals: dict[str, Any]) -> bool:
    """True for globals of a module whose frames eager Python does not have."""
    name = str(module_globals.get("__name__", ""))
    return name.startswith(_MACHINERY) and not name.startswith(_CALLERS)


def callers(count: int, below: int) -> list[CallPlace]:
    """The user's frames that called the compiled frame which is running, innermost first.

    Args:
        count: how many at most.
        below: how many frames of the user's to leave out first: 1 if the compiled frame is one.
    """
    frame: FrameType | None = sys._getframe(1)
    found: list[CallPlace] = []
    while frame is not None and len(found) < below + count:
        if not is_machinery(frame.f_globals):
            found.append(CallPlace.of_frame(frame))
        frame = frame.f_back
    return found[below:]


def code_at(place: CallPlace) -> CodeType:
    """The code of a frame that says it is at a place."""
    return _shim(place.filename, place.name, place.qualname, place.lineno)


@lru_cache(maxsize=4096)
def _shim(filename: str, name: str, qualname: str, lineno: int) -> CodeType:
    """A call of its first argument, in a code object that says it is at a line."""
    shim = lambda function, args, kwargs: function(*args, **kwargs)  # noqa: E731
    return shim.__code__.replace(
        co_filename=filename, co_name=name, co_qualname=qualname, co_firstlineno=lineno
    )
