"""`torch.func` transforms and activation checkpointing, around the sites and beside them."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check
from tests.releases import STOCK_RAISES, since

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]
LEAVES = [UP.clone().requires_grad_(), DOWN.clone().requires_grad_()]

TRANSFORMS = [
    "torch.func.grad(h)(x)",
    "torch.func.jvp(h, (x,), (x,))",
    "torch.func.vjp(h, x)[1](torch.ones([]))",
    "torch.func.jacrev(h)(x)",
    "torch.func.hessian(h)(x)",
]
FORWARD_MODE = (TRANSFORMS[1], TRANSFORMS[4])


@pytest.mark.slow
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transform_beside_sites(transform: str) -> None:
    check(
        f"""
        def h(a):
            return (a ** 3).sum()

        def f(x):
            y = {transform}
            if x.sum() > 0:
                x = x * 2
            if x.max() > 5:
                return y, None
            return y, x + 1
        """,
        BOTH,
        mends="speculate@8" if transform in FORWARD_MODE else "where@6 speculate@8",
        declines=None,
        breaks=None,
    )


@pytest.mark.slow
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_sites_inside_a_transform(transform: str) -> None:
    if transform == "torch.func.grad(h)(x)" and not since(2, 13):
        pytest.skip(STOCK_RAISES)
    outcome = check(
        f"""
        def h(a):
            if a.sum() > 0:
                a = a * 2
            return (a ** 3).sum()

        def f(x):
            return {transform}
        """,
        BOTH,
        declines=None,  # Dynamo breaks in torch's own code as well
        breaks=None,
    )
    assert outcome.breaks > 0
    assert "inside-transform@2" in outcome.declines


def body(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        x = x * 2
    return (x**2).sum()


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev, torch.func.hessian])
def test_transform_of_a_compiled_function(transform: object) -> None:
    with gm.enabled():
        for x in BOTH:
            found = transform(torch.compile(body, backend="eager"))(x)  # type: ignore[operator]
            assert torch.equal(found, transform(body)(x))  # type: ignore[operator]
        assert not gm.report().mends


def test_vmap_refuses_as_in_eager() -> None:
    check(
        """
        def f(x):
            return torch.func.vmap(lambda a: a * 2 if a.sum() > 0 else a)(x)
        """,
        [torch.stack(BOTH)],
        declines=None,
        breaks=3,
    )


CHECKPOINTED = """
from torch.utils.checkpoint import checkpoint

layer = nn.Linear(3, 3)

def h(a):
    a = layer(a)
    {site}
    return a ** 2

def f(x):
    y = checkpoint(h, x, use_reentrant={reentrant})
    if y.sum() > 10:
        y = y + 1
    return y
"""


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sites_inside_a_checkpoint(reentrant: bool, backend: str) -> None:
    check(
        CHECKPOINTED.format(site="if a.sum() > 0: a = a * 2", reentrant=reentrant),
        LEAVES,
        mends="speculate@7 speculate@12",
        grad=True,
        backend=backend,
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sites_inside_a_checkpoint_that_draws(backend: str) -> None:
    """The backend "eager" draws new numbers in the recomputation, in stock too."""
    site = "if a.sum() > 0: a = a * 2\n    a = F.dropout(a, 0.5)"
    outcome = check(
        CHECKPOINTED.format(site=site, reentrant=False),
        LEAVES,
        mends=None,
        declines=None,
        breaks=None,
        grad=True,
        backend=backend,
    )
    assert "inside-function@7" in outcome.declines


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "site", ["if a.sum() > 0: a = a * 2", "if torch.equal(a, a + 1): a = a * 2", "a = pow(a, 2)"]
)
def test_sites_inside_a_checkpoint_that_counts(site: str, backend: str) -> None:
    """Eager Python counts in the recomputation, too; stock's graph does not."""
    source = CHECKPOINTED.format(site=f"count.add_(1); a = a + count\n    {site}", reentrant=False)
    source = source.replace("layer = ", "count = torch.zeros(())\nlayer = ")
    outcome = check(
        source, LEAVES, mends=None, declines=None, breaks=None, grad=True, backend=backend
    )
    assert outcome.declines in ("inside-function@9", "hoist-not-input@9")


def test_effects_inside_a_checkpoint() -> None:
    """Eager Python has them twice."""
    outcome = check(
        CHECKPOINTED.format(site="print('here', a.sum())", reentrant=False),
        LEAVES,
        mends=None,
        declines=None,
        breaks=None,
        grad=True,
    )
    assert outcome.breaks


def test_sites_beside_a_checkpoint() -> None:
    check(
        CHECKPOINTED.format(site="a = F.dropout(a, 0.5)", reentrant=False),
        LEAVES,
        mends="speculate@12",
        declines="",
        breaks=0,
        grad=True,
        backend="aot_eager",  # "eager" draws new numbers in the backward, in stock too
    )


def test_speculation_beside_a_checkpoint_is_rolled_back() -> None:
    check(
        """
        from torch.utils.checkpoint import checkpoint

        layer = nn.Linear(3, 3)

        def f(x):
            y = checkpoint(layer, F.dropout(x), use_reentrant=False)
            if y.sum() < 0:
                return y, 1
            return y
        """,
        LEAVES,
        mends="speculate@7",
        grad=True,
    )
