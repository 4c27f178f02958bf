"""CPython's own tests of its standard library, of which a share of the branches is rewritten.

Each module of the `test` package runs twice, in processes of their own: as it is, and rewritten. The
outcome of each test must be the same.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import sysconfig
import tempfile
import unittest
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.load.in_place import Rewriter
from tests.processes import ROOT, python

MODULES = (
    *("test_argparse", "test_collections", "test_configparser", "test_copy", "test_csv"),
    *("test_datetime", "test_decimal", "test_difflib", "test_fractions", "test_functools"),
    *("test_heapq", "test_ipaddress", "test_json", "test_pprint", "test_statistics"),
    *("test_string", "test_textwrap", "test_tokenize", "test_urlparse"),
)
LIBRARY = sysconfig.get_paths()["stdlib"] + "/"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came of one module.

    Attributes:
        tests: "passed", "skipped" or "failed: ...", by the name of a test.
        functions: how many were rewritten.
        branches: how many conditions of them.
    """

    tests: dict[str, str] = field(default_factory=dict)
    functions: int = 0
    branches: int = 0


class _Result(unittest.TestResult):
    def __init__(self, tests: dict[str, str]) -> None:
        super().__init__()
        self.tests = tests

    def startTest(self, test: unittest.TestCase) -> None:
        self.tests[test.id()] = "passed"

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.tests[test.id()] = "skipped"

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.tests[test.id()] = f"failed: {err[1]!r}"[:300]

    addError = addFailure

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.addFailure(test, err)


def run_here(module: str, seed: int, share: float) -> Outcomes:
    """Run a module of tests in this process, of which nothing can be used afterwards."""
    importlib.import_module(f"test.{module}")
    suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{module}")
    rewriter = Rewriter(random.Random(seed), share)
    if share:
        rewriter.rewrite_loaded(LIBRARY, but=("site-packages/", "test/"))
    tests: dict[str, str] = {}
    suite.run(_Result(tests))
    return Outcomes(tests, rewriter.functions, rewriter.branches)


def run_apart(module: str, seed: int, share: float) -> Outcomes:
    """Run a module of tests in a process of its own.

    Raises:
        RuntimeError: the process failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "outcomes.json"
        done = python(
            *("-m", "tests.load.cpython_tests", module, str(seed), str(share), str(told)),
            cwd=Path(folder),
            env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
            limit=3600,
        )
        if done.returncode:
            raise RuntimeError(f"{module} ended with {done.returncode}: {done.stderr[-2000:]}")
        return Outcomes(**json.loads(told.read_text()))


def differences(plain: Outcomes, rewritten: Outcomes) -> Iterator[str]:
    """Tests whose outcome differs, a line each."""
    for name in sorted({*plain.tests, *rewritten.tests}):
        want, found = plain.tests.get(name, "missing"), rewritten.tests.get(name, "missing")
        if want.partition(":")[0] != found.partition(":")[0]:
            yield f"{name}: {want} as it is, {found} when it is rewritten"


def compare(module: str, seed: int, share: float) -> tuple[str, list[str]]:
    """A line of counts for a module, and what differs."""
    plain, rewritten = run_apart(module, seed, 0), run_apart(module, seed, share)
    passed = sum(outcome == "passed" for outcome in plain.tests.values())
    found = list(differences(plain, rewritten))
    line = (
        f"{module}: {rewritten.branches} branches of {rewritten.functions} functions rewritten, "
        f"{len(plain.tests)} tests of which {passed} pass, {len(found)} differ"
    )
    return line, found


if __name__ == "__main__":
    name, seed, share, told = sys.argv[1:]
    Path(told).write_text(json.dumps(asdict(run_here(name, int(seed), float(share)))))
