"""The whole suite on each pair of Python and torch that is supported.

    nox                            all pairs, one after another, each in an environment of its own
    nox -s "suite(3.11, 2.15.0)"   one of them
    nox -- tests/code -x           arguments for pytest

An interpreter that is not on PATH is named, and its pair is skipped. `make matrix` writes what came
of each pair to benchmarks/results/matrix.json.
"""

from __future__ import annotations

import nox

#: Python version and the torch that is tested with it. The first is the one that is developed with.
PAIRS = (
    ("3.11", "2.13.0"),
    ("3.11", "2.15.0"),
    ("3.12", "2.11.0"),
    ("3.13", "2.14.1"),
    ("3.14", "2.15.0"),
)

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.stop_on_first_error = False


@nox.session
@nox.parametrize(("python", "torch"), PAIRS, ids=[", ".join(pair) for pair in PAIRS])
def suite(session: nox.Session, torch: str) -> None:
    """Install the tree with its test packages, and run the tests."""
    first = PAIRS[0][1] == torch
    pinned = "constraints.txt" if first else f"constraints/torch-{torch}.txt"
    session.install("-c", pinned, "setuptools", "-e", ".[cli,scan,test]")
    arguments = session.posargs or ["-n", "2", "--dist", "loadfile"]
    session.run("python", "-m", "pytest", "-q", *arguments, env={"OMP_NUM_THREADS": "1"})
