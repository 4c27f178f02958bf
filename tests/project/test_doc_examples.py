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
