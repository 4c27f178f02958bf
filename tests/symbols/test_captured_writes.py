"""A number that is captured makes one graph of two: what AOTAutograd does with writes in one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch._functorch.config
import torch._inductor.config

import graphmend_bc as gm


@pytest.fixture(autouse=True)
def no_caches() -> Iterator[None]:
    """On torch 2.15 they give a graph that was compiled for inputs that share memory otherwise."""
    with (
        torch._inductor.config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield


AOT = pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])


@AOT
@pytest.mark.parametrize("in_order", [True, False])
def test_inputs_that_share_memory_in_a_later_call(in_order: bool, backend: str) -> None:
    def f(x, s, r):
        s.add_(1)
        y = x * x.sum().item()
        r.mul_(2)
        return y, s + 0

    def lived(f: object) -> list[object]:
        seen = []
        s, r = torch.ones(3), torch.arange(3.0)
        pairs = [(s, r), (s, s.view(3)), (s, r), (s.view(3), s[1:])]
        for first, second in pairs if in_order else reversed(pairs):
            results = f(torch.ones(2), first, second)  # type: ignore[operator]
            seen += [t.tolist() for t in (*results, s, r)]
        return seen

    expected = lived(f)
    with gm.enabled(cache=False):
        assert lived(torch.compile(f, backend=backend)) == expected
        assert gm.report().compiled.breaks == 0


@AOT
@pytest.mark.parametrize("write", ["p.mul_(2)", "p.add_(x)", "p.data.mul_(2)"])
@pytest.mark.parametrize("first", [True, False])
def test_gradient_of_what_is_written_before_the_number(
    write: str, first: bool, backend: str
) -> None:
    number, written = "y = x * x.sum().item()", f"with torch.no_grad(): {write}"
    lines = [written, number] if first else [f"y = x * 1\n    {written}", "y = y * x.sum().item()"]
    made: dict[str, object] = {"torch": torch}
    body = "\n    ".join(lines)
    exec(f"def f(x, p):\n    {body}\n    return (p * y * p).sum()\n", made)

    def lived(f: object) -> list[object]:
        seen = []
        p = torch.nn.Parameter(torch.arange(3.0))
        for x in (torch.ones(3), torch.full((3,), 2.0), torch.ones(3)):
            p.grad = None
            loss = f(x, p)  # type: ignore[operator]
            loss.backward()
            seen += [loss.item(), p.tolist(), p.grad.tolist()]
        return seen

    expected = lived(made["f"])
    with gm.enabled(cache=False):
        assert lived(torch.compile(made["f"], backend=backend)) == expected
