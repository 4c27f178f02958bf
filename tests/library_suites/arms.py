"""Running chosen tests of a library in one of the arms, in processes that may end too early."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tests.library_suites.suites import CONSTRAINTS, Suite, version_of
from tests.library_suites.tally import has_difference

_TREE = Path(__file__).parents[2]
_CHILD = Path(__file__).parent / "child"
Row = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """How tests are run.

    Attributes:
        folder: for source distributions and what the runs write.
        packages: folder of what the libraries depend on.
        compiled: "library" if outermost calls of its functions are compiled, "tests" if the tests are.
        backend: of `torch.compile`.
        limit: seconds of a processor for a test.
    """

    folder: Path
    packages: Path
    compiled: str
    backend: str
    limit: int


def fetched(suite: Suite, folder: Path) -> Path:
    """The unpacked source distribution, fetched if it is not there yet."""
    wanted = f"{suite.library}-{version_of(suite.library)}"
    if not (home := folder / wanted).exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ("--no-deps", "--no-binary", ":all:", "-d", str(folder), "-c", str(CONSTRAINTS))
        command = [sys.executable, "-m", "pip", "download", "-q", *options, suite.library]
        subprocess.run(command, check=True)
        with tarfile.open(folder / f"{wanted}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        # With this file pytest takes the folder of the distribution for a package.
        (home / "__init__.py").unlink(missing_ok=True)
    return home


def listed(suite: Suite, way: Way) -> list[str]:
    """The names of all its tests, in the order of pytest."""
    rows = _child(suite, way, "list", [], [suite.folder])
    return [name for name in rows[-1] if not any(part in name for part in suite.leave)]


def arms_of(
    suite: Suite, way: Way, names: Sequence[str], *, with_stock: bool = False
) -> dict[str, dict[str, Row]]:
    """The rows of each test: "eager" and "mended", and where these differ "again" and "stock".

    Args:
        suite: the library.
        way: how tests are run.
        names: of the tests, in the order of pytest.
        with_stock: whether "stock" is there for all tests that pass in eager Python.
    """
    tests = {name: {"eager": row} for name, row in rows_of(suite, way, "eager", names).items()}
    passed = [name for name in names if tests[name]["eager"]["outcome"] == "passed"]
    for arm in ("mended", "stock") if with_stock else ("mended",):
        for name, row in rows_of(suite, way, arm, passed).items():
            tests[name][arm] = row
    differing = [name for name in passed if has_difference(tests[name])]
    for label, arm in (("again", "eager"), ("stock", "stock")):
        asked = [name for name in differing if label not in tests[name]]
        for name, row in rows_of(suite, way, arm, asked).items():
            tests[name][label] = row
    return tests


def rows_of(suite: Suite, way: Way, arm: str, names: Sequence[str]) -> dict[str, Row]:
    """A row for each test.

    Args:
        suite: the library.
        way: how tests are run.
        arm: "eager", "stock" or "mended".
        names: of the tests, in the order of pytest.
    """
    done: dict[str, Row] = {}
    while left := [name for name in names if name not in done]:
        before = len(done)
        files = dict.fromkeys(name.partition("::")[0] for name in left)
        begun = left[0]
        for row in _child(suite, way, arm, left, files):
            begun = row.get("begun", begun)
            if "test" in row:
                done[row["test"]] = row
        if begun not in done:
            done[begun] = {"test": begun, "outcome": "ended the process"}
        assert len(done) > before
    return done


def _child(suite: Suite, way: Way, arm: str, names: Sequence[str], files: Iterable[str]) -> Any:
    """The rows of one process."""
    home = fetched(suite, way.folder)
    with tempfile.TemporaryDirectory() as temporary:
        chosen, rows, settings = (Path(temporary) / name for name in ("chosen", "rows", "p.ini"))
        chosen.write_text(json.dumps(names))
        settings.write_text("[pytest]\n")  # not the library's: its options may want other plugins
        rows.touch()
        options = {
            **{"arm": arm, "chosen": chosen, "rows": rows, "beside": way.packages},
            **{"compiled": way.compiled, "backend": way.backend, "limit": way.limit},
            **{"functions-of": ",".join(suite.packages), "rootdir": home},
        }
        command = [sys.executable, "-m", "pytest", "-q", "-c", str(settings)]
        command += ["-p", "library_test_arm", "-p", "no:cacheprovider"]
        command += [f"--{name}={value}" for name, value in options.items()]
        with (way.folder / f"{suite.library}-{arm}.log").open("w") as log:
            _run([*command, *files], home, log, 60 + 2 * way.limit * max(len(names), 10))
        return [json.loads(line) for line in rows.read_text().splitlines()]


def _run(command: Sequence[str], home: Path, log: TextIO, limit: float) -> None:
    """Run a process to its end, or to the limit of what all tests together may take."""
    environment = _environment(home)
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command, cwd=home, env=environment, stdout=log, stderr=log, timeout=limit, check=False
        )


def _environment(home: Path) -> dict[str, str]:
    paths = (home, _CHILD, _TREE, _TREE / "benchmarks")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "EINOPS_TEST_BACKENDS": "numpy,torch",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
