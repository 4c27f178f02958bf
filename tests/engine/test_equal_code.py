"""A module that is executed more than once: equal code objects, each with globals of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.releases import executed

X = torch.tensor([1.0, 2.0, 3.0])

BROKEN = """
def f(x):
    h = x + 1
    if on:
        torch._dynamo.graph_break()
    y = h if x.sum() > 0 else x + 2
    return x * (scale if on and y is h else 3)
"""
IN_AN_ARM = """
def f(x):
    if x.sum() > 0:
        torch._dynamo.graph_break()
        return x * scale
    return x - scale
"""


def loaded(source: str, number: int) -> dict[str, Any]:
    module: dict[str, Any] = {"torch": torch, "on": False, "scale": number}
    executed(source, "<executed again>", module)
    return module


@pytest.mark.parametrize("source", [BROKEN, IN_AN_ARM])
def test_each_module_goes_on_with_its_own_globals(source: str) -> None:
    modules = [loaded(source, number) for number in range(2, 7)]
    with gm.enabled():
        compiled: list[Callable[..., Any]] = [
            torch.compile(module["f"], backend="eager") for module in modules
        ]
        for on in (False, True, True):
            for module, mended in zip(modules, compiled, strict=True):
                module["on"] = on
                for x in (X, -X):
                    assert torch.equal(mended(x), module["f"](x))
