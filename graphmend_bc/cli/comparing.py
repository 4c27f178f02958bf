"""``explain``: what stock torch.compile makes of a program's calls, and what mending makes."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import graphmend_bc as gm
from graphmend_bc.attachment.targets import Pattern, meaning_of
from graphmend_bc.cli.called_functions import CallRecorder
from graphmend_bc.cli.compiled_callables import CompileRecorder, FirstCall
from graphmend_bc.reporting.table import Table


def compare(args: argparse.Namespace) -> None:
    """Runs the program with stock torch.compile, and then compares each callable it compiled."""
    function = None
    if not args.is_module and ":" in args.name and not os.path.exists(args.name):
        function = _function(args.name, args.arguments, args.refuse)
    else:
        args.program.prepare()
    recorder = CompileRecorder()
    calls = CallRecorder([_meaning(target, args.refuse) for target in args.attach], recorder)
    try:
        with recorder.recording(), calls.recording():
            args.program.execute() if function is None else function()
    finally:
        if not isinstance(sys.exception(), KeyboardInterrupt):
            _compare(recorder.calls, function, args)


def _meaning(target: str, refuse: Callable[[str], None]) -> CodeType | Pattern:
    try:
        return meaning_of(target, None)
    except (TypeError, ValueError) as error:
        refuse(f"argument --attach: {target!r}: {error}")
        raise


def _function(
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


@dataclass(frozen=True, slots=True)
class Compared:
    """One callable, stock and mended.

    Attributes:
        label: its name.
        found: the comparison; the exception's text if it could not be run again.
    """

    label: str
    found: gm.Explanation | str

    @classmethod
    def of(cls, call: FirstCall) -> Compared:
        try:
            return cls(call.label, call.explain())
        except Exception as error:  # one program's call must not hide the others
            return cls(call.label, f"{type(error).__name__}: {error}")


def _compare(
    calls: Sequence[FirstCall], function: Callable[[], Any] | None, args: argparse.Namespace
) -> None:
    if not calls and function is not None:
        calls = [FirstCall(args.name, function, {}, (), {}, True)]
    if not calls:
        print(
            "The program called no function that torch.compile returned"
            f"{', and none that --attach names' if args.attach else ''}, "
            "so there is nothing to compare. Name what could be compiled: "
            "graphmend-bc explain --attach 'package.module:Class.forward' ..."
        )
        return
    compared = [Compared.of(call) for call in calls]
    _print(compared)
    if args.json:
        rows = [_as_dict(one) for one in compared]
        args.json.write_text(json.dumps({"compiled": rows}, indent=2), encoding="utf-8")
    if args.report:
        report = gm.Report()
        for one in compared:
            if not isinstance(one.found, str):
                entries: list[gm.Mend | gm.Decline] = [*one.found.mends, *one.found.declines]
                for entry in entries:
                    report.add(entry)
        report.to_html(args.report)


def _print(compared: Sequence[Compared]) -> None:
    counts, sites, texts = [], [], dict[str, None]()
    for one in compared:
        if isinstance(one.found, str):
            sites.append([one.label, "could not be run again", "", one.found])
            continue
        pairs = [
            (one.found.before.graph_count, one.found.after.graph_count),
            (one.found.before.graph_break_count, one.found.after.graph_break_count),
            (one.found.before.skipped_frames, one.found.after.skipped_frames),
        ]
        counts.append([one.label, *(f"{before} -> {after}" for before, after in pairs)])
        sites += [[one.label, m.strategy, m.gb_id, str(m.site)] for m in one.found.mends]
        for d in one.found.declines:
            sites.append([one.label, f"declined: {d.reason}", d.gb_id, str(d.site)])
            hints = "".join(f"\n    Hint: {hint}" for hint in d.hints)
            texts[f"{d.reason}: {d.explanation}{hints}"] = None
    Table(["compiled", "graphs", "breaks", "skipped frames"], counts).print(sys.stdout)
    print()
    Table(["compiled", "mended by", "break", "where"], sites).print(sys.stdout)
    for text in texts:
        print(text)


def _as_dict(one: Compared) -> dict[str, Any]:
    if isinstance(one.found, str):
        return {"name": one.label, "error": one.found}
    report = gm.Report(one.found.mends, one.found.declines)
    counts = {
        when: {
            "graphs": found.graph_count,
            "breaks": found.graph_break_count,
            "skipped_frames": found.skipped_frames,
            "break_reasons": list(found.break_reasons),
        }
        for when, found in (("before", one.found.before), ("after", one.found.after))
    }
    entries = report.as_dict()
    return {"name": one.label, **counts, "mends": entries["mends"], "declines": entries["declines"]}
