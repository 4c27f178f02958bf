"""Rules whose guards ask the running process mend nothing that is saved or exported."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo.exc import Unsupported

import graphmend_bc as gm
from tests.oracle import load
from tests.releases import since

X = torch.ones(2, 3)

TEXT = """
from enum import Enum

class Mode(str, Enum):
    PLAIN = "plain"

mode = Mode.PLAIN

def f(x):
    return x * len(mode.strip())
"""
NAME = """
weight = nn.Parameter(torch.ones(3))

def f(x):
    return x * 2 if type(weight).__module__.startswith("torch.") else x
"""
DISPATCH = """
import functools

@functools.singledispatch
def scaled(a, x):
    return x * a

def f(x):
    return scaled(2, x)
"""
LOGGER = """
def f(x):
    return x * 2 if logging.getLogger("of a saved program").propagate else x
"""
RECURRENT = """
rnn = nn.GRU(3, 4).eval()

def f(x):
    with torch.no_grad():
        return rnn(x)[0]
"""
FILE = """
import os

def f(x):
    return x * 2 if os.path.exists("/nowhere") else x
"""
FLAG = """
weight = nn.Parameter(torch.ones(3))

def f(x):
    y = x * 2
    y.requires_grad = True
    return (y * weight).detach()
"""
FROM_2_13 = pytest.mark.skipif(not since(2, 13), reason="It breaks before the rule is asked.")
UNTIL_2_14 = pytest.mark.skipif(since(2, 15), reason="This torch traces it by itself.")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        pytest.param(TEXT, 9, marks=FROM_2_13, id="enum-text"),
        pytest.param(NAME, 4, marks=(FROM_2_13, UNTIL_2_14), id="name-text"),
        pytest.param(LOGGER, 0, marks=FROM_2_13, id="library"),
        pytest.param(RECURRENT, 5, id="recurrent"),
    ],
)
def test_what_is_compiled_ahead_of_time(source: str, line: int) -> None:
    program: Any = load(source)
    with torch._dynamo.config.patch(enable_aot_compile=True), gm.enabled():
        compiled: Any = torch.compile(program.f, fullgraph=True, backend="eager")
        with pytest.raises(Unsupported):
            compiled.aot_compile(((X,), {}))
        found = [(d.reason, d.site.lineno) for d in gm.report().declines]
    assert [reason for reason, _ in found] == ["under-export"], found
    assert not line or found[0][1] == line


@UNTIL_2_14
def test_a_choice_by_class_is_not_saved() -> None:
    """Dynamo goes on in what chooses, and breaks there."""
    program: Any = load(DISPATCH)
    with torch._dynamo.config.patch(enable_aot_compile=True), gm.enabled():
        compiled: Any = torch.compile(program.f, fullgraph=True, backend="eager")
        with pytest.raises(Unsupported):
            compiled.aot_compile(((X,), {}))
        assert not gm.report().mends


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(FILE, id="files"),
        pytest.param(FLAG, marks=UNTIL_2_14, id="leaf"),
        pytest.param(RECURRENT, id="recurrent"),
    ],
)
def test_what_is_exported(source: str) -> None:
    program: Any = load(source)
    with gm.enabled():
        with pytest.raises(Unsupported):
            torch._dynamo.export(program.f, aten_graph=False)(X)
        found = [d.reason for d in gm.report().declines]
    assert found == ["under-export"]
