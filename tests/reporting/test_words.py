"""The words that a page explains are those of the glossary."""

from __future__ import annotations

import pytest

from graphmend_bc import config
from graphmend_bc.reporting.page import page_of
from graphmend_bc.reporting.page.words import STRATEGIES, WORDS
from graphmend_bc.reporting.report import Report
from tests.processes import ROOT

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines()


@pytest.mark.parametrize("word", WORDS)
def test_a_word_has_the_meaning_that_the_glossary_has(word: str) -> None:
    assert f"| {word} | {WORDS[word]} |" in GLOSSARY
    assert f"<dt>{word}</dt>" in page_of(Report())


def test_each_strategy_is_explained() -> None:
    assert set(STRATEGIES) == {"fold", "inline", *config.strategies}
