"""Results that are one object in eager Python are one object, also with writes in place."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees

X = torch.tensor([1.0, 2.0, 3.0])
BEFORE = """
class Box: pass
box, W = Box(), torch.zeros(3)
def increased(t):
    t.add_(1)
    return t
"""
FORMS = {
    "input": "y = x.add_(1)\n{mended}\nreturn y, x",
    "input twice": "{mended}\nx.mul_(2)\nreturn [x, x, x.view_as(x)]",
    "new": "y = (x * 2).add_(1)\n{mended}\nreturn y, y, {{'y': y}}",
    "callee": "y = x + 1\n{mended}\nreturn increased(y), y",
    "view": "v = x[0]\n{mended}\nv.zero_()\nreturn v, v, x",
    "out": "y = torch.empty(3)\nz = torch.add(x, 1, out=y)\n{mended}\nreturn y, z",
    "global": "W.add_(x)\n{mended}\nreturn W, W",
    "attribute": "y = x * 2\nbox.a = box.b = y.add_(1)\n{mended}\nreturn box.a, box.b",
    "chosen": "y = x + 1 if x.sum() > 0 else x - 1\n{mended}\ny.add_(1)\nreturn y, y",
    "data": "d = x.data\nd.add_(1)\n{mended}\nreturn x, d, d",
}
MENDS = {
    "effect": "print(x.sum())",
    "speculation": "if x.sum() > 1000: raise ValueError('large')",
    "number": "box.n = x.sum().item()",
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("mended", MENDS.values(), ids=MENDS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_is_one_object(form: str, mended: str, backend: str) -> None:
    body = "".join(f"    {line}\n" for line in form.format(mended=mended).splitlines())
    outcome = agrees(f"{BEFORE}\ndef f(x):\n{body}", [X, X, -X], backend=backend, orders=1)
    assert outcome.mends or outcome.declines
