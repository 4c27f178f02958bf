"""Functions that cache their results are traced once for the same arguments, as Python runs them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo.symbolic_convert import InliningInstructionTranslator

import graphmend_bc as gm
from tests.oracle import check

X = torch.tensor([1.0, 2.0, 3.0])

RECIPE = """
import functools

class Recipe:
    def __init__(self, text):
        self.axes = tuple(text.split())

@functools.lru_cache(256)
def recipe(text, *, shift=0):
    return Recipe(text)

@functools.lru_cache(256)
def number(recipe, shape):
    return len(recipe.axes) + len(shape)

"""


def _traced(source: str, name: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a function is traced while `f` is compiled for a call; its result is eager's."""
    traced: list[str] = []
    init = InliningInstructionTranslator.__init__

    def noting(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        traced.append(self.f_code.co_name)

    monkeypatch.setattr(InliningInstructionTranslator, "__init__", noting)
    module: dict[str, Any] = {"torch": torch}
    exec(compile(source, "<cached>", "exec"), module)
    expected = module["f"](X)
    with gm.enabled():
        torch.testing.assert_close(torch.compile(module["f"], backend="eager")(X), expected)
    return traced.count(name)


@pytest.mark.parametrize(
    ("calls", "traces"),
    [
        (["recipe('a b')"] * 4, 1),
        (["recipe('a b')", "recipe('a')", "recipe('a b')"], 2),
        (["recipe('a b', shift=1)", "recipe('a b', shift=1)", "recipe('a b', shift=2)"], 2),
        (["recipe('a b', shift=1)", "recipe('a b', shift=True)"], 2),
    ],
)
def test_once_for_the_same_arguments(
    calls: list[str], traces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "".join(f"    x = x * len({call}.axes)\n" for call in calls)
    assert _traced(f"{RECIPE}def f(x):\n{body}    return x\n", "recipe", monkeypatch) == traces


def test_objects_are_known_by_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    source = RECIPE + (
        "def f(x):\n"
        "    for _ in range(3):\n"
        "        x = x * number(recipe('a b'), (2, 3)) + number(Recipe('a b'), (2, 3))\n"
        "    return x\n"
    )
    assert _traced(source, "number", monkeypatch) == 1 + 3


@pytest.mark.parametrize("kept", ["", "(maxsize=0)", "(maxsize=1)", "(maxsize=2)"])
def test_no_more_than_the_cache_keeps(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        f"import functools\n@functools.lru_cache{kept}\ndef size(n):\n    return n + 1\n"
        "def f(x):\n"
        "    for _ in range(2):\n        x = x * size(1) * size(2)\n    return x\n"
    )
    traces = {"(maxsize=0)": 4, "(maxsize=1)": 4}
    assert _traced(source, "size", monkeypatch) == traces.get(kept, 2)


def test_the_same_object_each_time() -> None:
    check(
        """
        import functools

        @functools.cache
        def rows(n):
            return [0] * n

        def f(x):
            first = rows(2)
            first.append(x.shape[0])
            if x.sum() > 0:
                x = x * 2
            return x, rows(2) is first, len(rows(2)), rows(3) is rows(3)

        def change(number):
            rows.cache_clear()
        """,
        [(X,), (-X,), (X,)],
        mends="speculate@10",
    )


def test_what_the_cache_has_dropped_is_made_again() -> None:
    check(
        """
        import functools

        @functools.lru_cache(1)
        def rows(n):
            return [0] * n

        def f(x):
            first = rows(2)
            again = rows(2)
            rows(3)
            if x.sum() > 0:
                first.append(1)
            return x * 2, again is first, rows(2) is first, len(rows(2))

        def change(number):
            rows.cache_clear()
        """,
        [(X,), (-X,), (X,)],
        mends="speculate@11",
    )


def test_tensors_are_made_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "import functools\n@functools.cache\ndef mask(n):\n    return torch.ones(n)\n"
        "def f(x):\n    return x * mask(3) + mask(3)\n"
    )
    assert _traced(source, "mask", monkeypatch) == 2


def test_in_arms_and_after_breaks() -> None:
    check(
        """
        import functools

        class Recipe:
            def __init__(self, n):
                self.n = n

        @functools.lru_cache(64)
        def recipe(n):
            return Recipe(n)

        def f(x):
            if x.sum() > 0:
                x = x * recipe(2).n + recipe(2).n
            else:
                x = x * recipe(2).n
            x = x * recipe(2).n
            torch._dynamo.graph_break()
            return x * recipe(2).n, recipe(2) is recipe(2)
        """,
        [(X,), (-X,), (X,)],
        mends="where@12",
        breaks=1,
        declines=None,
    )
