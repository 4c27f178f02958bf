"""Entries of the decision cache with random changes: ignored, and never a wrong result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphmend_bc as gm
from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.engine.decisions.decision_cache import DecisionCache
from graphmend_bc.engine.decisions.decisions import Subject
from graphmend_bc.engine.decisions.proven_plan import Proven
from graphmend_bc.reporting.reasons import REASONS
from tests.engine.test_decision_cache import attempts_of, entry_of
from tests.oracle import load

PROGRAM = """
seen = []

def f(x):
    if x.sum() > 0:
        x = x * 2
    k = 3 if x[0] > 1 else 5
    print(x.sum().item())
    for n in range(int(x[1].abs())):
        x = x + n
        if x.max() > 20:
            break
    seen.append(x.sum().item())
    return x * k
"""
CALLS = [torch.tensor(values) for values in ([2.0, 3.0], [-2.0, 1.0], [30.0, 2.0], [0.5, 0.0])]
TIMELESS: Any = settings(
    max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[tuple[Any, Path]]:
    """A function of which decisions are kept, and their file."""
    with gm.config.patch(disk_cache=True, cache_dir=str(tmp_path / "cache")):
        f = load(PROGRAM).f
        attempts_of(f, CALLS[0])
        yield f, entry_of(tmp_path / "cache")


@given(data=st.data())
@TIMELESS
def test_changed_bytes_are_ignored(kept: tuple[Any, Path], data: st.DataObject) -> None:
    """Bytes that are cut, doubled, swapped or replaced, read as a process reads them."""
    f, entry = kept
    good = entry.read_bytes()
    content = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(begin, min(len(content), begin + 20)))
        content[begin:end] = data.draw(st.binary(max_size=12) | st.sampled_from(_PIECES))
    entry.write_bytes(content)
    found = DecisionCache().read(Subject(f.__code__, {}))
    assert found is None or isinstance(found, Proven)
    entry.write_bytes(good)


_PIECES = [piece.encode() for piece in ("9" * 5000, "[" * 2000, '"', "{}", "null", "-1", "1e999", "\\ud800", "true")]  # fmt: skip


@st.composite
def outcomes(draw: Any, offsets: list[int]) -> dict[str, Any]:
    """What checks may have taught about some instructions, whether or not they are conditions."""
    places = st.sampled_from(offsets)
    some = st.lists(places, max_size=4)
    return {
        "flips": draw(st.lists(st.tuples(places, st.integers(-1, 3), st.booleans()), max_size=4)),
        "guarded": draw(some),
        "selected": draw(some),
        "given_up": draw(st.lists(st.tuples(places, st.sampled_from(sorted(REASONS))), max_size=3)),
        "varying": draw(st.lists(st.sampled_from(["x", "L['x']", "", "["]), max_size=2)),
        "left": draw(st.sampled_from([False, False, False, True])),
    }


@pytest.mark.slow
@given(data=st.data())
@TIMELESS
def test_no_outcomes_make_a_result_wrong(kept: tuple[Any, Path], data: st.DataObject) -> None:
    _, entry = kept
    f = load(PROGRAM).f  # the same code, and a list of its own
    offsets = [op.offset for op in graph_of(f.__code__).listing.ops]
    known = json.loads(entry.read_bytes()) | {"outcomes": data.draw(outcomes(offsets))}
    if data.draw(st.booleans()):
        known["decisions"] = []
    good = entry.read_bytes()
    entry.write_text(json.dumps(known))
    for call in data.draw(st.permutations(CALLS)):
        attempts_of(f, call)
    entry.write_bytes(good)
