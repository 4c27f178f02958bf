"""Arms that write in place: to a copy that is written back, or speculated on."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check
from tests.releases import since

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN, UP, torch.tensor([float("nan"), 0.0, -0.0])]


@pytest.mark.parametrize(
    "arm",
    [
        "y.mul_(0.5)",
        "y *= 0.5",
        "y = y.mul_(0.5).add_(1)",
        "y.clamp_(max=1); y += 1",
        "y[0] = 7",
        "y[1:] += x[1:]",
        "y[1:].mul_(2)",
        "y.masked_fill_(y > 1, 9.0)",
        "torch.relu_(y)",
        "F.relu(y, inplace=True)",
        "u = y + 1; y.mul_(2); y.add_(u)",
        "y.copy_(x)",
        "y.zero_()",
        "y.div_(0.0)",
        "y.mul_(2) if y[0] > 0.5 else y.add_(3)",
        "u = y + 1; u.mul_(2); y.sub_(u)",
    ],
)
@pytest.mark.parametrize("other", ["pass", "y.add_(1)", "y[2] = 0"])
def test_writes_to_tensors_of_the_graph(arm: str, other: str) -> None:
    conditional = " if " in arm
    check(
        f"""
        def f(x):
            y = x * 3
            z = x
            head = y[:1]
            if x.sum() > 0:
                {arm}
            else:
                {other}
            return y + 1, y, head, z
        """,
        BOTH,
        mends="where@5" + " where@6" * conditional,
    )


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_writes_with_other_backends(backend: str) -> None:
    check(
        """
        def f(x, w):
            y = torch.relu(x @ w)
            if y.max() > 2:
                y.mul_(0.5)
                y[0] += 1
            k = y.sum()
            if k > 3:
                y -= 1
            return y @ w, k
        """,
        [(torch.eye(3) * s, torch.ones(3, 3)) for s in (1.0, 4.0, 0.5)],
        mends="where@3 where@7",
        backend=backend,
        orders=1,
    )


def test_layers() -> None:
    check(
        """
        layers = [nn.Linear(3, 3).requires_grad_(False) for _ in range(4)]

        def f(x):
            for layer in layers:
                x = layer(x)
                if x.max() > 0.2:
                    x.clamp_(max=0.2)
            return x
        """,
        BOTH,
        mends="where@6",
    )


def test_the_condition_is_kept_as_it_was() -> None:
    check(
        """
        def f(x):
            y = x * 2
            c = y[0] > 0
            d = y > 0
            if c:
                y.neg_()
                d.logical_not_()
            if c:
                y += 10
            if d[0]:
                y += 100
            return y, c, d
        """,
        BOTH,
        mends="where@5 where@8 where@10",
    )


def test_effects_around_a_write_show_what_was_there() -> None:
    check(
        """
        def f(x):
            y = x * 2
            print(y)
            if x.sum() > 0:
                y.mul_(5)
            print(y)
            return y
        """,
        BOTH,
        mends="defer@3 where@4 defer@6",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "arm", "taken"),
    [
        ("y = x", "y.mul_(2)", "speculate@4"),
        ("y = x[1:]", "y.mul_(2)", "speculate@4"),
        ("y = x * 1; h = y[1:]", "h.mul_(2); y.add_(1)", "speculate@4"),
        ("y = (x * 1)[:1].expand(3)", "y.mul_(2)", "speculate@4"),
        ("y = x * 1", "y.mul_(2); print(y)", "speculate@4 defer@5"),
        ("y = x * 1", "y.mul_(2); h = y[1:]; y = h", "speculate@4"),
        ("y = x * 1", "y.unsqueeze_(0)", ""),
        ("y = x * 1", "y.random_(3)", "speculate@4"),
        ("y = (x * 1).long()", "y.floor_divide_(y)", "speculate@4"),
        ("y = x * 1; at = (x * 0).long() + 1", "y[at] = 3.0", "speculate@4"),
    ],
)
def test_other_writes_are_guessed(before: str, arm: str, taken: str) -> None:
    """Or raise, as `mul_` on an expanded tensor does; whatever eager Python does."""
    check(
        f"""
        def f(x):
            x = x.clone() if x.dim() > 1 else x
            {before}
            if x.sum() > 0:
                {arm}
            return y + 1, y
        """,
        BOTH,
        # The first call chooses the way that is traced.
        mends={"forward": taken, "reversed": taken or "speculate@4"},
        declines=None,
        breaks=None,
    )


def test_under_grad_it_is_speculated_on() -> None:
    check(
        """
        def f(x):
            y = x * 2
            z = y * y
            if x.sum() > 0:
                with torch.no_grad():
                    y.mul_(2)
            return z + x
        """,
        [UP.clone().requires_grad_(), DOWN.clone().requires_grad_()],
        mends="speculate@4",
        declines=None,
        breaks=None,
        grad=True,
    )


def test_saved_for_backward_before_grad_mode_is_switched_off() -> None:
    check(
        """
        def f(x):
            m = torch.ones(3)
            z = x * m
            with torch.no_grad():
                if x.sum() > 0:
                    m.mul_(2)
            return z
        """,
        [DOWN.clone().requires_grad_(), DOWN.clone().requires_grad_()],
        mends="speculate@5",
        declines=None,
        breaks=None,
        grad=True,
    )


@pytest.mark.parametrize(
    ("made", "arm"),
    [
        ("x * 2", "y[:2] += y[1:]"),
        ("x * 2", "y[1:].copy_(y[:2])"),
        ("x * 2", "y[:1].expand(3).add_(1)"),
        ("x.half()", "y.fill_(1e6)"),
        ("x.half()", "y = y.masked_fill(y > 1, -1e9)"),
        ("x.half()", "y = y.clamp(max=1e9)"),
        ("x.half()", "y = torch.add(y, y, alpha=1e9)"),
        ("x.half()", "y = F.pad(y[1:], (0, 1), value=1e9)"),
        ("x.to(torch.int8)", "y.fill_(float('nan'))"),
        ("x.to(torch.int8)", "y = torch.full((3,), 1000, dtype=torch.int8)"),
        ("x.to(torch.int8)", "y = y.round(decimals=1)"),
        ("x.to(torch.int32)", "y = torch.softmax(y, 0)"),
        ("torch.complex(x, x)", "y = torch.relu(y)"),
        ("x > 0", "y = y.abs()"),
        *([] if since(2, 14) else [("x * 2", "y = F.celu(y, 0.0)")]),  # no kernel refuses it
    ],
)
def test_what_only_the_kernel_refuses_does_not_run_untaken(made: str, arm: str) -> None:
    """Where the graph changes an input, what an arm raises could not be rolled back."""
    check(
        f"""
        def f(x):
            x.add_(1)
            y = {made}
            if x.sum() > 0:
                {arm}
            return y
        """,
        [UP, DOWN * 2],
        mends="cond@4" if arm.startswith("y = ") else "speculate@4",
        declines=None,
        breaks=None,
    )


@pytest.mark.parametrize(
    "arm", ["y[0] = y[1]", "y[1:] = y[0]", "y *= y", "y.fill_(float('inf'))", "y.clamp_(max=1e9)"]
)
def test_writes_that_cannot_fail(arm: str) -> None:
    check(
        f"""
        def f(x):
            y = x * 2
            if x.sum() > 0:
                {arm}
            return y
        """,
        BOTH,
        mends="where@3",
    )


def test_the_version_of_a_tensor_that_may_be_written() -> None:
    check(
        """
        def f(x):
            y = x * 2
            if x.sum() > 0:
                y.mul_(2)
            return y._version, y
        """,
        BOTH,
        mends="speculate@3",
        declines=None,
    )
