"""`functools.cached_property`: Python 3.11 holds a lock that Dynamo does not trace; 3.12 has none."""

from __future__ import annotations

import sys

import pytest
import torch

from graphmend_bc.catalog.first_use import is_same
from graphmend_bc.runtime import cached
from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -3.0])
LOCKED = sys.version_info < (3, 12)

PROGRAM = """
from functools import cached_property
computed = []

class Plan:
    def __init__(self, factor):
        self.factor = factor

    @cached_property
    def double(self):
        computed.append(self.factor)
        return self.factor * 2

    @cached_property
    def unlucky(self):
        computed.append("unlucky")
        raise KeyError(self.factor)

class Slim:
    __slots__ = ("factor",)
    double = cached_property(lambda self: 2)

class Nameless:
    pass

Nameless.double = cached_property(lambda self: 2)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    @cached_property
    def scale(self):
        print("computing")
        return self.weight * 3

net, plan, known = Net(), Plan(2), Plan(5)
known.double

def f(x):
{body}
"""


@pytest.mark.parametrize(
    ("body", "besides"),
    [
        ("    return x * plan.double + plan.double, vars(plan).get('double')", ""),
        ("    return x * known.double, plan.double", ""),
        ("    if x.sum() > 0:\n        x = x * 2\n    return x * plan.double", "where@41"),
        ("    p = Plan(7)\n    return x * p.double + p.double, p.factor", ""),
        ("    return x * net.scale, 'scale' in vars(net)", "defer@34"),
        (
            "    try:\n        return x + plan.unlucky\n    except KeyError as error:\n        return x * error.args[0]",
            "",
        ),
        ("    return x * Plan.double.func(plan)", ""),
    ],
    ids=["twice", "known", "beside a branch", "of a new object", "a tensor", "raises", "the class"],
)
def test_values(body: str, besides: str) -> None:
    polyfills = ["polyfill@functools.py"] if LOCKED and "func" not in body else []
    mends = " ".join([*besides.split(), *polyfills])
    check(PROGRAM.format(body=body), [UP, DOWN], mends, grad=True, fullgraph=True)


@pytest.mark.skipif(not LOCKED, reason="nothing is mended")
@pytest.mark.parametrize("owner", ["Slim()", "Nameless()", "plan"], ids=str)
def test_what_the_original_raises(owner: str) -> None:
    name = "unlucky" if owner == "plan" else "double"
    check(
        PROGRAM.format(
            body=f"    y = x * 2\n    computed.append(3)\n    return y * {owner}.{name}"
        ),
        [UP, DOWN],
        mends="",
        declines=None,
        breaks=None,
    )


def test_only_the_original_is_known() -> None:
    """A class of the user's with the same names keeps its lock."""
    outcome = check(
        """
        import threading
        lock = threading.RLock()

        class cached_property:
            def __init__(self, func):
                self.func = func

            def __get__(self, instance, owner=None):
                with lock:
                    return self.func(instance)

        class Plan:
            two = cached_property(lambda self: 2)

        def f(x):
            return x * Plan().two
        """,
        [UP, DOWN],
        mends="",
        declines=None,
        breaks=1,
    )
    assert "polyfill" not in outcome.mends


def test_the_code_is_compared_not_the_name() -> None:
    code = test_values.__code__
    assert is_same(code, code.replace(co_consts=(*code.co_consts, "more")))
    assert not is_same(code, cached.get.__code__.replace(co_qualname=code.co_qualname))
