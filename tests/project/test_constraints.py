"""The pinned versions go together: an environment can be made of them from nothing."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TORCH = torch.__version__.split("+")[0]


def pinned(path: Path) -> dict[str, str]:
    """The versions that a file of constraints names, by package; those of files it names, too."""
    found: dict[str, str] = {}
    for line in path.read_text().splitlines():
        if line.startswith("-c "):
            found |= pinned(path.parent / line.removeprefix("-c ").strip())
        elif line and not line.startswith("#"):
            name, version = line.split("==")
            found[canonicalize_name(name)] = version.strip()
    return found


def of_this_torch() -> Path:
    files = [ROOT / "constraints.txt", *(ROOT / "constraints").glob("torch-*.txt")]
    found = [file for file in files if pinned(file)["torch"] == TORCH]
    if not found:
        pytest.skip(f"No file of constraints is for torch {TORCH}.")
    return found[0]


def test_what_torch_requires_is_met() -> None:
    """Torch 2.11 wants another setuptools than later releases."""
    versions = pinned(of_this_torch())
    required = map(Requirement, importlib.metadata.requires("torch") or ())
    asked = [each for each in required if canonicalize_name(each.name) in versions]
    assert len(asked) > 3
    for each in asked:
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            version = versions[canonicalize_name(each.name)]
            assert each.specifier.contains(version, prereleases=True), f"{each}, pinned {version}"


@pytest.mark.parametrize("path", sorted((ROOT / "constraints").glob("*.txt")), ids=lambda p: p.name)
def test_each_package_is_pinned_once(path: Path) -> None:
    names = [line.split("==")[0] for line in path.read_text().splitlines() if "==" in line]
    assert len({canonicalize_name(name) for name in names}) == len(names)
