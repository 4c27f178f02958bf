"""``python -m graphmend_bc doctor``: whether all that mends works with this torch and Python."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

import torch

from graphmend_bc import config
from graphmend_bc.canary.check import Finding, findings
from graphmend_bc.canary.effects import shows_absence
from graphmend_bc.dynamo.patches.capabilities import ESSENTIAL
from graphmend_bc.engine.decisions.decision_cache import cache_dir
from graphmend_bc.engine.decisions.entry_files import EntryFiles
from graphmend_bc.reporting.provenance import Provenance
from graphmend_bc.reporting.table import Table
from graphmend_bc.versions import (
    UnsupportedVersionError,
    check_versions,
    is_known_torch,
    known_torch,
)

SCHEMA = 1
"""Version of the JSON; it changes when a name in it does."""

_SETTINGS = ("enabled", "contrib", "strict_versions", "disk_cache", "rules_off", "strategies")


def run_doctor(*, as_json: bool) -> None:
    """Prints whether all that mends works with this torch and this Python.

    Args:
        as_json: whether as JSON.

    Raises:
        SystemExit: with status 1, something does not.
    """
    found = list(findings())
    trouble = _trouble(found)
    if as_json:
        rows = [_as_dict(finding) for finding in found]
        opening = {"schema": SCHEMA, "provenance": asdict(Provenance.here())}
        print(json.dumps({**opening, **_versions(), "seams": rows, "trouble": trouble}, indent=2))
    else:
        Table(["what", "here"], [[k, str(v)] for k, v in _versions().items()]).print(sys.stdout)
        print()
        _table(found).print(sys.stdout)
        print()
        print("\n".join(trouble) or "All that is replaced in torch is reached and works.")
    if trouble:
        raise SystemExit(1)


def _versions() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "known torch": known_torch(),
        "torch is known": is_known_torch(),
        "C extension": find_spec("graphmend_bc._frame_hooks") is not None,
        **{f"config.{name}": getattr(config, name) for name in _SETTINGS},
        **_decisions(),
    }


def _decisions() -> dict[str, Any]:
    """Where decisions are kept for other processes, and how many, or why they cannot be read."""
    try:
        return {"cache": str(cache_dir()), "cache entries": EntryFiles(cache_dir()).count()}
    except (OSError, RuntimeError) as error:
        return {"cache": str(error), "cache entries": 0}


def _table(found: Sequence[Finding]) -> Table:
    rows = [
        [
            finding.seam.label,
            "missing" if finding.missing else _yes(finding.reached, finding.ran),
            finding.fault or _effect(finding),
            ", ".join(finding.seam.needed_by),
        ]
        for finding in found
    ]
    return Table(["seam", "reached", "effect", "what rests on it"], rows)


def _effect(finding: Finding) -> str:
    if finding.reached and finding.ran and not shows_absence(finding.seam.label):
        return "with others"
    return _yes(not finding.missing, finding.ran)


def _yes(holds: bool, ran: bool) -> str:
    return ("yes" if holds else "no") if ran else "not tried"


def _trouble(found: Sequence[Finding]) -> list[str]:
    """What is wrong, in sentences."""
    sentences = []
    try:
        check_versions()
    except UnsupportedVersionError as error:
        sentences.append(str(error))
    for finding in found:
        if finding.holds:
            continue
        what = "is not there" if finding.missing else "has no effect"
        if not (finding.missing or finding.reached):
            what = "is not reached"
        names = ", ".join(finding.seam.needed_by)
        off = "nothing can be mended exactly" if finding.seam.needed_by == ESSENTIAL else names
        verb = "" if finding.seam.needed_by == ESSENTIAL else " cannot be used"
        sentences.append(f"{finding.seam.label} {what} in this torch, so {off}{verb}.")
    return sentences


def _as_dict(finding: Finding) -> dict[str, Any]:
    return {
        "seam": finding.seam.label,
        "owner": finding.seam.owner,
        "names": [str(name) for name in finding.seam.names],
        "why": finding.seam.why,
        "needed by": list(finding.seam.needed_by),
        "missing": finding.missing,
        "tried": finding.ran,
        "reached": finding.reached,
        "fault": finding.fault,
        "shows absence": shows_absence(finding.seam.label),
    }
