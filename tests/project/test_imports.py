"""The packages import each other in one direction only, as the contracts in pyproject.toml say."""

from __future__ import annotations

from tests.processes import ROOT, python


def test_contracts_are_kept() -> None:
    """In a process of its own: import-linter switches off the loggers that it finds."""
    script = (
        "import sys; from importlinter.cli import lint_imports; "
        "sys.exit(lint_imports(sys.argv[1], no_cache=True))"
    )
    done = python("-c", script, str(ROOT / "pyproject.toml"))
    assert not done.returncode, done.stdout + done.stderr
