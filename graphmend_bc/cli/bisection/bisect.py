"""``bisect``: which mends make a program do something else than without them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from graphmend_bc.cli.bisection.smallest import culprits
from graphmend_bc.cli.bisection.trials import Run, Trials, place_of
from graphmend_bc.cli.program import NotStarted, UserProgram
from graphmend_bc.reporting.counts import many

_ADVICE = "set the seeds of its random generators, or give a check that does not mind."

UNKNOWN = 1
"""Exit status where it cannot be said which mend it is."""


@dataclass(slots=True)
class Finding:
    """What was found.

    Attributes:
        verdict: in one sentence.
        known: False if it cannot be said which mend it is.
        guilty: groups of mends, as the report has them; those of a group are needed together.
        runs: how often the program ran.
    """

    verdict: str
    known: bool = True
    guilty: list[list[dict[str, Any]]] = field(default_factory=list)
    runs: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The finding in the form of its JSON."""
        groups = [[{**mend, "off": _off([mend])} for mend in group] for group in self.guilty]
        return {"verdict": self.verdict, "known": self.known, "guilty": groups, "runs": self.runs}

    def __str__(self) -> str:
        lines = [self.verdict]
        for group in self.guilty:
            together = "  (each of them is needed)" if len(_off(group)["sites_off"]) > 1 else ""
            for mend in group:
                site = mend["site"]
                rule = f" (rule {mend['rule']!r})" if mend["rule"] else ""
                where = f"{place_of(mend)} in {site['function']}{rule}{together}"
                lines.append(f"{mend['strategy']:10} {where}")
            lines += [f"    Switch it off: {how}" for how in _ways_off(group)]
        return "\n".join(lines)


def bisect(args: argparse.Namespace) -> None:
    """Runs the program again and again, and says which mends are guilty."""
    trials = Trials([*_named(args), *args.arguments], args.check, args.timeout)
    try:
        finding = find(trials)
    except NotStarted as error:
        args.refuse(f"the program does not start. {error}")
        raise
    finding.runs = trials.count
    print(finding)
    print(f"The program ran {many(trials.count, 'time')}.", file=sys.stderr)
    if args.json:
        args.json.write_text(json.dumps(finding.as_dict(), indent=2), encoding="utf-8")
    if not finding.known:
        raise SystemExit(UNKNOWN)


def find(trials: Trials) -> Finding:
    """Which mends make the difference between a run without mending and one with it.

    Args:
        trials: runs the program.

    Raises:
        NotStarted: there is no program to run.
    """
    good = trials.stock()
    if not good.has_started:
        raise NotStarted(good.errors.strip().rpartition("\n")[2])
    again = trials.stock()
    if problem := _problem_of_good(trials, good, again):
        return Finding(problem, known=False)
    bad, again = trials.mended(), trials.mended()
    if not bad.is_like(again):
        return Finding(f"Two mended runs differ: {_ADVICE}", known=False)
    if bad.is_like(good):
        return Finding(_alike(bad))
    places = [*dict.fromkeys(map(place_of, bad.mends))]
    if not trials.with_places(()).is_like(good):
        return Finding("No mend makes the difference: it is there without any.", known=False)
    if not places or trials.with_places(places).is_like(good):
        return Finding("No mend of the report makes the difference by itself.", known=False)
    groups = culprits(places, lambda some: not trials.with_places(some).is_like(good))
    guilty = [_mends_at(group, trials.with_places(group), bad) for group in groups]
    makes = "This mend makes" if sum(map(len, guilty)) == 1 else "These mends make"
    return Finding(f"{makes} the difference: {_told_apart(good, bad)}.", guilty=guilty)


def _alike(run: Run) -> str:
    """What to say of a program that does the same with mending and without."""
    found = "The program does the same with mending and without"
    return f"{found}: {run.in_words()}." if run.status else f"{found}."


def _told_apart(good: Run, bad: Run) -> str:
    """In what two runs differ."""
    if bad.check is not None:
        return f"the check ends with status {bad.check}"
    if good.status == bad.status:
        return "the program prints something else"
    return f"without mending {good.in_words()}; mended, {bad.in_words()}"


def _problem_of_good(trials: Trials, good: Run, again: Run) -> str:
    """Why runs without mending are nothing to compare with; empty if they are."""
    if not good.is_like(again):
        return f"Two runs without mending differ: {_ADVICE}"
    if trials.check and good.check:
        return f"The check fails without mending, too: {good.in_words()}."
    if good.status is None:
        return "The program takes too long without mending, too."
    return ""


def _mends_at(places: Sequence[str], run: Run, bad: Run) -> list[dict[str, Any]]:
    """The mends of some lines; those of a run with these lines alone if the first has none."""
    found = [mend for mend in bad.mends if place_of(mend) in places]
    return found or [mend for mend in run.mends if place_of(mend) in places]


def _off(group: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """The settings that switch mends off."""
    places, rules = map(place_of, group), (mend["rule"] for mend in group)
    return {
        "sites_off": [*dict.fromkeys(places)],
        "rules_off": [*dict.fromkeys(rule for rule in rules if rule)],
    }


def _ways_off(group: Sequence[dict[str, Any]]) -> list[str]:
    off = _off(group)
    ways = [f"GRAPHMEND_BC_SITES_OFF={','.join(off['sites_off'])}"]
    if rules := off["rules_off"]:
        ways.append(f"graphmend_bc.config.rules_off = {(*rules,)}")
    functions = [*dict.fromkeys(mend["site"]["function"] for mend in group)]
    ways.append(f"@graphmend_bc.leave_alone before {' and '.join(functions)}")
    return ways


def _named(args: argparse.Namespace) -> list[str]:
    """How `run` is told of the program."""
    if args.is_module:
        return ["-m", args.name]
    if ":" in args.name and not os.path.exists(args.name):
        return ["-m", "graphmend_bc.cli.bisection.call_function", args.name]
    UserProgram(args.name, args.arguments, args.is_module).check()
    return [args.name]
