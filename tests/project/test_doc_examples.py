"""The examples of the docs that are whole programs run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.processes import forked

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "page",
    ["README.md", "docs/breaks.md", "docs/report.md", "docs/settings.md", "docs/testing.md"],
)
def test_examples(page: str, tmp_path: Path) -> None:
    found = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    assert found
    for example in found:
        forked(f"import os\nos.chdir({str(tmp_path)!r})\n{example}")


def test_the_rule_of_the_docs_mends() -> None:
    (example,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/breaks.md").read_text(encoding="utf-8"), re.S
    )
    out, _ = forked(example)
    assert out.count("Mend(strategy='polyfill'") == 1
    assert "gb_type='Attempted to call function marked as skipped'" in out
    with pytest.raises(Exception, match=r"zlib|crc32"):  # it is the rule that mends
        forked(re.sub(r"gm\.register_rule\(.*\)\n", "", example))


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        links = re.findall(r"\]\(([^)#:]+\.\w+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        missing = [link for link in links if not (page.parent / link).exists()]
        assert not missing, f"{page.name}: {missing}"


PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
_SUFFIXES = (".py", ".c", ".h", ".md", ".html", ".json", ".toml", ".txt")


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_files_that_are_named_exist(page: Path) -> None:
    """Also by the end of their path: `engine/state.py` is a file of the package."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    named = [name for name in re.findall(r"`([\w./-]+)`", text) if name.endswith(_SUFFIXES)]
    missing = [name for name in named if "/" in name and not _exists(name)]
    assert not missing


def _exists(name: str) -> bool:
    homes = (ROOT, ROOT / "graphmend_bc", ROOT / "graphmend_bc" / "dynamo", ROOT / "docs")
    return any((home / name).exists() for home in homes)


def test_folders_and_modules_that_contributing_names_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:graphmend_bc|tests|csrc|benchmarks|docs)/[\w./-]+)`", text)
    assert len(named) > 40
    assert [name for name in named if not (ROOT / name).exists()] == []
