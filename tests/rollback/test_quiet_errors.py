"""Nothing is printed of a graph that raises if it is rolled back; else what torch.fx prints is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphmend_bc as gm

NUMBERS = torch.tensor([4, 5])
GOOD, BAD = torch.tensor([5, 5]), torch.tensor([0, 5])
REPORT = "Call using an FX-traced Module"


def module_itself(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
    return graph


def calls_module(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
    return lambda *args: graph(*args)


def dear_arm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.sum() > 3:
        for i in range(70):
            a = a + i
        a = torch.fmod(a, b)
    else:
        a = a * 2
    return a


def read_later(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c = torch.floor_divide(a, b)
    print("sum", c.sum().item())
    return c


def speculated(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    seen = []
    if a.sum() > 3:
        seen.append(a)
    return [*seen, a % b]


def handled(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    try:
        a = a % b
        print("sum", a.sum().item())
    except RuntimeError as error:
        print(repr(error), repr(error.__context__), getattr(error, "__notes__", None))
    return a


def of_call(function: Callable[..., Any], *args: Any) -> tuple[str, object]:
    """What is seen of a call that may raise."""
    try:
        return "value", [t.tolist() for t in torch.utils._pytree.tree_leaves(function(*args))]
    except RuntimeError as error:
        links = error.__context__, error.__cause__, getattr(error, "__notes__", None)
        return "error", (type(error), error.args, links)


@pytest.mark.parametrize("backend", ["eager", module_itself, calls_module, "aot_eager"])
@pytest.mark.parametrize("function", [dear_arm, read_later, speculated, handled])
def test_a_mended_graph_that_raises_prints_nothing(
    function: Callable[..., Any], backend: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    gm.enable()
    compiled = torch.compile(function, backend=backend)
    for b in (GOOD, BAD, BAD, GOOD):
        capsys.readouterr()
        expected = of_call(function, NUMBERS, b), capsys.readouterr()
        assert (of_call(compiled, NUMBERS, b), capsys.readouterr()) == expected
    assert gm.report().mends != []
    gm.disable()  # what was compiled stays compiled
    assert of_call(compiled, NUMBERS, BAD) == of_call(function, NUMBERS, BAD)
    assert capsys.readouterr().err == ""


def plain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a % b


@pytest.mark.parametrize("on", [True, False])
def test_graphs_that_are_not_ours_print_as_ever(
    on: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with gm.enabled():
        pass
    if on:
        gm.enable()
    traced = torch.fx.symbolic_trace(plain)
    for function in (traced, torch.compile(plain, backend=module_itself)):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(NUMBERS, BAD)
        assert capsys.readouterr().err.count(REPORT) == 1
    traced.print_readable()
    assert "class " in capsys.readouterr().out


def test_another_thread_prints_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    inside, printed = threading.Event(), threading.Event()

    def waiting(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            inside.set()
            assert printed.wait(60)
            return graph(*args)

        return run

    def fail_elsewhere() -> None:
        assert inside.wait(60)
        with pytest.raises(RuntimeError):
            torch.fx.symbolic_trace(plain)(NUMBERS, BAD)
        printed.set()

    gm.enable()
    compiled = torch.compile(speculated, backend=waiting)
    printed.set()
    compiled(NUMBERS, GOOD)
    inside.clear()
    printed.clear()
    thread = threading.Thread(target=fail_elsewhere)
    thread.start()
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(NUMBERS, BAD)
    thread.join()
    assert capsys.readouterr().err.count(REPORT) == 1
