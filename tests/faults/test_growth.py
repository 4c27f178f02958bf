"""Nothing adds up, however often a program is compiled: objects are counted, and entries of tables."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.releases import executed
from tests.session.test_forgetting import empty_torchs_own_caches

X = torch.tensor([1.0, 2.0, 3.0])

FORMS = (
    "    if x.sum() > {n}:\n        x = x * 2\n",
    "    if x.sum() > {n}:\n        kept.append({n})\n",
    "    for i in range((x > {n} % 3).sum()):\n        x = x + i\n",
    "    print(x.sum(), file=out)\n",
    "    assert x.max() < {n} + 10\n",
)
"""What is mended in a generated function, in turns."""


class Nowhere:
    def write(self, text: str) -> None: ...


def generated(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    module: dict[str, Any] = {"out": Nowhere()}
    body = FORMS[number % len(FORMS)].format(n=number)
    executed(f"def f(x):\n    kept = []\n{body}    return x + len(kept)\n", "<generated>", module)
    return module["f"]  # type: ignore[no-any-return]


def let_go_of_guards() -> None:
    """Torch keeps the guards of a frame, and with them its globals, as long as what they identify.

    A builtin that a frame names lives as long as the process.
    """
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        kept = finalizer.peek()
        if kept is not None and "CheckFunctionManager.invalidate" in str(kept[1]):
            finalizer.detach()


def ours() -> Counter[str]:
    """The objects of our classes and the code objects that are alive."""
    empty_torchs_own_caches()
    let_go_of_guards()
    gc.collect()
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        kind = type(one)
        if str(kind.__module__).startswith("graphmend_bc"):
            found[f"{kind.__module__}.{kind.__qualname__}"] += 1
    # Code objects are not tracked: they are found by the functions that have them.
    found["code"] = len({id(f.__code__) for f in gc.get_objects() if type(f) is FunctionType})
    return found


def compile_generated(first: int, count: int, resets: bool) -> None:
    for number in range(first, first + count):
        f = generated(number)
        assert torch.equal(torch.compile(f, backend="eager")(X), f(X))
    if resets:
        torch._dynamo.reset()


def compile_again(count: int) -> None:
    f = generated(1)
    compiled = torch.compile(f, backend="eager")
    for number in range(count):
        x = torch.ones(number % 7 + 2)
        assert torch.equal(compiled(x), f(x))
        if number % 7 == 6:
            torch._dynamo.reset()


def assert_level(work: Callable[[int], None], most: int = 5, rounds: int = 3) -> None:
    """Each round leaves as much as the one before, but for what tables keep until it is enough."""
    work(0)
    counts = []
    for number in range(1, rounds + 1):
        work(number)
        counts.append(ours())
    grown = counts[-1] - counts[0]
    assert {name: count for name, count in grown.items() if count > most} == {}, grown


@pytest.mark.slow
def test_generated_functions() -> None:
    with gm.enabled():
        assert_level(lambda number: compile_generated(number * 30, 30, resets=True))


@pytest.mark.nightly
def test_many_generated_functions() -> None:
    """20,000, and nothing is ever reset."""
    with gm.enabled():
        work = partial(compile_generated, count=5000, resets=False)
        assert_level(lambda number: work(number * 5000), most=2500)


@pytest.mark.slow
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(70, id="some"),
        pytest.param(700, id="many", marks=pytest.mark.nightly),
    ],
)
def test_recompilations(count: int) -> None:
    with gm.enabled():
        assert_level(lambda number: compile_again(count))
