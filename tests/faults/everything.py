"""Errors in all functions, a while long: `python -m tests.faults.everything --calls`.

It prints what a program or its user notices, and how much was tried. The exit status is 1 if
anything was noticed, else 0.
"""

from __future__ import annotations

import argparse
import sys
import tempfile

import torch

import graphmend_bc as gm
from tests.faults.scenarios import SCENARIOS
from tests.faults.test_steps import attempts, steps


def main(arguments: list[str] | None = None) -> int:
    """Try what the command line asks for."""
    given = options().parse_args(arguments)
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0  # it only measures
    functions = tried = noticed = 0
    chosen = [known for known in SCENARIOS if given.scenario in (None, known.name)]
    with tempfile.TemporaryDirectory() as directory, gm.config.patch(cache_dir=directory):
        for scenario in chosen:
            found = steps(scenario, in_calls=given.calls)
            functions += len(found)
            for what, said in attempts(scenario, found, given.every, given.kind):
                tried += 1
                noticed += bool(said)
                if said:
                    print(f"{scenario.name}: {what}: {said}", flush=True)
    print(
        f"{len(chosen)} programs, {functions} functions that they come by, {tried} errors,"
        f" {noticed} noticed"
    )
    return int(noticed > 0)


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.everything")
    parser.add_argument("--calls", action="store_true", help="only what runs in compiled calls")
    parser.add_argument("--every", type=int, default=1, help="one function of so many")
    parser.add_argument("--kind", help="only errors of one class, such as RuntimeError")
    parser.add_argument("--scenario", help="only one program", choices=[s.name for s in SCENARIOS])
    return parser


if __name__ == "__main__":
    sys.exit(main())
