"""Conditions planned before a trace met them, because another one of the function broke the graph."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.code.analysis.blocks import build
from graphmend_bc.code.listing import decode
from graphmend_bc.rewriting.conditions.tensor_conditions import tensor_conditions
from tests.oracle import check, load

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x.sum() > 0", [2]),
        ("torch.isnan(x).any()", [2]),
        ("x.any() or x.max() > 3", [2]),
        ("n > 0 and x.min() < 3", [2]),  # the second jump
        ("any(n) and len(x)", []),
        ("x.shape[0] > 3", []),
        ("not x.all()", [2]),
    ],
)
def test_what_looks_like_a_tensor(condition: str, expected: list[int]) -> None:
    module = load(f"def f(x, n):\n    if {condition}:\n        return 1\n    return 2")
    found = tensor_conditions(build(decode(module.f.__code__)))
    lines = [op.location.lineno for op in found if op.location is not None]
    assert lines[:1] == expected


def test_many_sites_need_few_attempts() -> None:
    body = "".join(
        f"    if x.sum() > {i}:\n        x = x + 1\n"
        f"    if torch.isnan(x).any():\n        raise ValueError({i})\n"
        for i in range(10)
    )
    with gm.config.patch(attempt_limit=2):
        found = check(
            f"def f(x):\n{body}    return x + 1",
            BOTH,
            mends="where@2 speculate@4 where@6 speculate@8 where@10 speculate@12 where@14 speculate@16 where@18 speculate@20 where@22 speculate@24 where@26 speculate@28 where@30 speculate@32 where@34 speculate@36 where@38 speculate@40",
            orders=1,
        )
    assert found.mends.count("where@") == 10
    assert found.mends.count("speculate@") == 10


def test_what_is_no_tensor_after_all() -> None:
    check(
        """
        class Bounds:
            def max(self):
                return 3

        bounds = Bounds()

        def f(x):
            if x.sum() > 0:
                x = x * 2
            if bounds.max() > 2:
                x = x + 1
            return x
        """,
        BOTH,
        mends="where@8",
    )


@pytest.mark.slow
def test_what_is_never_met() -> None:
    check(
        """
        import time

        def f(x, deep):
            if x.sum() > 0:
                y = x * 2
            else:
                y = x + 1
            time.sleep(0)
            if deep:
                if x.max() > 1:
                    y = y + 1
            return y + 1
        """,
        [(UP, False), (DOWN, False)],
        mends="where@4",
        declines="call-not-traced@8",
        breaks=1,
    )


def test_on_another_rung_than_the_one_met() -> None:
    check(
        """
        def f(x):
            if x.sum() > 0:
                x = x * 2
            if x.min() < -1:
                scale = 0.5
            else:
                scale = 2.0
            return x * scale + x.cos()  # long enough that the compiler does not copy it
        """,
        BOTH,
        mends="where@2 speculate@4",
    )
