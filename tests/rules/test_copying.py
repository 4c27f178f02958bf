"""`copy.copy` of plain containers."""

from __future__ import annotations

import pytest
import torch

from graphmend_bc.code.facts import VERSION
from tests.backends import TORCH
from tests.oracle import check
from tests.releases import since

X = torch.tensor([1.0, -2.0])


# Since CPython 3.14 `copy.copy` calls methods of types; stock traces that of some.
COPY = "" if since(2, 15) and VERSION >= (3, 14) else "copy@copy.py"


@pytest.mark.skipif(TORCH < (2, 13), reason="older versions do not trace copy.copy")
@pytest.mark.parametrize(
    ("body", "mends"),
    [
        ("d = copy.copy(CONFIG)\n    d['b'] = x\n    return d, CONFIG['b']", COPY),
        ("d = copy.copy(CONFIG)\n    d['a'].append(3)\n    return x * 2, d", COPY),
        ("d = [x, x * 2]\n    e = copy.copy(d)\n    e.append(x)\n    return d, e", "copy@copy.py"),
        ("d = {'x': x}\n    e = copy.copy(d)\n    d['x'] = 1\n    return d, e", COPY),
        ("s = copy.copy(NAMES)\n    s.add('c')\n    return x * len(s), len(NAMES)", COPY),
        ("return x * len(copy.copy((1, 2)))", ""),
    ],
)
def test_plain_containers(body: str, mends: str) -> None:
    check(
        f"""
import copy
CONFIG = {{"a": [1, 2], "b": 2}}
NAMES = {{"a", "b"}}

def f(x):
    {body}
""",
        [X, -X],
        mends,
        fullgraph=True,
    )


@pytest.mark.parametrize(
    "body",
    [
        "return copy.copy(x)",
        *([] if since(2, 14) else ["return x * len(copy.copy(COUNTS))"]),  # stock traces it
        "return x * len(list.copy(Mine([1, 2])))",
    ],
)
def test_other_copies_are_left(body: str) -> None:
    outcome = check(
        f"""
import copy
from collections import defaultdict
COUNTS = defaultdict(int, a=3)

class Mine(list):
    def copy(self):
        return [0]

def f(x):
    {body}
""",
        [X, -X],
        mends="",
        declines=None,
        breaks=1 if since(2, 13) else None,
    )
    assert "call-not-traced" in outcome.declines
