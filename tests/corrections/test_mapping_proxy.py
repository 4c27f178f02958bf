"""Mapping proxies that are read after the function has changed some dict."""

from __future__ import annotations

import inspect
from collections import OrderedDict, UserDict
from types import MappingProxyType
from weakref import ref

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.dynamo.corrections.mapping_proxy import has_dict_alone
from tests.oracle import Outcome, check, load
from tests.orders import Wanted
from tests.releases import since

UP, DOWN = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -3.0])
PROGRAM = """
import inspect
from types import MappingProxyType
state = {{"k": 0}}
alone, over = MappingProxyType({{"k": 2}}), MappingProxyType(state)
signature = inspect.signature(lambda a, b=2, *, c: 0)

def f(x):
    state["k"] = state["k"] + 1
{body}
"""


def agrees(body: str, breaks: Wanted[int], mends: str = "") -> None:
    program = PROGRAM.format(body=body)
    check(program, [UP, DOWN], mends, declines=None, breaks=breaks)


@pytest.mark.parametrize(
    "body",
    [
        "    return x * alone['k']",
        "    return x * alone.get('k', 3), list(alone.items()), alone.get('j')",
        "    bound = signature.bind(1, c=3)\n    bound.apply_defaults()\n    return x * bound.arguments['b']",
        "    if x.sum() > 0:\n        x = x * 2\n    return x * alone['k'], len(alone), 'k' in alone",
    ],
    ids=["item", "methods", "signature", "beside a branch"],
)
def test_a_dict_that_nobody_else_has(body: str) -> None:
    agrees(body, breaks=0, mends="where@9" if "if x.sum()" in body else "")


def test_a_dict_that_the_function_changes() -> None:
    # The number of calls is a symbol from the second compilation on.
    breaks = 2 if since(2, 13) else None
    agrees("    return x * over['k'], over.get('k')", breaks)


def test_a_guard_tells_the_proxies_apart() -> None:
    """A graph for a proxy with a dict of its own must not run for one over the changed dict."""
    check(
        """
        from types import MappingProxyType
        counts = {"k": 2}
        proxies = [MappingProxyType({"k": 2}), MappingProxyType(counts)]

        def f(x, which):
            counts["k"] = 2
            proxy = proxies[which]
            return multiplied(x, proxy, counts)

        def multiplied(x, proxy, counts):
            counts["k"] = counts["k"] + 1
            return x * proxy["k"]
        """,
        calls=[(UP, 0), (UP, 1), (DOWN, 0), (DOWN, 1)],
        mends="",
        declines=None,
        breaks=None,
    )


def test_the_same_place_with_another_proxy() -> None:
    def f(x: torch.Tensor, proxy: MappingProxyType[str, int], counts: dict[str, int]) -> object:
        counts["k"] = counts["k"] + 1
        return x * proxy["k"]

    with gm.enabled():
        torch._dynamo.reset()
        compiled = torch.compile(f, backend="eager")
        for shared in (False, True, False, True):
            counts = {"k": 2}
            proxy = MappingProxyType(counts if shared else {"k": 2})
            assert torch.equal(compiled(UP, proxy, counts), UP * (3 if shared else 2))
            assert counts == {"k": 3}


def test_stock_is_left_as_it_is() -> None:
    module = load(PROGRAM.format(body="    return x * alone['k']"))
    with session.mending_by(session.new_state(mends=False)):
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported, match="mapping proxy"):
            torch.compile(module.f, backend="eager", fullgraph=True)(UP)


def test_who_has_the_dict() -> None:
    shared, ordered = {"a": 1}, OrderedDict(a=1)
    proxy = MappingProxyType(ordered)
    assert has_dict_alone(inspect.signature(check).parameters)
    assert not has_dict_alone(MappingProxyType(shared))
    assert not has_dict_alone(proxy)
    del ordered
    assert has_dict_alone(proxy)
    assert not has_dict_alone(vars(Outcome))
    assert not has_dict_alone(MappingProxyType(UserDict(a=1)))
    assert not has_dict_alone({})


def test_a_weak_reference_is_one_too() -> None:
    ordered = OrderedDict(a=1)
    proxy, weak = MappingProxyType(ordered), ref(ordered)
    del ordered
    assert weak() is not None
    assert not has_dict_alone(proxy)
