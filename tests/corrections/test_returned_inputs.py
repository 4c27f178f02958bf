"""Inputs that a graph changes and returns, next to one that it changes out of autograd's sight."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm

BODIES = {
    "itself": "p.data.add_(1); s.add_(1); return s.float()",
    "first": "s.add_(1); t = s.contiguous(); p.data.add_(s); return t",
    "changed again": "p.detach().mul_(2); s.add_(1); return s.mul_(2)",
    "with others": "p.data.add_(s); s.add_(1); return s * 2, s.float(), p.data, s[1:]",
    "two": "q = p.data; q.add_(s); q.mul_(2); s.add_(1); r.sub_(s); return r.float(), s.float()",
    "not changed": "p.data.add_(s); return s.float(), r.contiguous()",
    "in no_grad": "p.data.add_(1)\n    with torch.no_grad():\n        s.add_(1)\n    return s.float()",
    "with history": "p.data.add_(1); s.add_(1); return s.float(), (p * s).sum()",
}


def program(body: str) -> object:
    made: dict[str, object] = {"torch": torch}
    source = f"def f(x, p, s, r):\n    if x.sum() > 0: s = s.add_(3)\n    {body}\n"
    exec(source, made)
    return made["f"]


def lived(f: object) -> list[object]:
    """What calls give, what they leave of their arguments, and which results are arguments."""
    seen: list[object] = []
    p = torch.nn.Parameter(torch.arange(3.0))
    s, r = torch.ones(3), torch.full((3,), 2.0)
    for x in (torch.ones(2), torch.ones(2), -torch.ones(2)):
        given = f(x, p, s, r)  # type: ignore[operator]
        results = given if isinstance(given, tuple) else (given,)
        for result in results:
            same = [result is one for one in (p, s, r)]
            seen += [result.detach().tolist(), result.requires_grad, same]
            if result.requires_grad:
                result.backward()
        seen += [p.tolist(), s.tolist(), r.tolist(), None if p.grad is None else p.grad.tolist()]
    return seen


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_frame_gets_them(body: str, backend: str) -> None:
    expected = lived(program(body))
    with gm.enabled(cache=False):
        found = lived(torch.compile(program(body), backend=backend))
        report = gm.report()
    assert found == expected
    assert report.compiled.breaks == 0
