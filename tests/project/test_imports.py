"""The packages import each other in one direction only, as the contracts in pyproject.toml say."""

from __future__ import annotations

from pathlib import Path

from importlinter.cli import lint_imports

CONFIGURATION = Path(__file__).parents[2] / "pyproject.toml"


def test_contracts_are_kept() -> None:
    assert lint_imports(str(CONFIGURATION), no_cache=True) == 0, "what lint-imports says is above"
