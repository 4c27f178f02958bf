"""Padding by a number that is a symbol: one graph for all numbers, and eager's results."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees
from tests.settling import both

FORMS = {
    "indices": "F.pad(torch.arange(3), [0, 1], value=x.shape[0] - 1)",
    "both sides": "F.pad(x, (2, 1), 'constant', x.shape[0])",
    "rows and columns": "F.pad(w, [0, 1, 1, 0], value=2 * x.shape[0])",
    "rows alone": "F.pad(w, [0, 0, 0, 2], value=-x.shape[0])",
    "three dimensions": "F.pad(w[None], (1, 1, 0, 0, 2, 1), value=x.shape[0])",
    "not contiguous": "F.pad(w.t(), (1, 0), value=x.shape[0])",
    "doubles": "F.pad(w.double(), (1, 0), value=x.shape[0])",
    "small numbers": "F.pad(w.int(), (1, 0), value=x.shape[0])",
    "nothing to pad": "F.pad(w[:0], (1, 0, 1, 0), value=x.shape[0])",
    "a sum": "F.pad(w, (1, 0), value=x.shape[0] + w.shape[1]).sum()",
}
AS_STOCK = {
    "reduced numbers": "F.pad(w.bfloat16(), (1, 0), value=x.shape[0])",
    "truths": "F.pad(w > 0, (1, 0), value=x.shape[0])",
    "bytes": "F.pad(w.byte(), (1, 0), value=x.shape[0])",
    "complex numbers": "F.pad(torch.complex(w, w), (1, 0), value=x.shape[0])",
    "images": "F.pad(w.expand(1, 2, 2, 3).contiguous(memory_format=torch.channels_last), (1, 1),"
    " value=x.shape[0])",
    "less": "F.pad(w, (-1, 1), value=x.shape[0])",
    "nothing": "F.pad(w, (0, 0), value=x.shape[0])",
    "by a size": "F.pad(w, (x.shape[0], 1), value=x.shape[0])",
    "a fraction": "F.pad(w, (1, 0), value=x.shape[0] / 2)",
    "a large number": "F.pad(torch.arange(3), (1, 0), value=x.shape[0] * 2**58)",
    "a constant": "F.pad(w, (1, 1), value=2)",
    "no value": "F.pad(w, (1, 1))",
}
SIZES = (3, 4, 7, 5, 9, 2)


def program(form: str) -> str:
    return f"w = torch.arange(6.0).view(2, 3).requires_grad_()\ndef f(x):\n    return {form}\n"


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_one_graph_for_all_numbers(form: str) -> None:
    calls = [torch.ones(size, requires_grad=True) for size in SIZES]
    outcome = agrees(program(form), calls, grad=True)
    assert outcome.graphs == 2


@pytest.mark.parametrize("form", AS_STOCK.values(), ids=AS_STOCK)
def test_what_is_left_to_stock(form: str) -> None:
    agrees(program(form), [torch.ones(size, requires_grad=True) for size in SIZES], grad=True)


def test_fewer_compilations_than_stock() -> None:
    source = "F = torch.nn.functional\n" + program(FORMS["indices"])
    stock, mended = both(source, [(torch.ones(size),) for size in range(2, 42)])
    assert mended.total.compilations == 2 < stock.total.compilations
    assert mended.rest.launches == 20
