"""Real code with a share of its branches rewritten does what it did."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.load.cpython_tests import MODULES, Outcomes, compare, differences
from tests.load.in_place import Rewriter

SOURCE = """
import sys

def sign(n):
    if n > 0:
        said = "up"
    elif n < 0:
        said = "down"
    else:
        said = "level"
    return said

def outer(n):
    def inner(m):
        return "odd" if m % 2 else "even"
    return inner(n)

def caller(n):
    if n:
        return sys._getframe(0).f_code.co_name
    return None
"""


def loaded(folder: Path) -> SimpleNamespace:
    """Functions of a file that is in a folder, as far as they say."""
    space: dict[str, Any] = {}
    exec(compile(SOURCE, folder / "loaded.py", "exec"), space)
    return SimpleNamespace(**space)


def answers(module: SimpleNamespace) -> list[object]:
    names = ("sign", "outer", "caller")
    return [getattr(module, name)(n) for name in names for n in (-1, 0, 1)]


def test_loaded_functions_are_rewritten_once(tmp_path: Path) -> None:
    module = loaded(tmp_path)
    before, codes = answers(module), [module.sign.__code__, module.caller.__code__]
    rewriter = Rewriter(random.Random(0), share=1)
    for _ in range(2):
        rewriter.rewrite_loaded(f"{tmp_path}/")
        assert (rewriter.functions, rewriter.branches) == (2, 3)
    assert answers(module) == before
    assert module.sign.__code__ != codes[0]
    assert module.caller.__code__ == codes[1]


def test_no_share_rewrites_nothing(tmp_path: Path) -> None:
    module = loaded(tmp_path)
    code = module.sign.__code__
    rewriter = Rewriter(random.Random(0), share=0)
    rewriter.rewrite_loaded(f"{tmp_path}/")
    assert (rewriter.branches, module.sign.__code__) == (0, code)


def test_what_differs_between_two_runs() -> None:
    plain = Outcomes({"a": "passed", "b": "failed: 1", "c": "passed"})
    other = Outcomes({"a": "failed: 2", "b": "failed: 3", "d": "passed"})
    assert list(differences(plain, other)) == [
        "a: passed as it is, failed: 2 when it is rewritten",
        "c: passed as it is, missing when it is rewritten",
        "d: missing as it is, passed when it is rewritten",
    ]


def _check(module: str) -> None:
    pytest.importorskip(f"test.{module}", reason="CPython's own tests are not installed")
    line, found = compare(module, seed=1, share=1 / 3)
    assert not found, line
    assert not line.startswith(f"{module}: 0 branches"), line


@pytest.mark.slow
def test_a_module_of_cpythons_own_tests() -> None:
    _check("test_textwrap")


@pytest.mark.nightly
@pytest.mark.parametrize("module", MODULES)
def test_cpythons_own_tests(module: str) -> None:
    _check(module)
