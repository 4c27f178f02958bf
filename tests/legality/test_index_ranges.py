"""Indices that are known to be in bounds need no check that protects them."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from graphmend_bc.dynamo.trace.op_recorder import Recorder

IN_BOUNDS = {
    "arange": "table[torch.arange(5)]",
    "arange between": "table[torch.arange(1, 5)]",
    "arange of a size": "table[torch.arange(table.shape[0])]",
    "negative": "table[torch.arange(5) - 5]",
    "nonzero": "table[torch.where(mask)[0]]",
    "each column by its size": "table[torch.where(mask)]",
    "columns apart": "rows, columns = torch.where(mask)\ntable[rows, None, columns]",
    "column of nonzero": "table[:, mask.nonzero()[:, 1]]",
    "argmax": "table[scores.argmax(-1)]",
    "argmax of all": "flat[scores.argmax()[None]]",
    "topk": "table.index_select(0, scores.topk(2, dim=-1).indices[0])",
    "max": "torch.gather(scores, 1, scores.max(1, keepdim=True).indices)",
    "sort": "torch.gather(scores, 1, scores.sort(-1).indices)",
    "argsort": "torch.gather(scores, 1, torch.argsort(scores, dim=1))",
    "views": "table[scores.argmax(-1).view(1, -1).t().flatten()]",
    "views of views": "table[torch.arange(5)[None].expand(2, -1)[0, 1:].clone()]",
    "another dtype": "table[scores.argmax(-1).int().long()]",
    "cat": "table[torch.cat([torch.arange(5), torch.arange(2)])]",
    "stack": "table[torch.stack([torch.arange(3), torch.arange(3)])]",
    "where": "table[torch.where(mask[0], torch.arange(5), 4)]",
    "clamp": "table[ids.clamp(0, 4)]",
    "clamp twice": "table[ids.clamp(min=0).clamp_max(4)]",
    "minimum": "table[torch.minimum(torch.arange(9), torch.full((9,), 4))]",
    "remainder": "table[ids % 5]",
    "sums": "table[torch.arange(3) + 2]",
    "products": "table[(torch.arange(3) * 2)]",
    "differences": "table[2 - torch.arange(3) + 2]",
    "zeros": "table[torch.zeros(3, dtype=torch.int64)]",
    "embedding": "F.embedding(torch.arange(5), table)",
    "index_add": "table.clone().index_add_(0, torch.where(mask[0])[0], flat[torch.where(mask[0])[0], None])",
    "index_put": "table.clone()[torch.arange(2)] = 1.0",
    "mask": "table[mask]",
    "scatter": "torch.zeros(5, 5).scatter(1, scores.argmax(-1, keepdim=True), 1.0)",
    "written elsewhere": "i = torch.arange(5); j = torch.arange(5)\nj.add_(9)\ntable[i]",
}

NOT_KNOWN = {
    "an input": "table[ids]",
    "too large": "table[torch.arange(6)]",
    "too small": "table[torch.arange(5) - 6]",
    "negative where none may be": "torch.gather(scores, 1, scores.argmax(1, keepdim=True) - 1)",
    "another dimension": "table[:, :3].index_select(1, torch.where(mask)[1])",
    "columns exchanged": "table[:3][torch.where(mask.t())]",
    "nonzero as it is": "table[:3][:, mask.nonzero()]",
    "written": "i = torch.arange(5)\ni.add_(1)\ntable[i]",
    "written through a view": "i = torch.arange(5)\ni.view(5)[0] = 7\ntable[i]",
    "made of what was written": "i = torch.arange(5)\ni[0] = 7\nj = i + 0\ntable[j]",
    "a view made of a column": "n = mask.nonzero()\nn.select(1, 0).fill_(7)\ntable[n[:, 0]]",
    "sum too large": "table[torch.arange(5) + 1]",
    "alpha": "table[torch.add(torch.arange(3), torch.arange(3), alpha=2)]",
    "product too large": "table[torch.arange(4) * 2]",
    "cat": "table[torch.cat([torch.arange(5), ids])]",
    "where": "table[torch.where(mask[0], torch.arange(5), 5)]",
    "clamped on one side": "table[ids.clamp(max=4)]",
    "remainder": "table[ids % 6]",
    "largest": "table[torch.arange(3).add(9).max()[None]]",
    "larger": "table[torch.max(torch.arange(3), ids[:3])]",
    "clamped by a tensor": "table[torch.clamp(torch.arange(3), min=ids[:3])]",
    "clamped to above": "table[torch.arange(3).clamp(min=7)]",
    "count": "table[mask.sum(-1)]",
    "operators seen whole": "with torch.inference_mode(): torch.where(mask)\ntable[ids]",
    "from float": "table[torch.arange(5.0).long()]",
    "bits of another dtype": "table[torch.arange(5).view(torch.int32)]",
    "wraps": "table[(ids.clamp(0, 4).to(torch.int8) * 100).long()]",
    "embedding": "F.embedding(ids, table)",
    "labels": "F.nll_loss(scores, ids[:3])",
    "take": "torch.take(table, ids)",
    "arange by twos": "table[torch.arange(0, 5, 2)]",
}


def guarded(source: str) -> object:
    """The operators that a check would protect, in a program that does not run on the CPU."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with mode, torch.device("meta"):
        recorder = Recorder(mode)
        recorder.speculated = True
        names = {
            "table": torch.empty(5, 5),
            "flat": torch.empty(25),
            "ids": torch.empty(5, dtype=torch.int64),
            "mask": torch.empty(5, 5, dtype=torch.bool),
            "scores": torch.empty(3, 5),
            "F": torch.nn.functional,
            "torch": torch,
        }
        exec(source, names)
        recorder.detach()
    return recorder.guarded


@pytest.mark.parametrize("source", IN_BOUNDS.values(), ids=IN_BOUNDS.keys())
def test_in_bounds(source: str) -> None:
    assert not guarded(source)


@pytest.mark.parametrize("source", NOT_KNOWN.values(), ids=NOT_KNOWN.keys())
def test_not_known_to_be_in_bounds(source: str) -> None:
    assert guarded(source)


KNOWN_TRUTHS = {
    "rows[2] == 2": True,
    "rows[2][0] == 3": False,
    "rows[1] != 1": False,
    "rows[1] < 2": True,
    "rows[2] < 2": False,
    "rows[0] >= rows[0]": True,
    "2 > rows[1]": True,
    "rows[1] + 1 <= 1": False,
    "rows.unbind()[2] > rows[1]": True,
    "places < 0": False,
    "places <= 4": True,
    "places == 5": False,
    "places == 4": None,
    "places < 4": None,
    "rows[1].to(torch.uint8) > -1": None,  # the number is made a uint8
    "rows[1].float() > 0.5": None,
    "rows[1] == 1.0": None,
    "numbers >= -2**63": None,
    "rows[:1] == 0": None,
    "(rows[2] == 2) == (rows[1] == 1)": True,
    "torch.full((), 5, dtype=torch.bool) == True": None,
}


@pytest.mark.parametrize(("source", "truth"), KNOWN_TRUTHS.items(), ids=KNOWN_TRUTHS.keys())
def test_comparisons(source: str, truth: bool | None) -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        recorder = Recorder(mode)
        rows, numbers = torch.empty(3, 1, dtype=torch.int64), torch.empty(5)
        recorder.ranges.count(rows, 3)
        names = {"rows": rows, "numbers": numbers, "places": numbers.argmax(), "torch": torch}
        found = recorder.ranges.number_in(eval(source, names))
        recorder.detach()
    assert found == truth


def test_number_of_a_row_that_was_written_to() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        recorder = Recorder(mode)
        rows = torch.empty(3, 1, dtype=torch.int64)
        recorder.ranges.count(rows, 3)
        row = rows[1]
        before = recorder.ranges.number_in(row)
        row.add_(1)
        after = [recorder.ranges.number_in(value) for value in (row, rows[1], rows[2])]
        recorder.detach()
    assert before == 1
    assert after == [None, None, None]
