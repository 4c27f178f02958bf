"""``run``: a program with mending on, and what came of it."""

from __future__ import annotations

import argparse
import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass

import graphmend_bc as gm
from graphmend_bc.attachment.attach import attach_all, unmet_patterns
from graphmend_bc.cli.child_processes import ChildProcesses
from graphmend_bc.cli.loaded_code import LoadedCode
from graphmend_bc.cli.program import NotStarted, UserProgram, has_failed
from graphmend_bc.cli.progress import Progress
from graphmend_bc.cli.ranks import labelled
from graphmend_bc.reporting.counts import many, verb
from graphmend_bc.reporting.durations import duration
from graphmend_bc.reporting.lines import line_table
from graphmend_bc.reporting.references import references
from graphmend_bc.session import switched_off_by
from graphmend_bc.versions import UnsupportedVersionError

FELL_SHORT = 3
"""Exit status of a program that went well but was not mended as the command line demands."""


@dataclass(slots=True)
class _Watched:
    """What is known of a program besides what mending reports.

    Attributes:
        children: the Python processes that it started.
        loaded: the compiled code that it loaded.
        failed: whether it ended with an error.
    """

    children: ChildProcesses
    loaded: LoadedCode
    failed: bool = False


def run(args: argparse.Namespace) -> None:
    """Runs ``args.program`` as Python would; its summary is printed when Python ends."""
    from_environment = gm.config.attach
    try:
        with gm.config.patch(attach=""):  # the program's modules cannot be found yet
            gm.enable()
    except UnsupportedVersionError as error:
        raise SystemExit(f"graphmend_bc: {error}") from None
    program: UserProgram = args.program
    program.prepare()
    children = ChildProcesses()
    children.watch()
    loaded = LoadedCode()
    loaded.watch()
    if not args.quiet:
        Progress().watch_compilations()
    for target in args.attach:
        _attach(target, f"argument --attach: {target!r}", args.refuse)
    _attach(from_environment, "GRAPHMEND_BC_ATTACH", args.refuse)
    watched = _Watched(children, loaded)
    # Python joins the program's threads and prints what ended it before it calls this.
    atexit.register(_finish, args, os.getpid(), watched)
    try:
        program.execute()
    except NotStarted:
        atexit.unregister(_finish)
        raise
    except BaseException as end:
        watched.failed = has_failed(end)
        raise
    if args.most_breaks is None and args.most_misses is None:
        return
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    shortfalls = fallen_short(gm.report(), args.most_breaks, args.most_misses)
    if args.most_breaks is not None and (said := str(loaded)):
        shortfalls.append(f"graphmend_bc: {said}")
    if shortfalls:
        with labelled(redirect_stderr):
            print("\n".join(shortfalls), file=sys.stderr)
        raise SystemExit(FELL_SHORT)


def fallen_short(
    report: gm.Report, most_breaks: int | None, most_misses: float | None
) -> list[str]:
    """Says in what a program stayed short of what was demanded.

    Args:
        report: what came of it.
        most_breaks: graph breaks that may be left; None for any number.
        most_misses: part of the speculated calls whose check may fail; None for any.
    """
    if not report.compiled.frames:
        why = switched_off_by() or "the program compiled nothing"
        options = {"--fail-on-break": most_breaks, "--fail-on-miss-rate": most_misses}
        given = " and ".join(option for option, limit in options.items() if limit is not None)
        return [f"graphmend_bc: {why}, so there is nothing to count for {given}."] if given else []
    said = []
    left = report.compiled.breaks + report.compiled.skipped
    if most_breaks is not None and left > most_breaks:
        breaks = f"{many(left, 'graph break')} {verb(left, 'is', 'are')} left"
        said.append(f"graphmend_bc: {breaks}; --fail-on-break={most_breaks}.")
    found = report.speculated
    if most_misses is not None and found.miss_rate > most_misses:
        said.append(
            f"graphmend_bc: the check failed in {found.failed} of "
            f"{many(found.calls, 'speculated call')} ({found.miss_rate:.1%}); "
            f"--fail-on-miss-rate={most_misses:g}."
        )
    return said


def _finish(args: argparse.Namespace, pid: int, watched: _Watched) -> None:
    if os.getpid() != pid:  # a forked child of the program reports nothing
        return
    report = gm.report()
    # Of a program that failed before it compiled anything there is its error to be read.
    is_told = bool(report.compiled.frames) or not watched.failed
    with labelled(redirect_stderr):
        if is_told and not args.quiet:
            _print_report(report)
            for said in filter(None, map(str, (watched.children, watched.loaded))):
                print(said, file=sys.stderr)
        if (unmet := unmet_patterns()) and is_told:
            print(f"graphmend_bc: {unmet}", file=sys.stderr)
    if args.json:
        args.json.write_text(report.to_json(), encoding="utf-8")
    if args.report:
        report.to_html(args.report)
    _end_as_interrupted()


def _end_as_interrupted() -> None:
    """Python ends by the signal after an interrupt, unless it has executed other text since."""
    if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")


def _attach(targets: str, origin: str, refuse: Callable[[str], None]) -> None:
    """Attaches to what the user named, or refuses the command line and says where it came from."""
    try:
        attach_all(targets)
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        unmet_patterns()  # the program does not run, so no other target can have met a function
        refuse(f"{origin}: {error}")


def _print_report(report: gm.Report) -> None:
    if by := switched_off_by():
        print(f"graphmend_bc: {by}, so the program ran as it is.", file=sys.stderr)
        return
    print(f"graphmend_bc: {report.summary()}", file=sys.stderr)
    if report.compiled.frames:
        print(f"compiling took {duration(report.compiled.compile_ns)}", file=sys.stderr)
    line_table(report).print(sys.stderr)
    texts: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for decline in report.declines:
        places = texts.setdefault((decline.reason, decline.explanation, decline.hints), [])
        places.append(f"{decline.site.filename}:{decline.site.lineno}")
    for (reason, text, hints), places in texts.items():
        print(f"{reason}: {text} ({', '.join(dict.fromkeys(places))})", file=sys.stderr)
        for hint in hints:
            print(f"    Hint: {hint}", file=sys.stderr)
    for line in references(decline.reason for decline in report.declines):
        print(line, file=sys.stderr)
    for speculation in report.speculations:
        if speculation.is_costly:
            print(f"speculated {speculation}", file=sys.stderr)
    if not report.compiled.frames:
        print(
            "The program compiled nothing. Call torch.compile in it, or name what is to be "
            "compiled: graphmend-bc run --attach 'package.module:Class.forward' ...",
            file=sys.stderr,
        )
