"""The first call of functions that a program does not compile, for ``explain --attach``."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from graphmend_bc.attachment.patterns import Pattern
from graphmend_bc.cli.explanation.compiled_callables import CompileRecorder


@dataclass(slots=True)
class CallRecorder:
    """Watches the program's calls and remembers the first one of each function that is meant.

    The program runs uncompiled where it would without us. What it hands to ``sys.setprofile``
    itself takes our place, and nothing more is remembered then.

    Attributes:
        targets: code objects and patterns.
        calls: where the calls are remembered.
    """

    targets: Sequence[CodeType | Pattern]
    calls: CompileRecorder
    _asked: dict[int, CodeType] = field(default_factory=dict)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        if not self.targets:
            yield
            return
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            yield
        finally:
            if sys.getprofile() == self._see:
                sys.setprofile(None)
            threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or id(code) in self._asked or torch.compiler.is_compiling():
            return
        self._asked[id(code)] = code  # functions of two files may have equal code
        if self._is_meant(frame):
            self._remember(frame)

    def _is_meant(self, frame: FrameType) -> bool:
        module = frame.f_globals.get("__name__")
        return any(
            target.matches(frame.f_code, module)
            if isinstance(target, Pattern)
            else target is frame.f_code
            for target in self.targets
        )

    def _remember(self, frame: FrameType) -> None:
        function = _function_of(frame)
        if function is not None:
            args, kwargs = _arguments_of(frame)
            self.calls.remember(function.__qualname__, function, {}, args, kwargs)


def _function_of(frame: FrameType) -> FunctionType | None:
    """The function that a frame runs: of several with its code, the one with its closure."""
    code, values = frame.f_code, frame.f_locals
    for found in gc.get_referrers(code):
        if isinstance(found, FunctionType) and found.__code__ is code:
            cells = zip(code.co_freevars, found.__closure__ or (), strict=True)
            if all(_contents(cell) is values.get(name) for name, cell in cells):
                return found
    return None


def _contents(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _arguments_of(frame: FrameType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a frame that has not begun."""
    code, values = frame.f_code, frame.f_locals
    keyword = code.co_argcount + code.co_kwonlyargcount
    args = [values[name] for name in code.co_varnames[: code.co_argcount]]
    kwargs = {name: values[name] for name in code.co_varnames[code.co_argcount : keyword]}
    rest = list(code.co_varnames[keyword:])
    if code.co_flags & 0x04:  # CO_VARARGS
        args += values[rest.pop(0)]
    if code.co_flags & 0x08:  # CO_VARKEYWORDS
        kwargs |= values[rest.pop(0)]
    return tuple(args), kwargs
