"""One object under a local and a global name, which become two objects between calls."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, agrees

X = torch.tensor([1.0, 2.0, 3.0])

SHARED = {
    "a dict": ("rows = {}", "kept['a'] = 2\n    x = x * len(rows)", "rows = {1: 1, 2: 2}"),
    "an object": (
        "class Box: n = 1\nrows = Box()",
        "rows.n += 1\n    x = x * kept.n",
        "rows = Box()",
    ),
    "a generator of random numbers": (
        "import random\nrows = random.Random(3)",
        "x = x * rows.random() * kept.random()",
        "rows = random.Random(9)",
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_was_one_object_becomes_two(name: str) -> None:
    before, body, step = SHARED[name]
    source = f"{before}\ndef f(x, kept=rows):\n    print('here')\n    {body}\n    return x"
    outcome = agrees(source, [X, X, Change(step), X, X], orders=1)
    assert outcome.mends
