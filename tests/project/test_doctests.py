"""What is public has a docstring with an example that runs as it is printed."""

from __future__ import annotations

import doctest
import inspect
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import graphmend_bc
from graphmend_bc.attachment import attach
from graphmend_bc.reporting.table import Table
from graphmend_bc.rewriting import plan, rewriter
from graphmend_bc.rules import registry  # noqa: F401

PUBLIC = {name: getattr(graphmend_bc, name) for name in graphmend_bc._HOMES}
OTHERS = {
    "attach_all": attach.attach_all,
    "unmet_patterns": attach.unmet_patterns,
    "Plan": plan.Plan,
    "rewriter.rewrite": rewriter.rewrite,
    "Table": Table,
}


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    graphmend_bc.disable()
    torch._dynamo.reset()


def examples(name: str, found: Any) -> doctest.DocTest:
    """The examples of an object's docstring, in the names of its module."""
    # A function with our module's name would be taken for one of ours, which is never mended.
    names = vars(inspect.getmodule(found)) | {"__name__": "example"}
    text = inspect.getdoc(found) or ""
    return doctest.DocTestParser().get_doctest(text, dict(names), name, None, None)


@pytest.mark.parametrize(("name", "found"), (PUBLIC | OTHERS).items(), ids=(PUBLIC | OTHERS).keys())
def test_example(name: str, found: Any) -> None:
    test = examples(name, found)
    assert test.examples, "no example"
    assert not any(example.options for example in test.examples), "an example is skipped"
    runner = doctest.DocTestRunner(verbose=False)
    said: list[str] = []
    runner.run(test, out=said.append, clear_globs=False)
    assert not runner.failures, "".join(said)


def test_examples_of_the_settings() -> None:
    # Strings after assignments are no docstrings, so the source is read; its quotes end the output.
    source = inspect.getsource(graphmend_bc.config).replace('"""', "\n")
    test = doctest.DocTestParser().get_doctest(source, {}, "config", None, None)
    assert len(test.examples) > 3
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test, out=said.append, clear_globs=False)
    assert not runner.failures, "".join(said)


FUNCTIONS = {name: f for name, f in PUBLIC.items() if isinstance(f, types.FunctionType)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_say_what_they_take_and_give(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    assert "Returns:" in text or "Yields:" in text
    assert "Args:" in text or not inspect.signature(FUNCTIONS[name]).parameters
