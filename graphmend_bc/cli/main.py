"""The command line: ``python -m graphmend_bc run script.py ARGS...``.

``run`` executes a program as ``python`` would, with mending on, and says at the end what was
mended and what was declined. ``explain`` executes it with stock ``torch.compile`` and then shows
each compiled callable before and after mending. ``doctor`` says what can be mended with this torch.
"""

from __future__ import annotations

import argparse
import atexit
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import graphmend_bc as gm
from graphmend_bc.attachment.attach import attach_all, unmet_patterns
from graphmend_bc.cli.compiled_callables import CompileRecorder, FirstCall
from graphmend_bc.cli.doctor import Doctor
from graphmend_bc.cli.program import Program
from graphmend_bc.reporting.table import Table
from graphmend_bc.versions import UnsupportedVersionError

EPILOG = "Everything after the script or module name goes to the program unchanged."


class Command(Protocol):
    """One subcommand; its name is the class name in lower case, its help the docstring."""

    takes_program: ClassVar[bool]

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> None: ...


class Run:
    """Run a program with mending on and report what was mended."""

    takes_program: ClassVar[bool] = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--report",
            metavar="HTML",
            type=_writable_path,
            help="write the report as a page to this file",
        )
        parser.add_argument(
            "--json",
            metavar="JSON",
            type=_writable_path,
            help="write the report as JSON to this file",
        )
        parser.add_argument(
            "--attach",
            metavar="PATTERN",
            action="append",
            default=[],
            help="also compile this function or these modules, as 'pkg.mod:Class.method' or "
            "'pkg.models.*'; may be repeated. GRAPHMEND_BC_ATTACH does the same, with commas",
        )
        parser.add_argument("--quiet", action="store_true", help="print no summary at the end")

    def run(self, args: argparse.Namespace) -> None:
        from_environment = gm.config.attach
        try:
            with gm.config.patch(attach=""):  # the program's modules cannot be found yet
                gm.enable()
        except UnsupportedVersionError as error:
            raise SystemExit(f"graphmend_bc: {error}") from None
        program: Program = args.program
        program.prepare()
        for target in args.attach:
            _attach(target, f"argument --attach: {target!r}", args.refuse)
        _attach(from_environment, "GRAPHMEND_BC_ATTACH", args.refuse)
        # Python joins the program's threads and prints what ended it before it calls this.
        atexit.register(self._finish, args, os.getpid())
        program.execute()

    def _finish(self, args: argparse.Namespace, pid: int) -> None:
        if os.getpid() != pid:  # a forked child of the program reports nothing
            return
        report = gm.report()
        if not args.quiet:
            _print_report(report)
        if unmet := unmet_patterns():
            print(f"graphmend_bc: {unmet}", file=sys.stderr)
        if args.json:
            args.json.write_text(report.to_json(), encoding="utf-8")
        if args.report:
            report.to_html(args.report)


def _attach(targets: str, origin: str, refuse: Callable[[str], None]) -> None:
    """Attaches to what the user named, or refuses the command line and says where it came from."""
    try:
        attach_all(targets)
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        unmet_patterns()  # the program does not run, so no other target can have met a function
        refuse(f"{origin}: {error}")


def _print_report(report: gm.Report) -> None:
    mends = [[m.strategy, m.gb_id, str(m.site)] for m in report.mends]
    declines = [[d.reason, d.gb_id, str(d.site)] for d in report.declines]
    print(f"graphmend_bc: {len(mends)} mended, {len(declines)} declined", file=sys.stderr)
    Table(["mended by", "break", "where"], mends).print(sys.stderr)
    Table(["declined", "break", "where"], declines).print(sys.stderr)
    texts: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for decline in report.declines:
        places = texts.setdefault((decline.reason, decline.explanation, decline.hints), [])
        places.append(f"{decline.site.filename}:{decline.site.lineno}")
    for (reason, text, hints), places in texts.items():
        print(f"{reason}: {text} ({', '.join(dict.fromkeys(places))})", file=sys.stderr)
        for hint in hints:
            print(f"    Hint: {hint}", file=sys.stderr)


class Explain:
    """Run a program with stock torch.compile, then compare what it compiled with mending."""

    takes_program: ClassVar[bool] = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        pass

    def run(self, args: argparse.Namespace) -> None:
        program: Program = args.program
        program.prepare()
        recorder = CompileRecorder()
        try:
            with recorder.recording():
                program.execute()
        finally:
            if not isinstance(sys.exception(), KeyboardInterrupt):
                self._explain(recorder.calls)

    def _explain(self, calls: Sequence[FirstCall]) -> None:
        if not calls:
            print(
                "The program called no function that torch.compile returned, "
                "so there is nothing to compare."
            )
            return
        counts, sites = [], []
        for call in calls:
            try:
                ex = call.explain()
            except Exception as error:  # one program's call must not hide the others
                reason = f"{type(error).__name__}: {error}"
                sites.append([call.label, "could not be run again", "", reason])
                continue
            pairs = [
                (ex.before.graph_count, ex.after.graph_count),
                (ex.before.graph_break_count, ex.after.graph_break_count),
                (ex.before.skipped_frames, ex.after.skipped_frames),
            ]
            counts.append([call.label, *(f"{before} -> {after}" for before, after in pairs)])
            sites += [[call.label, m.strategy, m.gb_id, str(m.site)] for m in ex.mends]
            sites += [
                [call.label, f"declined: {d.reason}", d.gb_id, str(d.site)] for d in ex.declines
            ]
        Table(["compiled", "graphs", "breaks", "skipped frames"], counts).print(sys.stdout)
        print()
        Table(["compiled", "mended by", "break", "where"], sites).print(sys.stdout)


def _writable_path(text: str) -> Path:
    """Refuses, before the program runs, a file that cannot be written after it."""
    path = Path(text).absolute()
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a directory; name a file in it.")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the directory of {text!r} does not exist; create it.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written; choose another place.")
    return path


COMMANDS: Sequence[Command] = (Run(), Explain(), Doctor())


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of the whole command line; a parsed command is in ``args.command``."""
    parser = argparse.ArgumentParser(
        prog="python -m graphmend_bc",
        description=(gm.__doc__ or "").partition("\n")[0],
        allow_abbrev=False,
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        summary = type(command).__doc__ or ""
        subparser = subparsers.add_parser(
            type(command).__name__.lower(),
            help=summary,
            description=summary,
            epilog=EPILOG if command.takes_program else None,
            allow_abbrev=False,
        )
        command.prepare_parser(subparser)
        subparser.set_defaults(command=command, refuse=subparser.error)
        if not command.takes_program:
            continue
        subparser.add_argument("-m", dest="is_module", action="store_true", help="run a module")
        subparser.add_argument("name", metavar="script.py", help="the program (with -m, a module)")
        subparser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Parses ``argv`` (``sys.argv[1:]`` when None) and runs the command it names."""
    args = build_parser().parse_args(argv)
    if args.command.takes_program:
        args.program = Program(args.name, args.arguments, args.is_module)
    args.command.run(args)
