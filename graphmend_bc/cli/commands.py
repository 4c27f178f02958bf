"""The subcommands: what they take. What they do is in the modules that they import, with torch."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from graphmend_bc.cli.ranks import of_this_rank

LIMIT_OPTION = "--fail-on-break"
"""The option whose value, a number, may be left out."""

VALUE_OPTIONS = frozenset(
    {"--report", "--json", "--attach", "--fail-on-miss-rate", "--seconds", "--timeout"}
)
"""The options of programs that take the next argument."""


class Command(Protocol):
    """One subcommand; its name is the class name in lower case, its help the docstring."""

    takes_program: ClassVar[bool]

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> None: ...


class Run:
    """Run a program with mending on and report what was mended."""

    takes_program: ClassVar[bool] = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        _add_files(parser)
        parser.add_argument(
            "--attach",
            metavar="PATTERN",
            action="append",
            default=[],
            help="also compile this function or these modules, as 'pkg.mod:Class.method' or "
            "'pkg.models.*'; may be repeated. GRAPHMEND_BC_ATTACH does the same, with commas",
        )
        parser.add_argument(
            f"{LIMIT_OPTION}",
            metavar="N",
            nargs="?",
            const=0,
            dest="most_breaks",
            type=_count,
            help="end with status 3 if more than N graph breaks are left (without N: if any is), "
            "or if nothing was compiled",
        )
        parser.add_argument(
            "--fail-on-miss-rate",
            metavar="RATE",
            dest="most_misses",
            type=_rate,
            help="end with status 3 if a check failed, so that the original code ran, in more than "
            "this part of the calls of graphs that speculate (0.01 is one in a hundred)",
        )
        parser.add_argument("--quiet", action="store_true", help="print no summary at the end")

    def run(self, args: argparse.Namespace) -> None:
        _check_environment(args)
        from graphmend_bc.cli.run import run

        run(args)


class Explain:
    """Run a program with stock torch.compile, then compare what it compiled with mending.

    In the program's place may stand a function that takes no arguments, as 'pkg.mod:function'.
    """

    takes_program: ClassVar[bool] = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        _add_files(parser)
        parser.add_argument(
            "--attach",
            metavar="FUNCTION",
            action="append",
            default=[],
            help="also compare the first call of this function, which the program need not "
            "compile, as 'pkg.mod:Class.method', '__main__:step' or 'pkg.models.*'; "
            "may be repeated",
        )
        parser.add_argument(
            "--seconds",
            metavar="N",
            type=_seconds,
            default=1.0,
            help="call each function again for N seconds with stock torch.compile, and for N "
            "seconds mended, to say how long calls take (default: 1; 0: make one call each and "
            "time nothing)",
        )

    def run(self, args: argparse.Namespace) -> None:
        _check_environment(args)
        from graphmend_bc.cli.explanation.comparing import compare

        compare(args)


class Doctor:
    """Say whether all that mends works with this torch and this Python."""

    takes_program: ClassVar[bool] = False

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")

    def run(self, args: argparse.Namespace) -> None:
        _check_environment(args)
        from graphmend_bc.cli.doctor import run_doctor

        run_doctor(as_json=args.json)


class Scan:
    """List likely graph breaks of programs, wheels and directories without running anything."""

    takes_program: ClassVar[bool] = False

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "paths",
            metavar="PATH",
            nargs="+",
            help="a .py or .pyc file (Python 3.8 and later), a directory, a wheel or a zip",
        )
        parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
        parser.add_argument(
            f"{LIMIT_OPTION}",
            metavar="N",
            nargs="?",
            const=0,
            dest="most_breaks",
            type=_count,
            help="end with status 3 if there are more than N likely graph breaks (without N: if "
            "there is any)",
        )

    def run(self, args: argparse.Namespace) -> None:
        from graphmend_bc.cli.scan import scan_paths

        scan_paths(args)


class Bisect:
    """Find the mends that make a program do something else than without them.

    The program runs again and again, with fewer and fewer lines mended. Its exit status and what it
    prints are compared with those of a run without mending; or, behind '--', a command says by its
    exit status whether a run is good (0) or bad, as for 'git bisect run'. In the program's place
    may stand a function that takes no arguments, as 'pkg.mod:function'.
    """

    takes_program: ClassVar[bool] = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--json",
            metavar="JSON",
            type=_writable_path,
            help="write what was found as JSON to this file",
        )
        parser.add_argument(
            "--timeout",
            metavar="SECONDS",
            type=float,
            help="end a run after so many seconds, and count it as one that ended differently",
        )

    def run(self, args: argparse.Namespace) -> None:
        _check_environment(args)
        from graphmend_bc.cli.bisection.bisect import bisect

        bisect(args)


COMMANDS: Sequence[Command] = (Run(), Explain(), Bisect(), Scan(), Doctor())


def _check_environment(args: argparse.Namespace) -> None:
    """Refuse the command line if GRAPHMEND_BC_* variables have values that are not valid."""
    try:
        from graphmend_bc.setting_checks import check_environment

        check_environment()
    except ValueError as error:
        args.refuse(str(error))


def _add_files(parser: argparse.ArgumentParser) -> None:
    """The options that say where a report goes."""
    for option, kind, what in (("--report", "HTML", "a page"), ("--json", "JSON", "JSON")):
        parser.add_argument(
            option,
            metavar=kind,
            type=_writable_path,
            help=f"write the report as {what} to this file",
        )


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of graph breaks, such as 0 or 2.")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no part of the calls, such as 0 or 0.05.")
    return rate


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, such as 0 or 2.5.")
    return seconds


def _writable_path(text: str) -> Path:
    """Refuses, before the program runs, a file that cannot be written after it."""
    path = of_this_rank(Path(text).absolute())
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a directory; name a file in it.")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the directory of {text!r} does not exist; create it.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written; choose another place.")
    return path
