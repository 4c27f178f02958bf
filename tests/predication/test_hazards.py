"""The traps of predication: each is either mended exactly or declined with its reason.

Every program runs twice: with `where` alone, which the expectations are about, and with all
strategies, where it must agree with eager however it is mended.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.code.facts import VERSION
from tests import oracle

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]


def check(source: str, calls: list[Any], **kwargs: Any) -> None:
    with gm.config.patch(strategies=("fold", "where", "defer")):
        oracle.check(source, calls, **kwargs)
    anything = {"mends": None, "declines": None, "breaks": None}  # however it is mended
    oracle.check(source, calls, **{**kwargs, **anything})


def with_grad(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.clone().requires_grad_() for tensor in tensors]


def declined(
    body: str,
    calls: list[Any],
    reason: str,
    line: int = 2,
    breaks: int | None = 1,
    **kwargs: object,
) -> None:
    check(body, calls, declines=f"{reason}@{line}", breaks=breaks, **kwargs)


def test_infinite_derivative_in_the_untaken_arm() -> None:
    body = """
    def f(x):
        if x.sum() > 0:
            y = x.sqrt()
        else:
            y = x * 2
        return y
    """
    declined(body, with_grad(UP, UP * 0, DOWN), "gradient-not-finite", grad=True)


def test_product_with_a_value_that_may_be_infinite() -> None:
    body = """
    def f(x, w):
        if torch.isinf(w).any():
            y = x + w
        else:
            y = x * w
        return y
    """
    calls = [(x, w) for x in with_grad(UP) for w in with_grad(UP, UP / 0)]
    declined(body, calls, "gradient-not-finite", grad=True)


def test_linear_arms_keep_gradients() -> None:
    check(
        """
        def f(x):
            if x.sum() > 0:
                y = x * 2 + 1
            else:
                y = torch.clamp(x - 1, min=-2.5)
            return y
        """,
        with_grad(UP, DOWN, DOWN * float("inf")),
        mends="where@2",
        grad=True,
    )


def test_parameter_of_one_arm_keeps_no_gradient() -> None:
    body = """
    w = nn.Parameter(torch.ones(3))

    def f(x):
        if x.sum() > 0:
            y = x + w
        else:
            y = x * 2
        return y
    """
    calls = [*BOTH, *with_grad(UP)]  # the last one has a graph of its own
    declined(body, calls, "gradient-reach", line=4, breaks=2, grad=True)


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        ("x[i]", "arm-op-unknown"),
        ("torch.gather(x, 0, i)", "arm-op-unknown"),
        ("i // (i - 1)", "arm-may-raise"),
        ("torch.linalg.cholesky(x.reshape(1, 1).expand(1, 1))", "arm-op-unknown"),
    ],
)
def test_partial_operator_in_the_untaken_arm(operator: str, reason: str) -> None:
    body = f"""
    def f(x, i):
        if x.sum() > 0:
            y = ({operator}).sum() + 0.0
        else:
            y = x.sum()
        return y
    """
    calls = [(torch.tensor([1.0]), torch.tensor([0])), (torch.tensor([-1.0]), torch.tensor([7]))]
    declined(body, calls, reason)


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["F.dropout(x)", "x + torch.rand(3)", "torch.rand_like(x)"])
def test_random_numbers_in_an_arm(draw: str) -> None:
    body = f"""
    def f(x):
        if x.sum() > 0:
            x = {draw}
        return x + torch.rand([])
    """
    declined(body, BOTH, "arm-draws-random")


def test_batch_norm_statistics_in_an_arm() -> None:
    body = """
    norm = nn.BatchNorm1d(3)

    def f(x):
        if x.sum() > 0:
            x = norm(x)
        return x + 1
    """
    calls = [UP.repeat(2, 1) * torch.tensor([[1.0], [2.0]]), DOWN.repeat(2, 1)]
    declined(body, calls, "arm-mutates-tensor", line=4)


def test_alias_of_an_input_mutated_later() -> None:
    body = """
    def f(x):
        y = x if x.sum() > 0 else x + 1
        y.add_(5)
        return y * 2
    """
    declined(body, BOTH, "alias-mutated")


def test_alias_of_an_input_returned() -> None:
    body = """
    def f(x):
        if x.sum() > 0:
            return x
        return x + 1
    """
    declined(body, BOTH, "alias-escapes")


def test_view_of_an_intermediate_that_escapes_too() -> None:
    body = """
    def f(x):
        base = x + 1
        y = base.view(3, 1) if x.sum() > 0 else (x + 2).view(3, 1)
        return base, y
    """
    declined(body, BOTH, "alias-escapes", line=3)


@pytest.mark.parametrize(
    "write", ["x.add_(1)", "x[0] = 7", "x.view(3).mul_(2)", "F.relu(x, inplace=True)"]
)
def test_write_in_place_in_an_arm(write: str) -> None:
    body = f"""
    def f(x):
        if x.sum() < 0:
            {write}
        return x + 1
    """
    declined(body, BOTH, "arm-mutates-tensor")


def test_arms_that_would_broadcast() -> None:
    body = """
    def f(x):
        y = x if x.sum() > 0 else x.expand(2, 3)
        return y + 1
    """
    declined(body, BOTH, "arms-differ-in-layout")


def test_arms_that_would_promote() -> None:
    body = """
    def f(x):
        y = x.half() if x.sum() > 0 else x.long()
        return y + 1
    """
    declined(body, BOTH, "arms-differ-in-layout")


def test_arms_that_differ_in_strides() -> None:
    body = """
    def f(x):
        m = x.reshape(3, 1) + x
        y = (m + 1).t() if x.sum() > 0 else m + 2
        return y
    """
    declined(body, BOTH, "arms-differ-in-layout", line=3)


@pytest.mark.parametrize("p", [torch.tensor([True, False, True]), torch.tensor([])])
def test_predicate_without_one_element(p: torch.Tensor) -> None:
    body = """
    def f(x, p):
        if p:
            x = x + 1
        return x * 2
    """
    declined(body, [(UP, p)], "predicate-not-scalar")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        ("None", "x", "arms-differ-in-type"),
        ("1.5", "2.5", "arms-differ-in-value"),
        ("1", "1.0", "arms-differ-in-type"),
        ("0.0", "-0.0", "arms-differ-in-value"),
        ("True", "False", "arms-differ-in-value"),
        ("'a'", "'b'", "arms-differ-in-value"),
        ("(x, x)", "(x,)", "arms-differ-in-type"),
        ("[x]", "(x,)", "arms-differ-in-type"),
        ("[x + 1]", "outside", "arms-differ-in-type"),
        ("[l := [x + 1], l]", "[[x + 2], [x + 2]]", "arms-differ-in-type"),
    ],
)
def test_arms_that_are_not_tensors(left: str, right: str, reason: str) -> None:
    body = f"""
    def f(x):
        outside = [x + 3]
        y = {left} if x.sum() > 0 else {right}
        return y, x + 1, outside
    """
    declined(body, BOTH, reason, line=3)


def test_equal_python_values_are_no_choice() -> None:
    check(
        """
        def f(x):
            if x.sum() > 0:
                k, y = 2, x + 1
            else:
                k, y = 2, x - 1
            return y * k, k
        """,
        BOTH,
        mends="where@2",
    )


def test_arm_too_dear_to_compute_untaken() -> None:
    body = """
    w = torch.ones(3, 3)

    def f(x):
        if x.sum() > 0:
            y = x @ w
        else:
            y = x + 1
        return y
    """
    declined(body, BOTH, "arm-too-dear", line=4)


@pytest.mark.parametrize(
    ("arm", "reason"),
    [
        ("with torch.no_grad(): y = x * 2", "exception-region"),
        ("global state; state = 3", "arm-writes-scope"),
        ("import math; y = x * math.pi", "arm-imports"),
        ("items.append(1)", "arm-changes-state"),
        ("holder.value = 2", "arm-changes-state"),
    ],
)
def test_arms_that_cannot_be_functions(arm: str, reason: str) -> None:
    body = f"""
    state, items = 1, []

    class Holder:
        value = 1

    holder = Holder()

    def f(x):
        y = x + 1
        if x.sum() < 0:
            {arm}
        return y
    """
    declined(body, BOTH, reason, line=10)


def test_guard_that_raises_keeps_type_text_and_order() -> None:
    body = """
    class Bad(Exception):
        pass

    def f(x):
        print("checking")
        if torch.isnan(x).any():
            raise Bad(f"nan in {tuple(x.shape)}", 3)
        return x + 1
    """
    oracle.check(body, [UP, UP * float("nan"), UP], mends="defer@5 speculate@6")


def test_branch_inside_try() -> None:
    check(
        """
        def f(x):
            y = x + 1
            try:
                if x.sum() > 0:
                    y = y * 2
            except ValueError:
                return x
            return y
        """,
        BOTH,
        mends="where@4",
    )


def test_handler_that_reads_what_an_arm_writes() -> None:
    body = """
    def f(x):
        y = x + 1
        try:
            if x.sum() > 0:
                y = y * 2
                y = y + 1
        except ValueError:
            return y
        return y
    """
    declined(body, BOTH, "handler-sees-write", line=4)


def test_shared_storage_is_not_written_through_the_branch() -> None:
    """A rope buffer: one long call must not change what later short calls see."""
    check(
        """
        class Rope(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("inv_freq", torch.tensor([1.0, 0.5, 0.25]))
                self.original = self.inv_freq

            def forward(self, x):
                if x.max() > 2.5:
                    freq = self.original * 0.5
                else:
                    freq = self.original * 1.0
                return (x * freq).cos()

        rope = Rope()

        def f(x):
            return rope(x)
        """,
        [UP, DOWN, UP * 0.1],
        mends="where@8",
    )


def test_variable_bound_in_one_arm_only() -> None:
    body = """
    def f(x):
        if x.sum() > 0:
            y = x * 2
        return y
    """
    declined(body, BOTH, "unbound-in-one-arm")


def test_leaving_the_loop_from_an_arm() -> None:
    body = """
    def f(x):
        for i in range(3):
            if x.sum() > 3:
                break
            x = x + i
        return x
    """
    # From CPython 3.12 on, stock goes on behind a break in such a loop, and breaks there again.
    declined(body, BOTH, "loop-exit", line=3, breaks=1 if VERSION < (3, 12) else None)


def test_identity_of_a_chosen_value() -> None:
    body = """
    def f(x):
        base = x + 1
        y = base if x.sum() > 0 else x + 2
        if y is base:
            return y * 2
        return y * 3
    """
    declined(body, BOTH, "identity-compared", line=3)


def test_mode_switched_in_an_arm() -> None:
    body = """
    def f(x):
        if x.sum() > 0:
            torch.set_grad_enabled(False)
        y = x + 1
        torch.set_grad_enabled(True)
        return y
    """
    declined(body, BOTH, "arm-changes-mode")


def test_arm_that_breaks() -> None:
    body = """
    def f(x):
        y = x + 1
        if x.sum() > 0:
            torch._dynamo.graph_break()
        return y
    """
    check(body, BOTH, declines="arm-does-not-trace@3 break-requested@4", breaks=2)


def test_break_at_another_instruction() -> None:
    body = """
    import threading
    lock = threading.Lock()

    def f(x):
        with lock:
            return x + 1
    """
    declined(body, BOTH, "unhandled-instruction", line=5)


@pytest.mark.parametrize("question", ["requires_grad", "is_leaf", "grad_fn is None"])
def test_what_a_write_did_to_autograd_is_seen_under_every_name(question: str) -> None:
    """Stock looks anew after the break; Dynamo itself remembers it only for the name written to."""
    oracle.check(
        f"""
        weight = nn.Parameter(torch.ones(3))

        def f(x):
            y = x * 1
            b = y
            y += weight * x
            k = 2 if x.sum() > 0 else 3
            return y * k, b.{question}
        """,
        BOTH,
        mends="speculate@7",
        declines=None,
        breaks=None,
    )


def test_a_float_that_is_read_in_an_arm_first() -> None:
    """It is an input from the second value on, which torch 2.11 reads where it is needed first."""
    source = """
        def scaled(rate):
            def by_rate(x):
                return x * rate

            def turn(value):
                nonlocal rate
                rate = value
            return by_rate, turn

        by_rate, turn = scaled(2.0)

        def f(x):
            if x.sum() > 0:
                x = by_rate(x)
            return by_rate(x)
        """
    steps = [UP, DOWN, oracle.Change("turn(3.0)"), UP, DOWN, oracle.Change("turn(4.0)"), UP]
    oracle.agrees(source, steps, orders=1)
