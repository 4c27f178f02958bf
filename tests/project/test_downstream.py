"""A typed package of somebody else's works with the installed wheel, and passes type checkers with it."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import graphmend_bc
from graphmend_bc import testing
from tests.distributions import ROOT, clean_environment, run, source_distribution, wheel_of
from tests.releases import since

SAMPLE = ROOT / "tests" / "downstream"
PYRIGHT = "pyright@1.1.414"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel."""
    return clean_environment(wheel_of(source_distribution(tmp_path_factory.mktemp("built"))))


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A copy of the package where this tree is not found."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "sample"))


def test_every_public_name_is_used() -> None:
    used: set[str] = set()
    for path in SAMPLE.rglob("*.py"):
        if path.stem != "mistakes":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                used |= {alias.name for alias in getattr(node, "names", ()) if node_imports(node)}
                used |= {node.attr} if isinstance(node, ast.Attribute) else set()
    assert {*graphmend_bc.__all__, *testing.__all__} <= used


def node_imports(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("graphmend_bc")


def test_every_setting_is_used() -> None:
    text = (SAMPLE / "downstream" / "settings.py").read_text(encoding="utf-8")
    known = graphmend_bc.config.get_config_copy()
    settings = {name for name in known if name[0] != "_" and name.islower()}
    settings -= {"retrace_limit"}  # an earlier name
    assert len(settings) > 20
    assert [name for name in settings if f"config.{name}" not in text] == []


def test_the_package_asks_for_this_version() -> None:
    project = tomllib.loads((SAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = Requirement(project["dependencies"][0])
    assert ours.name == "graphmend_bc"
    assert ours.specifier.contains(graphmend_bc.__version__)


@pytest.mark.slow
def test_it_runs(installed: Path, sample: Path) -> None:
    *said, last = run(installed, "-m", "downstream", cwd=sample).splitlines()
    assert said == [
        "4.0 -4.0",
        "True 4.0",
        "True",
        "where",
        "1 1",
        "['downstream-note'] (5, 4, 3, 2)",
    ]
    version, home = last.split()
    assert version == graphmend_bc.__version__
    assert Path(home).is_relative_to(installed.parents[1])


@pytest.mark.slow
def test_mypy_has_nothing_to_say(installed: Path, sample: Path) -> None:
    pytest.importorskip("mypy")
    checker = [sys.executable, "-m", "mypy", "--python-executable", str(installed)]
    said = run(*checker, "--cache-dir", "cache", cwd=sample)
    assert said == "Success: no issues found in 8 source files\n"


@pytest.fixture(scope="module")
def pyright(tmp_path_factory: pytest.TempPathFactory) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("There is no npm here, which fetches pyright.")
    folder = tmp_path_factory.mktemp("npm")
    fetch = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder]
    if subprocess.run([*fetch, PYRIGHT], capture_output=True).returncode:
        pytest.skip(f"npm cannot fetch {PYRIGHT}.")
    return folder / "node_modules" / ".bin" / "pyright"


@pytest.mark.slow
@pytest.mark.skipif(since(2, 14), reason="Torch says more of its types then.")
def test_pyright_has_nothing_to_say(installed: Path, sample: Path, pyright: Path) -> None:
    said = run(pyright, "--pythonpath", installed, cwd=sample)
    assert said.splitlines()[-1] == "0 errors, 0 warnings, 0 informations"


@pytest.mark.nightly
def test_the_types_of_public_names_are_known(installed: Path, sample: Path, pyright: Path) -> None:
    """Also those of their attributes and methods, whoever reads the annotations."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = {"PATH": f"{installed.parent}{os.pathsep}{kept['PATH']}"}
    options = ("--verifytypes", "graphmend_bc", "--ignoreexternal", "--outputjson")
    done = subprocess.run([pyright, *options], cwd=sample, env=kept | path, capture_output=True)
    symbols = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    homes = {f"graphmend_bc.{home}" for home in graphmend_bc._HOMES.values()}
    homes |= {"graphmend_bc.config", "graphmend_bc.testing.assertions"}
    ours = [one for one in symbols if one["name"].rpartition(".")[0].startswith((*homes,))]
    assert len(ours) > 100
    unknown = [one["name"] for one in ours if not one["isTypeKnown"]]
    assert [name for name in unknown if not name.endswith(".log")] == []
