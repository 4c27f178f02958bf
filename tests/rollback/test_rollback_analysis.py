"""What is left of a graph whose results are thrown away: nothing, or the site is declined."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.legality import ops
from tests.backends import EAGER_AND_AOT
from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN, UP]


@pytest.mark.parametrize(
    "statement",
    ["x.add_(1)", "x[1:].mul_(2)", "y = F.dropout(x)", "y = y + torch.rand(3); x.copy_(y)"],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_rolled_back_on_a_miss(statement: str, backend: str) -> None:
    check(
        f"""
        buffer = torch.zeros(3)

        def f(x):
            y = x + 1
            {statement}
            buffer.add_(y)
            if x.sum() < 0:
                raise ValueError(f"negative {{y}} {{torch.rand(1)}}")
            return y * 2 + torch.rand(3)
        """,
        BOTH,
        mends="speculate@7",
        backend=backend,
    )


def test_writes_before_a_callee_that_speculates() -> None:
    check(
        """
        seen = torch.zeros(3)

        class Box:
            value = torch.ones(3)

            def twice(self, x):
                if x.sum() > 0:
                    self.value = x * 2
                return self.value + x

        box = Box()

        def f(x):
            b = x * 2
            seen.add_(torch.rand(3))
            box.twice(b)
        """,
        [DOWN, UP, UP * 0, DOWN],
        mends="speculate@7",
    )


@pytest.mark.parametrize("view", ["torch.cat([x, x])[::2]", "x[1:]", "torch.stack([x, x]).t()"])
def test_inputs_that_are_part_of_their_memory_are_rolled_back(view: str) -> None:
    check(
        """
        def f(x):
            x.add_(1)
            if x.sum() < 0:
                raise ValueError("negative")
            return x * 2
        """,
        [eval(view, {"torch": torch, "x": x}) for x in BOTH],
        mends="speculate@3",
    )


def test_writes_with_an_autograd_history_are_not_rolled_back() -> None:
    check(
        """
        w = nn.Parameter(torch.ones(3))

        def f(x, y):
            if x.sum() > 0:
                y[0].copy_(w * x)
            return x
        """,
        [(x, torch.ones(2, 3)) for x in BOTH],
        "",
        "speculation-writes-input@4",
        None,
    )


def test_what_is_too_large_to_be_rolled_back() -> None:
    with gm.config.patch(snapshot_limit=8):
        check(
            """
            def f(x):
                x.add_(1)
                if x.sum() < 0:
                    raise ValueError("negative")
                return x * 2
            """,
            BOTH,
            declines="speculation-writes-input@3",
            breaks=1,
        )


@pytest.mark.parametrize("statement", ["x.t_()", "x.unsqueeze_(0)", "x.mul_(w)"])
def test_what_cannot_be_rolled_back(statement: str) -> None:
    check(
        f"""
        def f(x, w):
            {statement}
            if x.sum() < 0:
                raise ValueError("negative")
            return x * 2 + w
        """,
        [(x.reshape(1, 3), UP.clone().requires_grad_()) for x in BOTH],
        # torch breaks the graph at an in-place change of a shape; the branch is speculated on after it.
        mends="" if statement == "x.mul_(w)" else "speculate@3",
        declines=None,
        breaks=None,
    )


@pytest.mark.parametrize("known", [False, True])
def test_custom_operator_is_run_twice_if_it_is_known(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, runs = f"graphmend_bc_test::count_{known}".lower(), list[int]()
    monkeypatch.setattr(ops, "FOREIGN", {name} if known else set())

    @torch.library.custom_op(name, mutates_args=())
    def count(x: torch.Tensor) -> torch.Tensor:
        runs.append(1)
        return x.clone()

    @count.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = count(x)
        if x.sum() < 0:
            raise ValueError("negative")
        return y

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        compiled(UP)
        runs.clear()
        with pytest.raises(ValueError, match="negative"):
            compiled(DOWN)
    assert runs == [1] * (1 + known)
    declines = [d.reason for d in gm.report().declines]
    assert declines == ([] if known else ["speculation-has-effects"])


@pytest.mark.parametrize(
    ("body", "watched"),
    [
        ("return x * 2 if x.sum() > 0 else x + 1", False),
        ("y = x * 2 if x.sum() > 0 else x + 1; return [y, {1: y}]", False),
        ("y = x * 2 if x.sum() > 0 else x + 1; seen.append(1); return y", True),
        ("with torch.no_grad(): return x * 2 if x.sum() > 0 else x + 1", False),
        ("try:\n        return x * 2 if x.sum() > 0 else x + 1\n    finally: pass", True),
    ],
)
def test_calls_pay_for_the_way_back_only_where_something_could_be_lost(
    body: str, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(
        "graphmend_bc.engine.frame_compiler.add_deopt_wrapper", lambda *args: given.append(args)
    )
    scope: dict[str, Any] = {"torch": torch, "seen": []}
    exec(f"def f(x):\n    {body}", scope)
    with gm.enabled():
        torch.compile(scope["f"], backend="eager")(UP)
    assert bool(given) is watched


@pytest.mark.parametrize("body", ["x * 2", "x * torch.rand(3)", "x.add_(1)", "F.dropout(x, 0.5)"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_around_a_function_with_a_backward_of_its_own(body: str, backend: str) -> None:
    outcome = check(
        f"""
        class Own(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                {"ctx.mark_dirty(x)" if "_(" in body else "pass"}
                return {body}

            @staticmethod
            def backward(ctx, grad):
                return grad * 3

        def f(x):
            y = Own.apply(x * 1)
            if y.sum() < -5:
                raise ValueError("below")
            return y * 2
        """,
        [t.requires_grad_() for t in (torch.ones(3), torch.full((3,), -4.0), torch.zeros(3))],
        mends="speculate@13",
        declines=None,
        breaks=None,
        grad=True,
        backend=backend,
    )
    if "_(" not in body:
        assert outcome.mends == "speculate@13"


@pytest.mark.parametrize("shared", [True, False])
def test_inputs_share_memory_in_one_call_only(shared: bool) -> None:
    """What a graph writes to is put back, whatever it shared memory with when it was traced."""
    whole, other = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0])
    views = (whole[1:], other) if shared else (other, whole[1:])
    check(
        """
        def f(x, part, y):
            z = part * 2
            y.add_(1)
            n = 1
            if x > 0:
                n = 2
            return z, y * n
        """,
        [(torch.tensor(1.0), views[0], whole), (torch.tensor(-1.0), views[1], whole)],
        "speculate@5",
    )


@EAGER_AND_AOT
def test_a_leaf_that_is_written_without_a_gradient_is_put_back(backend: str) -> None:
    """Under `no_grad` it stays a leaf, so a graph that raises can be rolled back."""
    leaf = torch.ones(2, 3, requires_grad=True)
    calls = [(UP, leaf, torch.tensor([0, 1, 2])), (DOWN, leaf, torch.tensor([3, 1, 2]))]
    check(
        """
        state = {"n": 0}

        def f(x, y, z):
            with torch.no_grad():
                state["n"] += 1
                y[z.argmax() % 2].add_(x)
                z = 6 // z
            return x * 2 + z
        """,
        calls,
        mends="capture@6",
        backend=backend,
        grad=True,
    )


@pytest.mark.slow
def test_one_of_several_views_whose_base_was_changed() -> None:
    """torch raises where it is asked for the history of such a view."""
    rows = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], requires_grad=True)
    check(
        """
        def f(x, y, z, k):
            for b in y:

                def inner(x):
                    nonlocal b
                    b = x
                    with torch.no_grad():
                        y[z.argmax() % 2].add_(x)
                        y[:, z[0].clamp(0, 2)] = k
                        b = x.detach()
                    return b

                if x[x > 0].numel() == 0:
                    if x.sum() > k:
                        y = y
                    return inner(b)
                else:
                    z = z if inner(x)[inner(x) > 0].numel() == 0 else z
                o = [n + 1 for n in (z + 1).tolist()]
            x = x
            return x
        """,
        [(x.clone().requires_grad_(), rows, torch.tensor([0, 1, 2]), 2) for x in (DOWN, UP)],
        # Each order goes another way first, and meets the writes there.
        mends={
            "forward": "",
            "reversed": "capture@8 capture@9",
            "twice": "capture@8 capture@9",
            "both ways": "capture@8 capture@9",
        },
        declines=None,
        breaks=None,
        grad=True,
    )
