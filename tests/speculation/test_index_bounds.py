"""Indices after a speculation on an accelerator; here the CPU is taken for one.

On the CPU a bad index is an exception, which ends in the original code, too; that the check catches it
shows in that nothing raises inside the graph.
"""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo.trace import op_recorder
from graphmend_bc.legality.record import OpRecord, raises_on_values
from tests.oracle import check

UP = torch.tensor([[1.0, 2.0, 3.0], [2.0, 3.0, 1.0]], requires_grad=True)
DOWN = (-UP).detach().requires_grad_()
IDS = torch.tensor([0, 2])


@pytest.fixture(autouse=True)
def accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(record: OpRecord) -> bool:
        return record.is_aten and raises_on_values(record)

    monkeypatch.setattr(op_recorder, "stops_process", stops)


PROGRAM = """
        table = torch.arange(12.0).reshape(3, 4).requires_grad_()

        def f(x, ids):
            k = 2 if x.sum() > 0 else True
            y = {use}
            return y * k, k
        """

PUT_IN_BOUNDS = {
    "token ids": "F.embedding(ids, table)",
    "token ids and padding": "F.embedding(ids.int(), table, padding_idx=0)",
    "labels": "F.cross_entropy(x, ids)",
    "labels by name": "F.cross_entropy(input=x, target=ids, ignore_index=1, reduction='sum')",
    "labels by position": "F.cross_entropy(x, ids, None, None, 2)",
    "labels of a loss": "F.nll_loss(x.log_softmax(-1), ids)",
    "labels of an image": "F.cross_entropy(x[None, :, :, None].transpose(1, 2), ids[None, :, None])",
    "one label": "F.cross_entropy(x[0], ids[0])",
    "module": "nn.CrossEntropyLoss(label_smoothing=0.1)(x, ids)",
    "twice": "F.embedding(ids, table).sum() + F.cross_entropy(x, ids)",
    "changed afterwards": "F.cross_entropy(x, ids) + ids.clone().fill_(7).sum()",
}

IDS_OF_CALLS = [
    IDS,
    torch.tensor([-100, 1]),
    torch.tensor([3, 0]),
    torch.tensor([0, -1]),
    torch.tensor([1, 1]),
]


@pytest.mark.slow
@pytest.mark.parametrize("grad", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("use", PUT_IN_BOUNDS.values(), ids=PUT_IN_BOUNDS.keys())
def test_indices_that_are_put_in_bounds(use: str, grad: bool) -> None:
    calls = [(x, ids) for ids in IDS_OF_CALLS for x in (UP, DOWN)]
    found = check(PROGRAM.format(use=use), calls, mends=None, breaks=None, grad=grad, orders=1)
    assert "speculate@4" in found.mends
    assert check(PROGRAM.format(use=use), calls[:1], mends="speculate@4").breaks == 0


@pytest.mark.parametrize(
    "use", ["table[ids]", "torch.take(table, ids)", "x.gather(1, ids[:, None])"]
)
def test_other_uses_are_declined(use: str) -> None:
    calls = [(UP, IDS), (DOWN, IDS)]
    check(
        PROGRAM.format(use=use),
        calls,
        mends="",
        declines="speculation-guards-index@4",
        breaks=None,
        orders=1,
    )


def test_bad_index_is_found_by_the_check() -> None:
    """A graph that raised would have stopped the process."""

    def f(x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, int]:
        k = 2 if x.sum() > 0 else 3
        return torch.nn.functional.cross_entropy(x, ids) * k, k

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        compiled(UP, IDS)
        with pytest.raises(IndexError, match="Target 3 is out of bounds"):
            compiled(UP, torch.tensor([3, 0]))
        (speculation,) = gm.report().speculations
    assert (speculation.calls, speculation.failed_checks) == (2, 1), "missed, not raised"
