"""Stances and settings under which what is compiled stays as it is, whatever a check says."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import graphmend_bc as gm

GIVEN = {"u": torch.tensor([1.0, 2.0]), "d": torch.tensor([-3.0, -1.0])}

STANCES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "skip_guard_eval_unsafe": lambda: torch.compiler.set_stance(skip_guard_eval_unsafe=True),
    "fail_on_recompile": lambda: torch.compiler.set_stance("fail_on_recompile"),
    "both": lambda: torch.compiler.set_stance("fail_on_recompile", skip_guard_eval_unsafe=True),
    "eager_on_recompile": lambda: torch.compiler.set_stance("eager_on_recompile"),
    "error_on_recompile": lambda: torch._dynamo.config.patch(error_on_recompile=True),
    "fail_on_recompile_limit_hit": lambda: torch._dynamo.config.patch(
        fail_on_recompile_limit_hit=True
    ),
}


class Last:
    text = ""


def shaped(x: torch.Tensor) -> object:
    y = x * 3
    if y.max() > 0:
        return {"up": y}
    return (y, y - 1, "down")


def stored(x: torch.Tensor) -> torch.Tensor:
    Last.text = "high" if x.sum() > 0 else "low"
    if x.min() < -100:
        raise ValueError(Last.text)
    return x + len(Last.text)


def chance(x: torch.Tensor) -> object:
    if random.random() < 0.2:
        return [x * 2]
    return [x, x]


def after_a_break(x: torch.Tensor) -> object:
    y = x + 1
    torch._dynamo.graph_break()
    return [y] if y.sum() > 0 else [y, y]


def plain(value: Any) -> object:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return plain(list(value.items()))
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def seen(function: Callable[..., Any], letter: str) -> object:
    Last.text = ""
    return plain(function(GIVEN[letter].clone())), Last.text


@contextlib.contextmanager
def warmed(function: Callable[..., Any], history: str) -> Iterator[tuple[Any, Any]]:
    """A function compiled with mending, after some calls, and a comparison of one more call."""
    torch._dynamo.reset()
    random.seed(3)
    backend = CompileCounter()
    with gm.enabled():
        compiled = torch.compile(function, backend=backend)

        def compare(letter: str) -> None:
            before = random.getstate()
            want = seen(function, letter), random.getstate()
            random.setstate(before)
            assert (seen(compiled, letter), random.getstate()) == want

        for letter in history:
            compare(letter)
        yield compare, backend


@pytest.mark.slow
@pytest.mark.parametrize("stance", STANCES)
@pytest.mark.parametrize("program", [shaped, stored, chance, after_a_break])
@pytest.mark.parametrize(
    "history",
    [
        "ududd",  # one value is likely
        "uddd",  # the versions were just forgotten
        "udududuu",  # the condition is guarded, and has one version
        *(
            pytest.param(history, marks=pytest.mark.nightly)
            for history in ("duuu", "udud" * 4, "uddudduddu")
        ),
    ],
)
def test_nothing_is_compiled_and_nothing_raises(
    history: str, program: Callable[..., Any], stance: str
) -> None:
    with warmed(program, history) as (compare, backend):
        frames = backend.frame_count
        with STANCES[stance]():
            for letter in "dudduuudddduduudd":
                compare(letter)
        if stance not in ("error_on_recompile", "fail_on_recompile_limit_hit"):
            assert backend.frame_count == frames
        for letter in "ududuudd":
            compare(letter)


@pytest.mark.parametrize("stance", STANCES)
def test_the_stance_ends(stance: str) -> None:
    """A value that has changed for good is compiled for as soon as that is allowed."""
    with warmed(shaped, "uuuu") as (compare, backend):
        with STANCES[stance]():
            for letter in "d" * 6:
                compare(letter)
            assert backend.frame_count == 1
            assert gm.report().speculations[0].respecialised == 0
        for letter in "dd":
            compare(letter)
        assert backend.frame_count == 2
        assert gm.report().speculations[0].respecialised == 1


@pytest.mark.parametrize("stance", ["skip_guard_eval_unsafe", "fail_on_recompile"])
def test_what_was_never_compiled_is_an_error_as_with_stock(stance: str) -> None:
    with warmed(shaped, "uddd") as (compare, _), STANCES[stance]():
        compare("u")
        with pytest.raises(RuntimeError, match=r"(?i)recompil"):
            torch.compile(stored, backend="eager")(GIVEN["u"])


def sized(x: torch.Tensor) -> object:
    if x.sum() > 0:
        return [x]
    return [x, x + 1]


def calls_until_an_error(*, mends: bool) -> int:
    torch._dynamo.reset()
    with gm.enabled() if mends else contextlib.nullcontext():
        compiled = torch.compile(sized, backend="eager", dynamic=False)
        for size in range(2, 20):
            try:
                compiled(torch.ones(size))
                compiled(-torch.ones(size))
            except torch._dynamo.exc.FailOnRecompileLimitHit:
                return size
    return -1


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_the_limit_is_hit_when_stock_hits_it(limit: int) -> None:
    with torch._dynamo.config.patch(recompile_limit=limit, fail_on_recompile_limit_hit=True):
        stock = calls_until_an_error(mends=False)
        assert stock == limit + 2
        assert calls_until_an_error(mends=True) == stock
