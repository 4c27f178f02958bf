"""The list of reasons, the page that explains them and the tests that show them agree."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from graphmend_bc.reporting.reasons import REASONS, Refused

ROOT = Path(__file__).parents[2]
NEVER_SEEN = set[str]()


def test_every_reason_has_a_section_and_every_section_a_reason() -> None:
    page = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### (\S+)$", page, re.MULTILINE)) == set(REASONS)


def test_every_reason_is_given_somewhere_and_shown_by_a_test() -> None:
    library = "".join(
        p.read_text() for p in (ROOT / "graphmend_bc").rglob("*.py") if p.name != "reasons.py"
    )
    tests = "".join(p.read_text() for p in Path(__file__).parents[1].rglob("*.py"))
    for code in REASONS.keys() - NEVER_SEEN:
        assert f'"{code}"' in library, f"{code} is never given"
        assert code in tests.replace(f'"{code}" in library', ""), f"{code} has no test"


def test_refused_reads_as_sentences() -> None:
    assert str(Refused("arm-raises")) == "arm-raises: An arm of the branch raises an exception."
    assert str(Refused("arms-differ-in-value", "The values are 1 and 2.")).endswith(
        "The arms give different Python values. The values are 1 and 2."
    )


def test_explanations_and_hints_are_sentences() -> None:
    for reason in REASONS.values():
        for text in (reason.explanation, *reason.hints):
            assert text[0].isupper()
            assert text.endswith(".")


def test_the_page_of_reasons_is_up_to_date() -> None:
    path = ROOT / "docs" / "make_reasons.py"
    found = importlib.util.spec_from_file_location("make_reasons", path)
    assert found is not None
    assert found.loader is not None
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    page = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
    assert page == script.page(), "Run `python docs/make_reasons.py`."
    assert set(re.findall(r"^### (\S+)$", page, re.MULTILINE)) == set(REASONS)
