"""`x[mask]` where the mask is taken to be true everywhere, because its size must be known."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.backends import EAGER_AND_AOT
from tests.oracle import agrees, check, load

WEIGHT = torch.linspace(-1, 1, 12).view(3, 4)
"""A matrix product is not computed before the graph."""

FULL = torch.tensor([[1.0, 2.0, 3.0], [4.0, -5.0, 6.0]])
HOLE = torch.tensor([[1.0, float("inf"), 3.0], [4.0, -5.0, 6.0]])
NONE = torch.full((2, 3), float("nan"))

HEAD = """
def f(x, w):
    v = x @ w
    mask = v.isfinite()
"""


@EAGER_AND_AOT
@pytest.mark.parametrize(
    "body",
    [
        "    return v[mask].squeeze() * 2",
        "    return v[mask].view(2, -1)\n",
        "    return v[mask].squeeze(), v[mask] + 1, v.t()[mask.t()].sum()",
        "    rows = mask.all(1)\n    return v[rows].squeeze(), v[rows, None].sum(), v[rows, 1:].mean()",
        "    rows = mask.all(1)\n    out = v * 0\n    out[rows] = v[rows].squeeze() + 1\n    return out",
        "    y = v.view(2, 2, 2)\n    m = mask.view(2, 2, 2)\n    return y[m].squeeze(), y[..., m[0, 0]].squeeze()",
        "    return v[mask, None].squeeze()",
    ],
)
def test_forms(body: str, backend: str) -> None:
    calls = [(x, WEIGHT) for x in (FULL, FULL * 2, HOLE, FULL, NONE)]
    agrees(HEAD + body, calls, backend=backend)


def test_gradients() -> None:
    """The operator is the one that eager Python runs, and so is its gradient."""
    calls = [(x.clone().requires_grad_(), WEIGHT) for x in (FULL, -FULL, FULL * 2)]
    check(HEAD + "    return v[mask].squeeze() * 2", calls, mends="speculate@4", grad=True)


def test_one_check_for_all_that_one_mask_selects() -> None:
    calls = [(FULL, WEIGHT), (FULL * 2, WEIGHT)]
    body = "    return v[mask].squeeze() + v[mask] * (v + 1)[mask]"
    assert check(HEAD + body, calls, mends="speculate@4").graphs == 1


@pytest.mark.parametrize("change", ["mask[0] = False", "mask.zero_()", "mask.view(-1)[3:] = False"])
def test_a_mask_that_is_written_to(change: str) -> None:
    body = f"    a = v[mask].squeeze()\n    {change}\n    return a, v[mask].squeeze(), v[mask]"
    agrees(HEAD + body, [(FULL, WEIGHT), (HOLE, WEIGHT), (FULL, WEIGHT)])


def test_a_mask_of_one_arm() -> None:
    """It is full where the arm runs; nothing is known of it elsewhere."""
    agrees(
        HEAD
        + """
    if v.sum() > 0:
        a = v[mask].squeeze() * 2
    else:
        a = v.view(-1)
    return a, v[mask].squeeze()
""",
        [(x, WEIGHT) for x in (FULL, -FULL, HOLE, FULL)],
    )


def test_what_is_known_before_the_graph_is_not_assumed() -> None:
    """Then a mask that is not full costs no failed check."""
    program = """
    def f(x):
        return x[x > 0].squeeze() * 2
    """
    calls = [FULL[0], torch.tensor([1.0, -2.0]), torch.tensor([3.0, 4.0, -1.0])]
    check(program, calls, mends="hoist@2", orders=2)


def test_a_mask_that_is_not_full_is_not_assumed_to_be() -> None:
    program = HEAD + "    return v[mask].squeeze() * 2"
    with gm.enabled():
        torch._dynamo.reset()
        gm.reset()
        f = load(program).f
        compiled = torch.compile(f, backend="eager")
        for _ in range(3):
            assert torch.equal(compiled(HOLE, WEIGHT), f(HOLE, WEIGHT))
        found = gm.report()
    assert not found.speculated.calls
    assert "list-not-full" in str(found)


@pytest.mark.parametrize(
    "body",
    [
        "    return torch.cat([v, v])[rows].squeeze()",
        "    return v[rows[:1]].squeeze()",
        "    s = v[rows].squeeze()\n    return s, torch.cat([v, v])[rows]",
        "    s = v[mask].squeeze()\n    return s, torch.cat([v, v], 1)[mask]",
        """
    s = v[rows].squeeze()
    try:
        return s, torch.cat([v, v])[rows]
    except IndexError:
        return s
""",
    ],
)
def test_a_mask_of_another_shape(body: str) -> None:
    """Indices would do as long as they are in bounds; eager Python raises."""
    agrees(HEAD + "    rows = mask.all(1)\n" + body, [(FULL, WEIGHT), (FULL * 2, WEIGHT)])


def test_rows_whose_number_varies() -> None:
    program = """
    def f(x, w, mask):
        return (x @ w)[mask].squeeze()
    """
    rows = torch.arange(18.0).view(6, 3)
    agrees(program, [(rows[:n], WEIGHT, torch.ones(2, dtype=torch.bool)) for n in (2, 3, 4, 5, 2)])
    masks = [torch.ones(n, dtype=torch.bool) for n in (2, 1, 2, 3, 2)]
    agrees(program, [(rows[:2], WEIGHT, mask) for mask in masks])


@pytest.mark.parametrize(
    "body",
    [
        "    a = v[rows].squeeze()\n    rows.zero_()\n    return a * 2",
        "    return v[rows].squeeze(), rows",
        "    global kept\n    kept = rows.view(-1)\n    return v[rows].squeeze() * 2",
        "    return v[rows].squeeze() * v[rows]",
    ],
)
def test_a_mask_that_autograd_would_save(body: str) -> None:
    """A backward pass of eager Python raises if it was written to by then."""
    calls = [(x.clone().requires_grad_(), WEIGHT) for x in (FULL, FULL * 2)]
    agrees(HEAD + "    rows = mask.all(1)\n" + body, calls, grad=True)


def test_a_mask_that_the_caller_writes_to() -> None:
    program = load(HEAD + "    rows = mask.all(1)\n    return v[rows].squeeze(), rows")
    with gm.enabled():
        torch._dynamo.reset()
        gm.reset()
        compiled = torch.compile(program.f, backend="eager")
        for _ in range(3):
            out, mask = compiled(FULL.clone().requires_grad_(), WEIGHT)
            mask.zero_()
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                out.sum().backward()


METRIC = """
import torch

class Correlation(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        for name in ("xx", "yy", "xy"):
            self.register_buffer(name, torch.zeros(1))

    def forward(self, x, y):
        self.n += 1
        self.xx = self.xx + (x * x).mean().reshape(1)
        self.yy = self.yy + (y * y).mean().reshape(1)
        self.xy = self.xy + (x * y).mean().reshape(1)
        valid = (self.xx > 1e-6) & (self.yy > 1e-6)
        found = torch.full_like(self.xy, float("nan"))
        if valid.any():
            found[valid] = (self.xy[valid] / (self.xx[valid] * self.yy[valid]).sqrt()).squeeze()
            found = torch.clamp(found, -1.0, 1.0)
        return found.squeeze()

def f(x, y, metric=Correlation()):
    return metric(x, y)
"""


def test_a_metric_that_leaves_out_what_is_no_number() -> None:
    """As a coefficient of correlation: whole, and compiled as often as its count is 0, 1, many."""
    f, draws = load(METRIC).f, torch.Generator().manual_seed(0)
    expected = load(METRIC).f
    with gm.enabled(), torch.no_grad():
        torch._dynamo.reset()
        gm.reset()
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for _ in range(20):
            x, y = torch.randn(16, generator=draws), torch.randn(16, generator=draws)
            torch.testing.assert_close(compiled(x, y), expected(x, y), rtol=0, atol=0)
        found = gm.report()
    assert found.compiled.graphs <= 3
    assert found.speculated.failed == 0
