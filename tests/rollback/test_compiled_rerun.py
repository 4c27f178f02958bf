"""A condition that goes both ways at once: the call that shows it has the frame compiled anew."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import graphmend_bc as gm
from tests.oracle import PROGRAM, agrees, load
from tests.settling import live

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, 2.0, 3.0])
CALLS = [UP, DOWN, UP, DOWN, DOWN, UP]


EMPTY = """
def f(x):
    kept = x[x[0].expand(3) > 0]
    if kept.numel() == 0:
        return x.new_zeros(0)
    return kept[kept.argsort()]
"""

PROGRAMS = {
    "results": EMPTY,
    "an input is written": """
        def f(x):
            x += 1
            kept = x[(x[0] - 1).expand(3) > 0]
            if kept.numel() == 0:
                return x * 2
            return kept[kept.argsort()]
        """,
    "numbers are drawn": """
        def f(x):
            noise = torch.randn(3)
            kept = x[x[0].expand(3) > 0]
            if kept.numel() == 0:
                return noise + torch.rand(3)
            return kept[kept.argsort()] * noise
        """,
    "it prints and counts": """
        calls = []

        def f(x):
            print("begun")
            calls.append(len(calls))
            kept = x[x[0].expand(3) > 0]
            if kept.numel() == 0:
                print("none", calls)
                return x * 2
            return kept[kept.argsort()]
        """,
    "one arm raises": """
        def f(x):
            kept = x[x[0].expand(3) > 0]
            if kept.numel() == 0:
                raise ValueError("nothing is kept")
            return kept[kept.argsort()]
        """,
    "all kinds of arguments": """
        def outer(scale):
            def f(x, /, *more, shift=1.0, **named):
                kept = x[x[0].expand(3) > 0] * scale
                if kept.numel() == 0:
                    return x * shift, more, named
                return kept[kept.argsort()] + shift
            return f

        f = outer(torch.tensor(3.0))
        """,
    "a break before it": """
        def f(x):
            torch._dynamo.graph_break()
            kept = x[x[0].expand(3) > 0]
            if kept.numel() == 0:
                return x * 2
            return kept[kept.argsort()]
        """,
}


@pytest.mark.slow
@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
def test_it_is_what_eager_python_gives(source: str) -> None:
    agrees(source, CALLS)


@pytest.mark.slow
def test_gradients() -> None:
    calls = [each.clone().requires_grad_() for each in CALLS]
    agrees(EMPTY, calls, grad=True)


SOME = """
def f(x):
    mask, mean = x > 1.5, 0.0
    if mask.any():
        values = x[mask]
        mean = values.mean().item() if values.numel() else 0.0
    return x * mean
"""
NONE = torch.tensor([1.0, 1.2, 0.3])


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        (EMPTY, CALLS),
        (EMPTY, CALLS[1:]),
        (SOME, [NONE, NONE * 3] * 3),
    ],
)
def test_each_value_is_compiled_when_it_is_first_met(source: str, calls: list[Any]) -> None:
    """The first version assumes too much, so its value has another one in its next call."""
    compiled = [live(source, [(x,) for x in calls[:n]], 0, mends=True) for n in (1, 2, 3, 5)]
    assert [each.total.compilations for each in compiled] == [1, 2, 3, 3]
    assert compiled[-1].total.failed == 1


def test_an_exception_of_the_program_has_no_frames_of_ours() -> None:
    gm.enable()
    f = torch.compile(load(PROGRAMS["one arm raises"]).f, backend="eager")
    f(UP)
    with pytest.raises(ValueError, match="nothing is kept") as found:
        f(DOWN)
    files = [entry.path for entry in found.traceback]
    assert not any("graphmend_bc" in str(file) for file in files)
    assert str(files[-1]) == PROGRAM


def test_in_a_checkpoint_the_original_code_runs() -> None:
    """The recomputation does as the first run did."""
    inner = load(EMPTY.replace("x.new_zeros(0)", "(x * 2).sin()")).f
    gm.enable()
    compiled = torch.compile(inner, backend="eager")
    for x in CALLS:
        gradients = []
        for function in (inner, compiled):
            leaf = x.clone().requires_grad_()
            checkpoint(function, leaf, use_reentrant=False).sum().backward()
            gradients.append(leaf.grad)
        assert torch.equal(*gradients)


def test_it_warns_of_its_caller() -> None:
    source = EMPTY.replace("return x.new", "warnings.warn('none', stacklevel=2); return x.new")
    program = load("import warnings\n" + source + "caller = lambda g, x: g(x)\n")
    f, found = program.f, []
    gm.enable()
    compiled = torch.compile(f, backend="eager")
    for function in (f, compiled):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for x in CALLS:
                program.caller(function, x)
        found.append([(each.filename, each.lineno, str(each.message)) for each in caught])
    assert found[0] == found[1]
    assert [line for _, line, _ in found[0]] == [8] * 3


def test_threads_that_call_it_at_once() -> None:
    eager = load(EMPTY).f
    gm.enable()
    f = torch.compile(eager, backend="eager")
    wrong: list[str] = []

    def call() -> None:
        for x in CALLS * 3:
            if not torch.equal(f(x), eager(x)):
                wrong.append(f"{x}: {f(x)}")

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_frame_that_may_be_compiled_once_runs_its_original_code() -> None:
    with torch._dynamo.config.patch(recompile_limit=1):
        agrees(EMPTY, CALLS)
