"""Branches of which one arm raises: the other arm is compiled alone and checked after the graph."""

from __future__ import annotations

import textwrap
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.legality import ops
from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN, UP]


@pytest.mark.parametrize(
    "statement",
    [
        "raise ValueError(f'bad {x.shape} {x.sum()}')",
        "raise Custom('a', 3)",
        "raise Custom('a', 3) from KeyError(1)",
        "raise Custom",
        "print('failing', x); raise Custom(x.sum().item())",
    ],
)
def test_raise_guards(statement: str) -> None:
    check(
        f"""
        class Custom(Exception):
            pass

        def f(x):
            y = x + 1
            if x.sum() < 0:
                {statement}
            return y * 2
        """,
        BOTH,
        mends="speculate@6",
    )


def test_guard_with_else_and_short_circuit() -> None:
    check(
        """
        def f(x, strict):
            if strict and (torch.isnan(x).any() or x.max() > 100):
                raise ValueError("not finite")
            elif x.sum() > 0:
                x = x * 2
            else:
                x = x - 1
            return x + 1
        """,
        [(x, s) for x in (UP, DOWN, UP * float("nan"), UP * 99) for s in (True, False)],
        mends="speculate@2 where@4",
    )


def test_assert_with_a_computed_message() -> None:
    check(
        """
        def f(x):
            y = x + 1
            assert (y < 3.5).all(), f"too large: {x.max()}"
            return y * 2
        """,
        [UP * 0.1, UP, UP * 0.1],
        mends="speculate@3",
    )


def test_guard_in_a_callee_and_in_a_loop() -> None:
    check(
        """
        def guard(x, i):
            if x.max() > 5:
                raise OverflowError(f"step {i}: {x.max()}")
            return x

        def f(x):
            for i in range(4):
                x = guard(x * 2, i)
                print(i, x)
            return x
        """,
        [UP * 0.01, UP * 0.2, UP * 0.01],
        mends="speculate@2 defer@9",
    )


def test_guard_inside_the_users_try() -> None:
    check(
        """
        def f(x):
            try:
                if x.sum() < 0:
                    raise ValueError("negative")
                y = x + 1
            except ValueError as error:
                print("caught", error)
                y = x - 1
            return y * 2
        """,
        BOTH,
        mends="speculate@3",
    )


def test_guard_in_an_arm_counts_only_if_the_arm_is_taken() -> None:
    check(
        """
        def f(x):
            y = x + 1
            if x.sum() > 0:
                if x.max() > 2:
                    raise ValueError("large")
                y = y * 2
            return y
        """,
        [UP * 0.1, UP, DOWN, torch.tensor([-9.0, 3.0, 1.0])],
        mends="where@3 speculate@4",
    )


def test_several_guards_and_state() -> None:
    check(
        """
        seen = []

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.calls = 0

            def forward(self, x, *rest, scale=2, **more):
                self.calls += 1
                seen.append(len(rest))
                if torch.isnan(x).any():
                    raise ValueError("nan")
                if x.min() < 0:
                    raise ValueError("negative")
                return x * scale + more["bias"]

        model = Model()

        def f(x):
            return model(x + 1, 5, 6, scale=3, bias=1)
        """,
        [UP, DOWN, UP * float("nan"), UP],
        mends="speculate@11 speculate@13",
    )


def test_closure_cells_reach_the_original_code() -> None:
    check(
        """
        def make(limit):
            def inner(x):
                get = lambda: x * limit
                if x.sum() > limit:
                    raise ValueError(f"{limit} {get()}")
                return get() + 1
            return inner

        f = make(3)
        """,
        [UP * 0.1, UP, UP * 0.1],
        mends="speculate@4",
    )


def test_gradients_of_the_likely_arm() -> None:
    check(
        """
        w = nn.Parameter(torch.ones(3))

        def f(x):
            y = (x * w).exp()
            if torch.isinf(y).any():
                raise FloatingPointError("overflow")
            return y
        """,
        [UP, UP * 1000, UP.clone().requires_grad_()],
        mends="speculate@5",
        grad=True,
    )


def test_in_a_resume_function() -> None:
    check(
        """
        def f(x):
            y = x + 1
            torch._dynamo.graph_break()
            if y.sum() < 0:
                raise ValueError(f"{y}")
            return y * 2
        """,
        BOTH,
        mends="speculate@4",
        declines="call-not-traced@3",
        breaks=1,
    )


@pytest.mark.parametrize(
    "statement",
    ["x.add_(1)", "x[1:].mul_(2)", "y = F.dropout(x)", "y = y + torch.rand(3); x.copy_(y)"],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_taken_back_on_a_miss(statement: str, backend: str) -> None:
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


def test_writes_before_a_callee_that_guesses() -> None:
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
def test_inputs_that_are_part_of_their_memory_are_taken_back(view: str) -> None:
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


def test_writes_with_an_autograd_history_are_not_taken_back() -> None:
    check(
        """
        w = nn.Parameter(torch.ones(3))

        def f(x, y):
            if x.sum() > 0:
                y[0].copy_(w * x)
            return x
        """,
        [(x, torch.ones(2, 3)) for x in BOTH],
        None,
        "speculation-writes-input@4",
        None,
    )


def test_what_is_too_large_to_be_taken_back() -> None:
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
def test_what_cannot_be_taken_back(statement: str) -> None:
    check(
        f"""
        def f(x, w):
            {statement}
            if x.sum() < 0:
                raise ValueError("negative")
            return x * 2 + w
        """,
        [(x.reshape(1, 3), UP.clone().requires_grad_()) for x in BOTH],
        mends=None,
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
    "body",
    [
        """
        k = 1
        if x.any().item():
            k = helper(x)
        """,
        """
        if x.sum() < 100:
            k = helper(x)
        else:
            k = 2
        """,
        """
        k = 1
        if x.sum() < 9:
            k = torch.cat([x, x[:, None]]).sum()
        """,
    ],
    ids=["value", "condition", "error"],
)
def test_a_way_that_does_not_trace_is_guessed_not_to_be_taken(body: str) -> None:
    zero, source = torch.zeros(3), textwrap.indent(textwrap.dedent(body), "    ")
    for calls in ([1000 * UP, 1000 * UP], [zero, zero], [UP, zero, 1000 * UP]):
        outcome = check(
            "def helper(x):\n    torch._dynamo.graph_break()\n    return 2\n"
            f"def f(x):{source}    return x * k\n",
            calls,
            None,
            None,
            None,
        )
        assert "speculate@" in outcome.mends


def test_given_up_after_too_many_misses() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() < 0:
            raise ValueError("negative")
        return x + 1

    with gm.config.patch(miss_limit=3), gm.enabled():
        compiled = torch.compile(f, backend="eager")
        for _ in range(6):
            with pytest.raises(ValueError, match="negative"):
                compiled(DOWN)
            assert torch.equal(compiled(UP), UP + 1)
        reasons = [d.reason for d in gm.report().declines]
    assert reasons == ["speculation-missed"]


def test_exported_programs_have_no_check() -> None:
    class Guarded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() < 0:
                raise ValueError("negative")
            return x + 1

    with gm.enabled(), pytest.raises(Exception, match="branch"):
        torch.export.export(Guarded(), (UP,), strict=True)
    assert [d.reason for d in gm.report().declines] == ["under-export"]


def test_with_inductor() -> None:
    check(
        """
        def f(x):
            y = x + 1
            if torch.isnan(y).any():
                raise ValueError("nan")
            return y * 2
        """,
        [UP, UP * float("nan"), DOWN],
        mends="speculate@3",
        backend="inductor",
        orders=1,
    )


def test_traceback_shows_the_users_lines() -> None:
    def guard(x: torch.Tensor) -> torch.Tensor:
        if x.sum() < 0:
            raise ValueError("negative")
        return x

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return guard(y) * 2

    def entries(function: Callable[..., Any]) -> list[tuple[str, int | None]]:
        try:
            function(DOWN * 2)
        except ValueError as error:
            found = traceback.extract_tb(error.__traceback__)
            return [(e.name, e.lineno) for e in found if e.filename == __file__][1:]
        raise AssertionError("It should have raised.")

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        compiled(UP)
        # Before them stands the generated code, which called the original.
        assert entries(compiled)[1:] == entries(f) != []


@pytest.mark.parametrize(
    "between",
    [
        "if x.sum() > 0: x = x * 2",
        "if x.sum() > 0: x = x",
        "if x.sum() > 0: x = x * torch.rand(3)",
        "print(x)",
    ],
)
def test_what_was_set_before_a_graph_raises_is_kept(between: str) -> None:
    """Stock breaks the graph between the write and the operator that raises."""
    check(
        f"""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0
                self.seen = []

        net = Net()

        def f(x, at):
            net.count += 1
            net.seen.append(x.shape)
            {between}
            return x[at]
        """,
        [(UP, torch.tensor([0])), (UP, torch.tensor([7])), (-UP, torch.tensor([0, 9]))],
        mends=None,
        breaks=0,
    )


@pytest.mark.parametrize(
    "branch",
    [
        "y = y * 2 if x.sum() > 0 else y - 1",
        "print(x)",
        "y = x if y[0] > 1 else x.add_(1)",
        "x.add_(1); y = y * 2 if x.sum() > 0 else y - 1",
    ],
)
def test_a_handler_catches_what_a_mended_graph_raises(branch: str) -> None:
    """Stock breaks the graph between the handler's `try` and the operator that raises."""
    check(
        f"""
        def inner(x, at):
            y = x + 1
            try:
                {branch}
                y = x[at]
            except IndexError as error:
                print("handled", type(error).__name__)
            else:
                print("picked", y)
            return y

        def f(x, at):
            with torch.no_grad():
                return inner(x, at) + 1
        """,
        [(UP, torch.tensor([0])), (UP, torch.tensor([7])), (-UP, torch.tensor([0, 9]))],
        mends=None,
        breaks=0,
    )


@pytest.mark.parametrize(
    ("body", "watched"),
    [
        ("return x * 2 if x.sum() > 0 else x + 1", False),
        ("y = x * 2 if x.sum() > 0 else x + 1; return [y, {1: y}]", False),
        ("y = x * 2 if x.sum() > 0 else x + 1; seen.append(1); return y", True),
        ("with torch.no_grad(): return x * 2 if x.sum() > 0 else x + 1", True),
    ],
)
def test_calls_pay_for_the_way_back_only_where_something_could_be_lost(
    body: str, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr("graphmend_bc.frame.give_way_back", lambda *args: given.append(args))
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
        mends=None,
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
