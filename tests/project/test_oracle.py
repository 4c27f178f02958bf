"""The oracle sees every difference a user would see, and every expectation that does not hold."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from graphmend_bc.reporting.report import FrameResult
from tests import oracle
from tests.excess import excess_over, may_exceed_stock
from tests.oracle import Outcome, _assert_same, _assert_wanted, _run, check
from tests.orders import ORDERS, wanted_in

PROGRAM = """
import warnings
import numpy

items, seen, counts = [], set(), {{}}

class Box:
    name = "a"

box = Box()

def f(x):
    global count
    {}
"""


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("exception", "raise ValueError(1)", "raise ValueError('1')"),
        ("exception", "raise ValueError(1)", "raise ValueError(1) from KeyError(1)"),
        ("exception", "raise ValueError(1)", "raise ValueError(1) from None"),
        ("result", "return x * 2", "return x.double() * 2"),
        ("result", "return (x > 0).any()", "return True"),
        ("result", "return 1", "return True"),
        ("result", "return 0.0", "return -0.0"),
        ("result", "return [x]", "return (x,)"),
        ("result", "return {1: 'a', 2: 'b'}", "return {2: 'b', 1: 'a'}"),
        ("result", "return {1, 2}", "return {1, 3}"),
        ("result", "return x.dtype", "return x.double().dtype"),
        ("result", "return torch.Tensor", "return torch.nn.Parameter"),
        ("result", "return x.device", "return torch.device('meta')"),
        ("result", "return numpy.ones(2)", "return numpy.ones(2, 'float32')"),
        ("result", "return numpy.float32(1)", "return numpy.float32(2)"),
        ("result", "return x.new_ones(2, 2)", "return x.new_ones(2, 2).t()"),
        ("shared_memory", "return x", "return x.clone()"),
        ("arguments", "x.detach().add_(1)", "x.detach().add_(2)"),
        ("gradients", "(x * 2).sum().backward()", "(x * 0).sum().backward()"),
        ("gradients", "(x * 0).sum().backward()", "pass"),
        ("state", "items.append(1)", "items.append(True)"),
        ("state", "counts.update(a=1, b=2)", "counts.update(b=2, a=1)"),
        ("state", "seen.add(1)", "seen.add(2)"),
        ("state", "box.name = 'b'", "box.name = 'c'"),
        ("state", "Box.name = 'b'", "box.name = 'b'"),
        ("state", "f.name = 'b'", "pass"),
        ("state", "count = 1", "count = 2"),
        ("printed", "print(1)", "print(2)"),
        ("log_records", "logging.getLogger('program').error('a')", "pass"),
        ("warnings", "warnings.warn('a')", "warnings.warn('a', FutureWarning)"),
        ("random_numbers", "torch.rand(1)", "pass"),
        ("random_numbers", "numpy.random.rand()", "pass"),
    ],
)
def test_difference(field: str, one: str, other: str) -> None:
    calls = [(torch.ones(2, requires_grad=True),)]
    first, second, third = (
        _run(PROGRAM.format(body), calls, False, lambda f: f) for body in (one, one, other)
    )
    _assert_same(first, second, "the same program")
    with pytest.raises(AssertionError, match=re.escape(f"other: {field} differs")):
        _assert_same(first, third, "other")


def test_change_is_called_before_each_call() -> None:
    source = """
    numbers = []

    def f(x):
        return list(numbers)

    def change(number):
        numbers.append(number)
    """
    first, second = _run(source, [(torch.ones(1),)] * 2, False, lambda f: f)
    assert first.result == ("list", [("int", "0")])
    assert second.result == ("list", [("int", "0"), ("int", "1")])


FIRST_CALL_DECIDES = """
seen = []

def f(x, n):
    seen.append(n)
    if seen[0] == 1:
        if x.sum() > 0:
            x = x * 2
    else:
        torch._dynamo.graph_break()
        x = x + 1
        torch._dynamo.graph_break()
    return x - 1
"""
CALLS = [(torch.ones(2), 1), (-torch.ones(2), 2)]
RIGHT: dict[str, Any] = {
    "mends": {"forward": "where@6", "reversed": ""},
    "declines": {"forward": "", "reversed": "break-requested@9 break-requested@11"},
    # The two breaks of the function and one more as it is compiled again for the second call.
    "breaks": {"forward": 0, "reversed": 3},
}


def test_what_is_wanted_of_each_order() -> None:
    outcome = check(FIRST_CALL_DECIDES, CALLS, **RIGHT)
    assert (outcome.mends, outcome.declines, outcome.breaks) == ("where@6", "", 0)
    check(FIRST_CALL_DECIDES, CALLS, mends=None, declines=None, breaks=None)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("mends", "where@5"),
        ("mends", "cond@6"),
        ("mends", "where@6 where@7"),
        ("declines", "break-requested@9"),
        ("declines", "break-requested@9 break-requested@11 break-requested@12"),
        ("breaks", 2),
        ("breaks", 4),
    ],
)
def test_wrong_in_one_order(order: str, name: str, wrong: object) -> None:
    outcomes = {
        made: Outcome(graphs=1, **{field: wanted_in(made, value) for field, value in RIGHT.items()})
        for made in ORDERS
    }
    _assert_wanted(outcomes, **RIGHT)
    with pytest.raises(AssertionError, match=f"{order}: {name} are"):
        _assert_wanted(outcomes, **RIGHT | {name: RIGHT[name] | {order: wrong}})


@pytest.mark.parametrize("name", ["mends", "declines", "breaks"])
def test_what_holds_in_the_last_order_only(name: str) -> None:
    expectations = RIGHT | {name: RIGHT[name]["reversed"]}
    with pytest.raises(AssertionError, match=f"forward: {name} are"):
        check(FIRST_CALL_DECIDES, CALLS, **expectations, orders=2)


def _frame(graphs: int = 1, broken: bool = False, skipped: bool = False) -> FrameResult:
    return FrameResult(graphs, "a reason" if broken else "", skipped)


WHOLE, BROKEN, SKIPPED = _frame(), _frame(broken=True), _frame(0, broken=True, skipped=True)


@pytest.mark.parametrize(
    ("stock", "mended", "excess"),
    [
        ([[BROKEN, WHOLE], []], [[WHOLE], []], ""),
        ([[WHOLE], [WHOLE]], [[WHOLE], [WHOLE]], ""),
        ([[BROKEN, WHOLE], []], [[WHOLE], [WHOLE], [WHOLE]], ""),
        ([[SKIPPED], []], [[WHOLE, WHOLE], []], ""),
        ([[SKIPPED], []], [[BROKEN, BROKEN, WHOLE], []], ""),
        ([[BROKEN, BROKEN], []], [[BROKEN, BROKEN], []], ""),
        ([[BROKEN], []], [[WHOLE, WHOLE], []], ""),
        ([[BROKEN], []], [[WHOLE, WHOLE, WHOLE], []], "the first call makes 3 graphs"),
        ([[BROKEN], []], [[BROKEN], [BROKEN]], "2 breaks are left"),
        ([[WHOLE], []], [[SKIPPED], []], "1 breaks are left"),
        ([[WHOLE], []], [[WHOLE, WHOLE], []], "the first call makes 2 graphs"),
        ([[WHOLE], []], [[WHOLE], [WHOLE]], "Stock has no break and makes 1 graphs"),
    ],
)
def test_more_pieces_than_stock(
    stock: list[list[FrameResult]], mended: list[list[FrameResult]], excess: str
) -> None:
    assert may_exceed_stock(mended) or not excess
    found = excess_over(stock, mended, fullgraph=False)
    assert excess in found
    assert bool(excess) == bool(found)


def test_symbols_of_fullgraph_are_not_held_against_mending() -> None:
    stock, mended = [[WHOLE], []], [[WHOLE], [WHOLE]]
    assert not excess_over(stock, mended, fullgraph=True)
    assert excess_over(stock, [[BROKEN], []], fullgraph=True)


def test_a_program_in_more_pieces_than_stock_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle runs stock too, and asks."""
    asked: list[object] = []
    monkeypatch.setattr(oracle, "excess_over", lambda *args, **_: asked.append(args) or "one more")
    source = """
    def f(x):
        print(x)
        torch._dynamo.graph_break()
        return x + 1
    """
    with pytest.raises(AssertionError, match="one more"):
        check(source, [torch.ones(2)], mends=None, declines=None, breaks=None)
    ((stock, mended, _),) = asked
    breaks = [[bool(frame.break_reason) for frame in call] for call in (*stock, *mended)]
    # Stock goes on twice; mended, the message is deferred. The second call compiles nothing.
    assert breaks == [[True, True, False], [], [True, False], []]


def test_calls_are_made_in_the_context_around_them() -> None:
    source = """
    def f(x):
        return torch.is_grad_enabled(), torch.get_default_dtype()

    def around():
        return torch.no_grad()

    def change(number):
        torch.set_default_dtype(torch.float64)
        torch.set_printoptions(precision=2)
        torch.compiler.set_stance("force_eager")
    """
    precision = torch._tensor_str.PRINT_OPTS.precision
    (seen,) = _run(source, [(torch.ones(1),)], False, lambda f: f)
    assert seen.result == ("tuple", [("bool", "False"), ("dtype", "torch.float64")])
    assert torch.get_default_dtype() is torch.float32
    assert torch._tensor_str.PRINT_OPTS.precision == precision
    assert torch._dynamo.eval_frame._stance.stance == "default"
