"""Functions that the user has told Dynamo to leave alone: mending changes nothing about that."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphmend_bc as gm

disable: Any = torch._dynamo.disable
public: Any = torch.compiler.disable

X = torch.tensor([1.0, 2.0])
CALLS = (X, -X, X + 99, X)


def told(x: torch.Tensor) -> torch.Tensor:
    """A thousand more where it is compiled."""
    return x + (1000 if torch.compiler.is_compiling() else 1)


def calls_another(x: torch.Tensor) -> torch.Tensor:
    def another(x: torch.Tensor) -> torch.Tensor:
        return told(x * 2)

    return another(x) - (5000 if torch.compiler.is_compiling() else 5)


def branches(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        print("up", torch.compiler.is_compiling())
        return told(x)
    return x


class Module(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return calls_another(x)


class Disabled(Module):
    forward = disable(Module.forward, recursive=False)


def once(disabled: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: disabled(x) * 2


def twice(disabled: Callable[..., Any]) -> Callable[..., Any]:
    def program(x: torch.Tensor) -> Any:
        if x.sum() > 100:
            x = x - 100
        x = disabled(x) * 2
        print("between")
        return disabled(x)

    return program


def wrapped(disabled: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(disabled)
    def program(x: torch.Tensor) -> Any:
        return disabled(x)

    return program


def by_itself(disabled: Callable[..., Any]) -> Callable[..., Any]:
    return disabled


FORMS: dict[str, Callable[[], Callable[..., Any]]] = {
    "alone": lambda: disable(told, recursive=False),
    "not what it calls": lambda: disable(calls_another, recursive=False),
    "with a branch": lambda: disable(branches, recursive=False),
    "all below": lambda: disable(calls_another),
    "by the public name": lambda: public(recursive=False, reason="mine")(told),
    "in a module": Disabled,
    "skipped": lambda: torch._dynamo.decorators.skip(lambda x: calls_another(x)),
}


def results(
    capsys: pytest.CaptureFixture[str], program: Callable[..., Any], *, mends: bool
) -> tuple[list[Any], str]:
    torch._dynamo.reset()
    with gm.enabled() if mends else contextlib.nullcontext():
        compiled = torch.compile(program, backend="eager")
        values = [compiled(x).tolist() for x in CALLS]
    return values, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("around", [once, twice, wrapped, by_itself])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_compiled_is_what_stock_compiles(
    form: str, around: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    stock = results(capsys, around(FORMS[form]()), mends=False)
    values, out = results(capsys, around(FORMS[form]()), mends=True)
    assert out == stock[1]
    # A call in which a check fails is run by Python.
    eager = [around(FORMS[form]())(x).tolist() for x in CALLS]
    assert all(value in known for value, *known in zip(values, stock[0], eager, strict=True))


def test_the_function_itself_is_not_compiled() -> None:
    inner = disable(told, recursive=False)
    with gm.enabled():
        compiled = torch.compile(lambda x: inner(x) * 3, backend="eager")
        assert compiled(X).tolist() == ((X + 1) * 3).tolist()


def test_what_dynamo_logs_of_the_stack(caplog: pytest.LogCaptureFixture) -> None:
    """The stack of a compilation ends in the program, not in code of ours."""
    torch._dynamo.reset()
    with gm.enabled(), caplog.at_level(logging.DEBUG, "torch._dynamo.convert_frame"):
        torch.compile(told, backend="eager")(X)
    (text,) = [r.getMessage() for r in caplog.records if "start compiling told" in r.getMessage()]
    files = [line.split('"')[1] for line in text.splitlines() if line.lstrip().startswith("File")]
    assert files
    assert files[-1] == __file__
