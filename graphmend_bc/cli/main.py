"""The command line: ``graphmend-bc run script.py ARGS...``, or ``python -m graphmend_bc run ...``.

``run`` executes a program as ``python`` would, with mending on, and says at the end what was
mended and what was declined. ``explain`` executes it with stock ``torch.compile`` and then shows
each compiled callable before and after mending. ``bisect`` finds the mend that makes a program do
something else. ``scan`` lists likely breaks of programs that it
only reads. ``doctor`` says what can be mended with this torch.

Nothing here imports torch, which takes seconds: a command does when it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import graphmend_bc as gm
from graphmend_bc.cli.commands import COMMANDS, LIMIT_OPTION, VALUE_OPTIONS
from graphmend_bc.cli.program import UserProgram
from graphmend_bc.reporting.provenance import Provenance
from graphmend_bc.reporting.references import PAGE

EPILOG = (
    "Everything after the script or module name goes to the program unchanged. "
    f"{PAGE} says what each reason in a report means."
)


class _Version(argparse.Action):
    """Prints the versions; torch's is that of the installed package, which is not imported."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(Provenance.here().versions)
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of the whole command line; a parsed command is in ``args.command``."""
    parser = argparse.ArgumentParser(
        prog="graphmend-bc",
        description=(gm.__doc__ or "").partition("\n")[0],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the versions and exit")
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
        subparser.add_argument(
            "-m", dest="is_module", action="store_true", help="the program is a module"
        )
        subparser.add_argument("name", metavar="script.py", help="the program (with -m, a module)")
        subparser.add_argument(
            "arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="the program's own"
        )
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Parses ``argv`` (``sys.argv[1:]`` when None) and runs the command it names.

    Raises:
        SystemExit: with the status of the program, 2 for a wrong command line, or 3 if the program
            went well but stayed short of what ``--fail-on-...`` demands.
    """
    given, check = _without_check(sys.argv[1:] if argv is None else argv)
    args = build_parser().parse_args(_with_limit(given))
    args.check = check
    if args.command.takes_program:
        args.program = UserProgram(args.name, args.arguments, args.is_module)
    args.command.run(args)


def _with_limit(argv: Sequence[str]) -> list[str]:
    """The arguments with the limit, or 0 if none is given, as part of its option.

    argparse would take the name of the program, or of a file to scan, for the limit.
    """
    given, left = list(argv[:1]), list(argv[1:])
    while left:
        argument = left.pop(0)
        if argument == LIMIT_OPTION:
            limit = left.pop(0) if left and left[0].isdecimal() else "0"
            given.append(f"{argument}={limit}")
            continue
        given.append(argument)
        if argument in VALUE_OPTIONS and left and argv[0] != "scan":
            given.append(left.pop(0))
        elif not argument.startswith("-") and argv[0] != "scan":
            break  # the program; the rest is its own
    return [*given, *left]


def _without_check(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The arguments, and the check that ``bisect`` takes behind the last ``--``.

    argparse would drop a ``--`` that follows the name of the program.
    """
    if argv[:1] != ["bisect"] or "--" not in argv:
        return argv, ()
    at = len(argv) - 1 - [*reversed(argv)].index("--")
    return argv[:at], argv[at + 1 :]
