"""Methods of text on names of classes and functions."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, agrees, check
from tests.releases import STOCK_IS_WRONG, STOCK_RAISES, since

pytestmark = pytest.mark.skipif(not since(2, 13), reason=STOCK_RAISES)

X = torch.tensor([1.0, -2.0, 3.0])

WEIGHT = "weight = nn.Parameter(torch.ones(3))\n"


@pytest.mark.parametrize(
    "text",
    [
        "type(weight).__module__.startswith('torchao.')",
        "type(weight).__module__.startswith(('torchao.', 'torch.'))",
        "type(weight).__name__.lower()",
        "type(weight).__qualname__.replace('a', 'b').upper()",
        "type(weight).__module__.split('.')",
        "type(weight).__name__.find('z'), torch.relu.__name__.title()",
    ],
)
def test_it_is_that_of_the_name(text: str) -> None:
    outcome = check(f"{WEIGHT}def f(x):\n    return x * weight, {text}", [X, -X], None)
    assert ("polyfill@" in outcome.mends) != since(2, 15)  # which traces it by itself


def test_a_weight_of_another_class_is_another_version() -> None:
    source = f"""{WEIGHT}
class Quantised(nn.Parameter):
    pass

def f(x):
    return x * 2 if type(weight).__module__.startswith("torch") else -x * weight
"""
    changes = [Change("weight = torch.ones(3)"), X, Change("weight = Quantised(torch.ones(3))"), X]
    agrees(source, [X, *changes, Change("weight = nn.Parameter(torch.ones(3))"), X])


NAMED = """
def half(x):
    return x / 2

torch._dynamo.allow_in_graph(half)

def f(x):
    if half.__name__.startswith("ha"):
        return half(x)
    return x * 2
"""


@pytest.mark.skipif(since(2, 15), reason=STOCK_IS_WRONG)
def test_a_name_changes() -> None:
    change = Change("half.__name__ = 'other' if half.__name__ == 'half' else 'half'")
    check(NAMED, [X, change, X, X, change, X], "polyfill@7", orders=1)


@pytest.mark.parametrize("call", ["index('z')", "strip(3)", "join(3)"])
def test_what_raises_raises_as_in_eager_python(call: str) -> None:
    source = f"{WEIGHT}def f(x):\n    return x * weight, type(weight).__name__.{call}"
    check(source, [X, -X], mends=None, declines=None, breaks=None)


def test_an_exception_is_caught_where_eager_python_catches_it() -> None:
    source = f"""{WEIGHT}
def f(x):
    try:
        place = type(weight).__name__.index("z")
    except ValueError as error:
        place = str(error)
    return x * weight, place
"""
    check(source, [X, -X], mends=None, declines=None, breaks=None)
