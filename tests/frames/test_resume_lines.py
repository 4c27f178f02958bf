"""Code that runs again after a break in a loop is in the lines that the program has it in."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees

LOOP = """
import logging, sys

def line():
    return sys._getframe(1).f_lineno

def f(x, n):
    lines = []
    while n:
        n -= 1
        if n < 2:
            logging.getLogger("loop").warning("round %s", n)
            lines.append({line})
        torch._dynamo.graph_break()
        if x.dim() > 3:
            return x
        x = x + {added}
    return x, lines
"""


@pytest.mark.slow
@pytest.mark.parametrize("line", ["1", "line()"])
@pytest.mark.parametrize("added", ["1", "(1 if x.sum() > 0 else 2)"])
def test_what_stands_before_the_break_keeps_its_line(line: str, added: str) -> None:
    source = LOOP.replace("{line}", line).replace("{added}", added)
    agrees(source, [(torch.ones(2), 3), (-torch.ones(2), 3), (torch.ones(2), 1)])
