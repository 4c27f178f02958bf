"""A hundred generated programs are exact under mending; `make fuzz` tries many more.

A program that fails here is printed as a test to paste into tests/integration/test_regressions.py, after it was made small.
"""

from __future__ import annotations

import pytest

from tests.fuzz.hunt import hunt
from tests.fuzz.programs import Program
from tests.fuzz.verdict import Fault, judge

BATCHES, COUNT = 5, 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "batch", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1, BATCHES))]
)
def test_generated_programs(batch: int) -> None:
    catch = hunt(COUNT, batch, kind="plain")
    if catch.failure is not None:
        program, difference = catch.failure
        pytest.fail(f"{difference}\n\n{program.test()}", pytrace=False)
    # A generator whose programs are all alike, or all refused, would show nothing.
    assert sum(catch.faults.values()) == COUNT
    assert catch.faults["STOCK"] <= COUNT // 20
    assert {"where", "defer"} <= catch.met.keys()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_error_that_the_backend_drops(backend: str) -> None:
    """A program that no graph of AOTAutograd's can be exact for is not held against mending."""
    source = """
def f(x, y, z, k):
    try:
        if x.sum() > 0:
            print("up")
        6 // z
    except RuntimeError as error:
        print(error)
    return x
"""
    calls = tuple(
        f"({x}, None, torch.tensor([0, 1]), 2)" for x in ("torch.ones(3)", "-torch.ones(3)")
    )
    program = Program(source, calls, backend, False)
    assert judge(program).fault is (Fault.NONE if backend == "eager" else Fault.BACKEND)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_draw_that_the_backend_drops(backend: str) -> None:
    """Eager Python stops at the second draw of `helper`, after as many draws as the graph makes."""
    source = """
class Trouble(Exception):
    pass

def helper(x, k=2):
    assert torch.rand(()) < 0.5, f"not {k}"
    if (x > 0).sum() > 2 and torch.rand(()) < 0.5:
        raise Trouble("here")
    return x

def f(x, y, z, k):
    helper(x)
    F.dropout(torch.stack([x, -x]), 0.3).relu()
    x.zero_()
    return helper(x), F.dropout(y, 0.3)
"""
    calls = ("(-torch.tensor([1.0, 2.0, 3.0]), torch.ones(2, 3), None, 2)",) * 3
    program = Program(source, calls, backend, False)
    # Exact, or as wrong as stock, if the graph is used that has lost a draw.
    faults = {Fault.NONE} if backend == "eager" else {Fault.NONE, Fault.STOCK}
    assert judge(program).fault in faults


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_graph_of_an_earlier_call(backend: str) -> None:
    """The second call asks for no gradient of `value`, which the first call's graph made."""
    source = """
class Box:
    value = torch.ones(3)

box, sums = Box(), []

def f(x, y, z, k):
    if x.sum() > 0:
        box.value = x * 2
    sums.extend([box.value + x])
    if x.sum() > 9:
        x = x * 2
    return x + x
"""
    calls = tuple(
        f"(torch.full((3,), {x}, requires_grad=True), None, None, 2)" for x in (1.0, -1.0)
    )
    program = Program(source, calls, backend, True)
    assert judge(program).fault is (Fault.NONE if backend == "eager" else Fault.BACKEND)


def test_call_that_is_left_to_stock() -> None:
    """Stock loses the count in each call, mending in the last one only, which it leaves to stock."""
    source = """
counts = {"n": 0}

def f(x, y, z, k):
    counts["n"] = counts["n"] + 1
    if (z % z)[0] == z[2]:
        x = x * 2
        print("here")
    z.add_(1)
    return x
"""
    calls = tuple(
        f"(torch.ones({n}, requires_grad=True), None, torch.arange({n}), 2)"
        for n in (3, 3, 2**21 + 1)  # too many to be rolled back
    )
    assert judge(Program(source, calls, "eager", True)).fault is Fault.STOCK
