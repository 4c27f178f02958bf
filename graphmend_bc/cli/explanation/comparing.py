"""``explain``: what stock torch.compile makes of a program's calls, and what mending makes."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from types import CodeType
from typing import Any

from graphmend_bc.attachment.patterns import Pattern, meaning_of
from graphmend_bc.cli.explanation.called_functions import CallRecorder
from graphmend_bc.cli.explanation.comparison import Compared, Comparison
from graphmend_bc.cli.explanation.compiled_callables import CompileRecorder, FirstCall
from graphmend_bc.cli.program import NotStarted, has_failed
from graphmend_bc.cli.progress import Progress
from graphmend_bc.cli.ranks import labelled, rank

_UNTIMED = (
    "Nothing was timed: the ranks would have made different numbers of calls, and those that "
    "communicate would have waited for each other. Time a program of one process."
)


def compare(args: argparse.Namespace) -> None:
    """Runs the program with stock torch.compile, and then compares each callable it compiled."""
    function = None
    if not args.is_module and ":" in args.name and not os.path.exists(args.name):
        function = function_named(args.name, args.arguments, args.refuse)
    else:
        args.program.prepare()
    recorder = CompileRecorder()
    calls = CallRecorder([_meaning(target, args.refuse) for target in args.attach], recorder)
    try:
        with recorder.recording(), calls.recording():
            args.program.execute() if function is None else function()
    finally:
        if not isinstance(sys.exception(), (KeyboardInterrupt, NotStarted)):
            _compare(recorder.calls, function, args)


def _meaning(target: str, refuse: Callable[[str], None]) -> CodeType | Pattern:
    try:
        return meaning_of(target, None)
    except (TypeError, ValueError) as error:
        refuse(f"argument --attach: {target!r}: {error}")
        raise


def function_named(
    target: str, arguments: Sequence[str], refuse: Callable[[str], None]
) -> Callable[[], Any]:
    """The function that is named as 'pkg.mod:function', or a refusal of the command line."""
    name, _, path = target.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(name)
        for part in path.split("."):
            found = getattr(found, part)
        needed = [
            parameter.name
            for parameter in inspect.signature(found).parameters.values()
            if parameter.default is parameter.empty and parameter.kind < parameter.VAR_POSITIONAL
        ]
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        refuse(f"{target!r} names no function: {error}")
        raise
    if needed or arguments:
        refuse(
            f"{target!r} must be a function that is called without arguments, but "
            f"{f'it takes {needed[0]!r}' if needed else f'{arguments[0]!r} is given'}. "
            "Name one that makes the inputs and calls it."
        )
    return found  # type: ignore[no-any-return]


def _compare(
    calls: Sequence[FirstCall], function: Callable[[], Any] | None, args: argparse.Namespace
) -> None:
    if not calls and function is not None:
        calls = [FirstCall(args.name, function, {}, (), {}, True)]
    nothing = (
        "The program called no function that torch.compile returned"
        f"{', and none that --attach names' if args.attach else ''}, "
        "so there is nothing to compare. Name what could be compiled: "
        "graphmend-bc explain --attach 'package.module:Class.forward' ..."
    )
    program = "" if function is None else args.name
    shares = rank() is not None
    compared, progress = [], Progress()
    for number, call in enumerate(calls, 1):
        with progress.doing(f"comparing {call.label}, {number} of {len(calls)}"):
            compared.append(Compared.of(call, 0 if shares else args.seconds))
    comparison = Comparison(compared, "" if calls else nothing, program)
    with labelled(redirect_stdout):
        if calls or not has_failed(sys.exception()):  # else there is the program's error to be read
            comparison.print()
        if shares and args.seconds:
            print(_UNTIMED)
    if args.json:
        args.json.write_text(comparison.to_json(), encoding="utf-8")
    if args.report:
        comparison.to_html(args.report)
