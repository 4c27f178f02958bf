"""What single rules know, and what they do not, beside the operators of `test_ranges`."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges

from graphmend_bc.legality.ranges import Ranges
from tests.legality.test_ranges import Note, Watch

ROWS = torch.arange(3).view(3, 1)
MASK = torch.ones(2, 9)
WHOLE = ValueRanges(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("source", "bounds"),
    [
        ("torch.arange(0.5, 5, dtype=torch.int64)", None),
        ("torch.arange(-5, -0.5, dtype=torch.int64)", None),
        ("torch.arange(-5, 5)", (-5, 4)),
        ("torch.arange(5).unbind()[2]", (0, 4)),
        ("torch.arange(5).select(0, 3)", (0, 4)),
        ("torch.arange(6).view(2, 3).argmax()", (0, 5)),
        ("torch.arange(6).view(2, 3).argmax(1)", (0, 2)),
        ("torch.arange(6).view(2, 3).argsort()", (0, 2)),
        ("torch.tensor(5).argmax(0)", None),
        ("torch.tensor(5).max(0).indices", None),
        ("torch.add(torch.arange(5), torch.arange(5).flip(0))", (0, 8)),
        ("torch.add(torch.arange(5), torch.arange(5).flip(0), alpha=-1)", None),
        ("torch.sub(torch.arange(5), torch.arange(5), alpha=-2)", None),
        ("torch.arange(6) % 5", (0, 4)),
        ("torch.arange(6) % 1", (0, 0)),
        ("torch.arange(6) % -5", None),
        ("torch.arange(6.0).to(torch.int64)", None),
    ],
)
def test_which_numbers_a_result_holds(source: str, bounds: tuple[int, int] | None) -> None:
    """`Watch` compares them with what it does hold."""
    with Watch(Ranges()) as watch:
        result = eval(source)
    assert watch.ranges.of(result) == (ValueRanges(*bounds) if bounds else WHOLE)


@pytest.mark.parametrize(
    ("source", "bounds"),
    [
        ("ROWS[1]", (1, 1)),
        ("ROWS.unbind()[2]", (2, 2)),
        ("ROWS.unbind(-1)[0]", None),
        ("ROWS.select(-1, 0)", None),
        ("ROWS.select(1, 0)", None),
        ("MASK.nonzero().select(1, 0)", (0, 1)),
        ("MASK.nonzero().unbind(1)[1]", (0, 8)),
        ("MASK.nonzero().select(-2, 17)", None),
        ("MASK.nonzero().select(0, 17)", None),
        ("MASK.nonzero().unbind()[17]", None),
        ("MASK[None].nonzero().select(1, 0)", (0, 0)),
        ("MASK[None].nonzero().select(-2, 17)", None),
    ],
)
def test_rows_and_columns(source: str, bounds: tuple[int, int] | None) -> None:
    ranges = Ranges()
    ranges.count(ROWS, 3)
    with Watch(ranges):
        result = eval(source)
    assert ranges.of(result) == (ValueRanges(*bounds) if bounds else WHOLE)


@pytest.mark.parametrize(
    ("source", "known"),
    [
        ("ROWS.select(0, size)", None),
        ("torch.arange(size, size + 1)", None),
        ("torch.arange(size) == size", (0, 1)),
        ("torch.arange(5) % 0", None),
        ("torch.tensor(7) % size", None),
    ],
)
def test_numbers_that_are_symbols(source: str, known: tuple[int, int] | None) -> None:
    """No guard is added for what is not known; nor for an operator that will raise."""
    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True):
        size = torch.empty(9).nonzero().shape[0]
        names: dict[str, Any] = {"ROWS": torch.empty_like(ROWS), "size": size, "torch": torch}
        ranges = Ranges()
        ranges.count(names["ROWS"], 3)
        with Note(ranges):
            result = eval(source, names)
    assert ranges.of(result) == (ValueRanges(*known) if known else WHOLE)
    assert isinstance(size, torch.SymInt)
    assert not size.node.shape_env.guards
    assert size.node.maybe_as_int() is None


@pytest.mark.parametrize("one", ["[2**64 - 1], dtype=torch.uint64", "[-1]"])
@pytest.mark.parametrize("other", ["3", "-1", "torch.tensor(2**64 - 1, dtype=torch.uint64)"])
@pytest.mark.parametrize("compare", [operator.eq, operator.ne])
def test_comparisons_of_the_widest_integers(one: str, other: str, compare: Any) -> None:
    """`-1` is made the largest of them; torch has no `min` for such a constant."""
    sources = [f"torch.tensor({one})", other]
    truth = compare(*map(eval, sources))
    with FakeTensorMode(allow_non_fake_inputs=True):
        operands = [eval(source) for source in sources]
        ranges = Ranges()
        with Note(ranges):
            result = compare(*operands)
    found = ranges.of(result)
    assert found.lower <= int(truth) <= found.upper
