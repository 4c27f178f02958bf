"""``scan``: likely graph breaks of programs that are not run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.provenance import Provenance
from graphmend_bc.reporting.table import Table
from graphmend_bc.scanning.files import ScannedFile, scan

FELL_SHORT = 3
"""Exit status if there are more likely breaks than the command line allows, as that of ``run``."""

SCHEMA = 2
"""Version of the JSON; it changes when a key changes its meaning or goes."""


def scan_paths(args: argparse.Namespace) -> None:
    """Prints what looks like a graph break in ``args.paths``.

    Raises:
        SystemExit: with status 2 if nothing could be read, or 3 if there is too much.
    """
    scanned = [one for path in args.paths for one in scan(Path(path))]
    found = sum(len(one.suspects) for one in scanned)
    read = sum(not one.trouble for one in scanned)
    for one in scanned:
        if one.trouble:
            print(f"graphmend_bc: {one.trouble}", file=sys.stderr)
    if args.json:
        print(json.dumps(_as_dict(scanned), indent=2))
    else:
        _print(scanned)
        print(
            f"{many(found, 'likely graph break')} in {many(read, 'file')}. This is a guess from "
            "names: torch was not asked what is a tensor or what is compiled."
        )
    if not read:
        if not scanned:
            print("graphmend_bc: there is no program in what was named.", file=sys.stderr)
        raise SystemExit(2)
    if args.most_breaks is not None and found > args.most_breaks:
        limit = f"--fail-on-break={args.most_breaks}"
        print(f"graphmend_bc: {many(found, 'likely graph break')}; {limit}.", file=sys.stderr)
        raise SystemExit(FELL_SHORT)


def _print(scanned: Sequence[ScannedFile]) -> None:
    rows = [
        [
            f"{one.name}:{suspect.line}",
            suspect.function,
            f"{suspect.kind}: {suspect.what}",
            ", ".join(suspect.strategies) or "nothing",
        ]
        for one in scanned
        for suspect in one.suspects
    ]
    Table(["where", "function", "likely break", "mending tries"], rows).print(sys.stdout)


def _as_dict(scanned: Sequence[ScannedFile]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "provenance": asdict(Provenance.here()),
        "heuristic": True,
        "findings": [
            {
                "file": one.name,
                "line": suspect.line,
                "function": suspect.function,
                "kind": suspect.kind,
                "what": suspect.what,
                "strategies": list(suspect.strategies),
            }
            for one in scanned
            for suspect in one.suspects
        ],
        "read": [one.name for one in scanned if not one.trouble],
        "unread": [{"file": one.name, "why": one.trouble} for one in scanned if one.trouble],
    }
