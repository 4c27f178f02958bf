"""Each form of control flow: mended as the table says, and the same as eager in every respect."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check
from tests.predication.forms import FORMS, Form

CALLS = [
    torch.tensor(values)
    for values in (
        [1.0, 2.0, 3.0],
        [-1.0, -2.0, -3.0],
        [0.5, -0.25, 0.0],
        [1.0, float("nan"), 2.0],
        [0.0, 0.0, 0.0],
        [1.0, 2.0, 3.0],
    )
]


@pytest.mark.parametrize("form", FORMS, ids=[form.name for form in FORMS])
def test_form(form: Form) -> None:
    check(form.body, CALLS, form.mends, form.declines, form.breaks)
