"""Attributes of tensors that operators return as they are, under each name of the tensor."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

UP = torch.tensor([1.0, 2.0, 3.0])
DOWN = -UP

PROGRAMS = {
    "read": "y = h.contiguous()\nreturn x * y.tag",
    "read with a default": "y = h.float()\nreturn x * getattr(y, 'tag', 5)",
    "asked for": "y = h.to(torch.float32)\nreturn x * (2 if hasattr(y, 'tag') else 5)",
    "not there": "y = h.contiguous()\nreturn x * getattr(y, 'other', 5)",
    "written before": "y = h.contiguous()\nh.tag = 7\nreturn x * y.tag, h.tag",
    "written to the copy": "y = h.contiguous()\ny.tag = y.tag + 2\nreturn x * h.tag, h.tag, y.tag",
    "of what is made here": "y = x + 1\nz = y.contiguous()\ny.tag = 4\nreturn x * z.tag",
    "returned by a write": "y = h.mul_(1)\ny.tag = 9\nreturn x * h.tag",
    "of a view": "y = h.view(-1)\nreturn x * getattr(y, 'tag', 5)",
    "of what is no copy for once": "y = h.to(x.dtype)\nreturn x * getattr(y, 'tag', 5)",
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_attributes(name: str, backend: str) -> None:
    body = PROGRAMS[name].replace("\n", "\n    ")
    source = f"h = torch.ones(3)\nh.tag = 3\n\ndef f(x):\n    {body}\n"
    check(
        source, [UP, DOWN, UP.double(), UP], mends=None, declines=None, breaks=None, backend=backend
    )


@pytest.mark.parametrize("convert", ["to(dtype=x.dtype, device=x.device)", "contiguous()"])
@pytest.mark.parametrize("persistent", [True, False])
def test_a_buffer_that_is_brought_to_where_the_input_is(convert: str, persistent: bool) -> None:
    check(
        f"""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Buffer(torch.arange(3.0), persistent={persistent})

            def forward(self, x):
                self.table = self.table.{convert}
                return x + self.table

        model = Model()

        def f(x):
            return model(x)
        """,
        [UP, DOWN, UP],
        breaks=0,
        mends="",
        declines="",
    )
