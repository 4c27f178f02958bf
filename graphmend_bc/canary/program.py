"""A tiny program: run by eager Python and compiled with mending, and compared."""

from __future__ import annotations

import contextlib
import io
import linecache
import warnings
from dataclasses import dataclass
from typing import Any, Final

import torch

from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.report import FrameResult, Report
from graphmend_bc.runtime.signal_handlers import pass_on

_FILE: Final = "<canary>"
_HEAD: Final = """
import collections, contextlib, functools, inspect, types, warnings
import torch
from torch import nn
from torch.nn import functional as F
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A function of `x` that is called, and again after each change of what it uses.

    Attributes:
        body: source of the function; `print` goes to `file=out`.
        before: source of what the function uses.
        steps: source of the changes, run in the program's globals: `given` is the argument,
            `result` what the last call gave.
        mends: a strategy that must be used.
        declines: a reason for which some rule must be refused.
        whole: whether Dynamo must make one graph of each frame.
        quick: False if it is left out when mending is switched on.
        after: source that puts back what the program changed in the process.
        needs: a library without which there is nothing to run.
        backend: its name; "module" for the graphs as Dynamo made them.
        forgets: a strategy that must not be in the report at the end.
    """

    body: str
    before: str = ""
    steps: tuple[str, ...] = ()
    mends: str = ""
    declines: str = ""
    whole: bool = True
    quick: bool = True
    after: str = ""
    needs: str = ""
    backend: str = "eager"
    forgets: str = ""

    def fault(self, state: MendingState) -> str:
        """What is wrong when it is mended by `state`; empty if nothing is.

        Args:
            state: told of all that is compiled now.
        """
        try:
            return self._fault(state)
        except Exception as error:
            pass_on(error)
            return f"its program fails with {type(error).__name__}: {error}"

    def _fault(self, state: MendingState) -> str:
        expected = self._run(compiles=False)
        state.forget()
        breaks = list[str]()

        def listen(frame: FrameResult) -> None:
            if frame.break_reason or frame.skipped:
                breaks.append(str(frame.break_reason))

        state.on_frame.append(listen)
        try:
            found = self._run(compiles=True)
        finally:
            state.on_frame.remove(listen)
        report = state.report_now()
        if found != expected:
            return f"it gives {found} where eager Python gives {expected}"
        if self.mends and self.mends not in {mend.strategy for mend in report.mends}:
            return f"nothing is mended by {self.mends!r}"
        if self.declines and not _is_refused(self.declines, report):
            return f"nothing is refused with {self.declines!r}"
        if self.forgets in {mend.strategy for mend in report.mends}:
            return f"a mend by {self.forgets!r} is not forgotten"
        if state.left_to_stock or (self.mends and self.whole and state.eager_calls):
            return "it is not compiled"
        if self.whole and breaks:
            return f"the graph breaks: {breaks[0]}"
        return ""

    def _run(self, *, compiles: bool) -> list[object]:
        """What is seen of each call."""
        scope: dict[str, Any] = {
            "out": io.StringIO(),
            "given": torch.tensor([1.0, 2.0, 3.0]),
        }
        lines = "".join(f"    {line}\n" for line in self.body.strip().splitlines())
        source = f"{_HEAD}\n{self.before}\ndef f(x):\n{lines}"
        # Dynamo compiles what has no source inside a function of its own, one for all programs.
        linecache.cache[_FILE] = len(source), None, source.splitlines(keepends=True), _FILE
        exec(compile(source, _FILE, "exec"), scope)
        backend: Any = _itself if self.backend == "module" else self.backend
        function = torch.compile(scope["f"], backend=backend) if compiles else scope["f"]
        try:
            seen = [_of_call(function, scope)]
            for step in self.steps:
                exec(step, scope)
                seen.append(_of_call(function, scope))
            return seen
        finally:
            linecache.cache.pop(_FILE, None)
            exec(self.after, scope)


def _itself(graph: torch.fx.GraphModule, inputs: object) -> torch.fx.GraphModule:
    """A backend whose graphs print a traceback when they raise, as those of many do."""
    return graph


def _is_refused(reason: str, report: Report) -> bool:
    """True if a rule was refused for a reason, whether or not another one mended the site."""
    passed_over = [text for mend in report.mends for text in mend.passed_over]
    return any(text.startswith(f"{reason}:") for text in passed_over) or reason in {
        decline.reason for decline in report.declines
    }


def _of_call(function: Any, scope: dict[str, Any]) -> object:
    out: io.StringIO = scope["out"]
    out.seek(0)
    out.truncate()
    with contextlib.redirect_stderr(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scope["result"] = function(scope["given"])
            result = _plain(scope["result"])
        except Exception as error:
            pass_on(error)
            result = f"{type(error).__name__}: {error}"
    return result, _plain(scope["given"]), out.getvalue()


def _plain(value: Any) -> object:
    """What can be compared of a value."""
    if isinstance(value, torch.Tensor):
        return value.tolist(), str(value.dtype), value.requires_grad
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__
