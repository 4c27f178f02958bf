"""Functions of `functools.singledispatch`."""

from __future__ import annotations

import pytest
import torch

from graphmend_bc.code.facts import VERSION
from tests.oracle import Change, Outcome, agrees, check
from tests.releases import since

X = torch.tensor([1.0, -2.0, 3.0])
MENDED = "polyfill@functools.py"

SCALED = """
import abc, functools

@functools.singledispatch
def scaled(a, x):
    return x + 1

@scaled.register
def _(a: int, x):
    return x * 2

scaled.register(torch.Tensor, lambda a, x: a * x)
class Row(abc.ABC):
    pass

Row.register(list), Row.register(tuple)
scaled.register(Row, lambda a, x: sum(scaled(item, x) for item in a))

class Base(abc.ABC):
    pass

class Thing:
    factor = 3

scaled.register(Base, lambda a, x: x * a.factor)
thing, factors = Thing(), [2]

def by_list(a, x, least=1):
    return x * max(*factors, least)
"""


def changed(body: str, *steps: str) -> Outcome:
    """What became of a function that is called twice, and twice after each change."""
    calls: list[object] = [X, X]
    for step in steps:
        calls += [Change(step), X, X]
    return agrees(f"{SCALED}\ndef f(x):\n    {body}", calls, orders=1)


@pytest.mark.parametrize(
    "body",
    [
        "return scaled(1, x) + scaled('a', x) + scaled(True, x) + scaled(2.5, x)",
        "return scaled(x, x) + scaled([1, x, (2, 'a')], x=x)",
        "return scaled(None, x) if x.sum() > 0 else scaled(1, x)",
    ],
)
def test_the_function_of_the_class_is_traced(body: str) -> None:
    outcome = agrees(f"{SCALED}\ndef f(x):\n    {body}", [X, -X], grad=True)
    assert MENDED in outcome.mends
    assert not outcome.breaks


@pytest.mark.parametrize(
    "step",
    [
        "scaled.register(str, lambda a, x: x * 7)",
        "scaled.register(int, lambda a, x: x * 9)",
        "scaled.register(bool, by_list); factors[0] = 5",
        "Base.register(Thing)",
        "Base.register(Thing); Thing.factor = 4",
        "scaled.register(Thing, by_list)",
        "scaled = lambda a, x: x * 11",
    ],
)
def test_what_is_registered_later_is_noticed(step: str) -> None:
    body = "return scaled('a', x) + scaled(1, x) + scaled(True, x) + scaled(thing, x)"
    assert not changed(body, step).breaks


@pytest.mark.parametrize("step", ["factors[0] = 5", "by_list.__defaults__ = (4,)"])
def test_what_the_chosen_function_reads_is_guarded(step: str) -> None:
    outcome = changed("return scaled(b'', x)", "scaled.register(bytes, by_list)", step)
    assert MENDED in outcome.mends


def test_no_choice_between_two_classes() -> None:
    source = """
        import abc, functools

        class One(abc.ABC): pass
        class Two(abc.ABC): pass
        class Thing: pass

        One.register(Thing), Two.register(Thing)
        thing = Thing()

        @functools.singledispatch
        def kind(a, x):
            return x

        kind.register(One, lambda a, x: x * 2), kind.register(Two, lambda a, x: x * 3)

        def f(x):
            try:
                return kind(thing, x)
            except RuntimeError:
                return x * 4
        """
    assert "call-not-traced@functools.py" in agrees(source, [X, -X]).declines


def test_a_function_that_registers_another_one_first() -> None:
    changed("scaled.register(str, by_list)\n    return scaled('a', x) * 2", "factors[0] = 5")


@pytest.mark.skipif(VERSION >= (3, 14), reason="methods are chosen by another function there")
def test_methods() -> None:
    source = """
        import functools

        class Scale:
            factor = 2

            @functools.singledispatchmethod
            def by(self, a, x):
                return x * self.factor

            @by.register
            def _(self, a: int, x):
                return x + a

        scale = Scale()

        def f(x):
            return scale.by(1, x) + scale.by("a", x)
        """
    later = "vars(Scale)['by'].register(str, lambda self, a, x: x * 9)"
    calls = [X, X, Change("scale.factor = 3"), X, X, Change(later), X, X]
    if since(2, 13):
        check(source, calls, MENDED, orders=1)
    else:  # Dynamo does not trace the method's `__get__`
        agrees(source, calls, orders=1)
