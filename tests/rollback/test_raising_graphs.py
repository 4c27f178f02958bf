"""Mended graphs that raise: what was done before the operator is kept, or the site is declined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import agrees, check, load

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("read", ["int((6 // z)[0])", "float(x[z][0])", "(6 // z).tolist()"])
def test_value_that_raises_and_is_not_used(read: str, backend: str) -> None:
    agrees(
        f"""
        store, items = {{}}, []

        def f(x, z):
            try:
                store["n"] = {read}
            except Exception:
                items.append(1)
            store["n"] = 5
            return x + 1
        """,
        [(UP, torch.tensor([0, 1])), (UP, torch.tensor([9, 1])), (UP, torch.tensor([1, 1]))],
        backend=backend,
    )


def test_index_out_of_bounds_whose_result_is_not_used() -> None:
    agrees(
        """
        def f(x, z):
            y = x[z][0] if x.sum() > 0 else x[z]
            z[x > 0]
            y = x * 2 if x.sum() > 0 else x
            return y
        """,
        [(UP, torch.tensor([0, 1, 2])), (UP, torch.tensor([0, 1, 5])), (DOWN, torch.tensor([5]))],
    )


def test_index_out_of_bounds_that_is_not_used_in_a_resumed_function() -> None:
    """The resume function holds what was rewritten; no plan of its own does."""
    agrees(
        """
        def f(x, z):
            n = x.sum().clamp(0, 4)
            while n < 3:
                n = n + 1
                if len(z.unique()) > 1:
                    x[z + 1]
            return x
        """,
        [
            (UP.clone().requires_grad_(), torch.tensor([0, 1, 2])),
            (DOWN.clone().requires_grad_(), torch.tensor([0, 1, 2])),
        ],
        grad=True,
        orders=1,
    )


@pytest.mark.parametrize("write", ["y -= y[0]", "y.expand(2, 3).add_(1)", "y[1:].copy_(y[:-1])"])
def test_effects_before_a_write_to_memory_that_overlaps(write: str) -> None:
    agrees(
        f"""
        items = []

        def f(x, c):
            y = x[:1] if "expand" in {write!r} else x
            print("before", c.sum())
            items.append(1)
            {write}
            return x
        """,
        [(torch.stack([UP, DOWN]), UP), (torch.stack([DOWN, UP]), UP)],
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("between", "mends"),
    [
        ("if x.sum() > 0: x = x * 2", "where@12"),
        ("if x.sum() > 0: x = x", "where@12"),
        ("if x.sum() > 0: x = x * torch.rand(3)", "speculate@12"),
        ("print(x)", "defer@12"),
    ],
)
def test_what_was_set_before_a_graph_raises_is_kept(between: str, mends: str) -> None:
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
        mends,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("branch", "mends"),
    [
        ("y = y * 2 if x.sum() > 0 else y - 1", "where@4 defer@9"),
        ("print(x)", "defer@4 defer@9"),
        ("y = x if y[0] > 1 else x.add_(1)", "speculate@4 defer@9"),
        ("x.add_(1); y = y * 2 if x.sum() > 0 else y - 1", "where@4 defer@9"),
    ],
)
def test_a_handler_catches_what_a_mended_graph_raises(branch: str, mends: str) -> None:
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
        mends,
    )


def test_state_before_an_operator_that_raises() -> None:
    """The graph could not be rolled back: what it changes has an autograd history then."""
    outcome = check(
        """
        net = nn.BatchNorm1d(3)
        net.count = 0
        def f(x, y, z):
            if x.sum() > 0:
                net.count += 1
                y[z[0].item()].add_(net.weight)
            net.count += 1
            y[z.argmax() % 2].add_(net(torch.stack([x, x * 2]))[0])
            return y
        """,
        [(UP.double(), torch.ones(2, 3).double(), torch.tensor([0, 1, 0]))],
        mends="",
        declines=None,
        breaks=None,
        orders=1,
    )
    assert not outcome.mends


STATE_BEFORE_A_DIVISION = """
items = []
def f(y, z):
    y = y * 1
    torch._dynamo.graph_break()
    items.append(1)
    if y.sum() > 0:
        z = z * 2
    y[0].add_({}.sum())
    return y
state = items
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "mends", "declines"),
    [
        ("(6 // z)", "", "break-requested@4 speculation-writes-input@6"),
        ("(6 % z)", "", "break-requested@4 speculation-writes-input@6"),
        ("(z - True)", "", "break-requested@4 speculation-writes-input@6"),
        (
            "torch.linalg.inv(torch.diag(z + 0.0))",
            "",
            "break-requested@4 speculation-writes-input@6",
        ),
        ("(z // 2 + z % 3 + z**2)", "where@6", "break-requested@4"),
    ],
)
def test_state_before_a_division(number: str, mends: str, declines: str) -> None:
    """Stock keeps the state, because it has a break in between. A divisor of 2 cannot fail."""
    y = torch.ones(2, 3)
    signs = [y.requires_grad_(), (-y).detach().requires_grad_()]
    calls = [(y, torch.tensor(z)) for z in ([1, 2, 3], [1, 2, 0], [0, 2, 3]) for y in signs]
    program = STATE_BEFORE_A_DIVISION.format(number)
    check(program, calls, mends, declines, breaks=None, orders=1)


def test_effects_before_an_operator_that_raises_in_a_resumed_function() -> None:
    """Stock compiles nothing of a function that breaks inside a `try`."""
    check(
        """
        import torch
        import torch.nn.functional as F
        w = torch.ones(3)
        items = []
        def f(x):
            try:
                if x.sum() > 0:
                    items.append(0)
            finally:
                n = x.sum().clamp(0, 4)
                while n < 3:
                    n = n + 1
                    items.append(1)
                    F.layer_norm(x, (3,), w)
            return x
        state = items
        """,
        [UP.double(), DOWN.double()],
        mends="speculate@7 hoist@11",
    )


def test_graph_that_raises_runs_the_effects_before_it() -> None:
    check(
        """
        def f(x, i):
            print("about to index")
            y = x[i]
            print("done", y)
            return y
        """,
        [(UP, torch.tensor([1])), (UP, torch.tensor([7])), (UP, torch.tensor([0]))],
        mends="defer@2 defer@4",
    )


def test_graph_that_cannot_be_rolled_back_names_the_effects_it_lost() -> None:
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        print("about to index")
        x.add_(1)
        return x[i]

    with gm.enabled(), gm.config.patch(snapshot_limit=4):
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        with pytest.raises(IndexError) as caught:
            compiled(UP.clone(), torch.tensor([7]))
    (note,) = caught.value.__notes__
    assert "did not run" in note
    assert "test_raising_graphs.py" in note


@pytest.mark.parametrize("fails", ["x[i]", "x.long() // i", "torch.bernoulli(x - i)"])
@pytest.mark.parametrize("writes", ["x.add_(1)", "x[0] = 5", "seen.add_(1)"])
def test_graph_that_changes_an_input_and_raises(fails: str, writes: str) -> None:
    outcome = check(
        f"""
        seen = torch.zeros(3)

        def f(x, i):
            print("before", x)
            {writes}
            print("between", x)
            return {fails}
        """,
        [(torch.ones(3), torch.tensor([v])) for v in (1, 7, 0)],
        mends="defer@4 defer@6",
        fullgraph=True,
    )
    assert outcome.graphs


def test_write_before_the_first_marked_call_is_rolled_back() -> None:
    check(
        """
        def inner(x, i):
            print("about to index")
            return x[i]

        def f(x, i):
            x.add_(1)
            return inner(x, i)
        """,
        [(torch.ones(3), torch.tensor([v])) for v in (1, 7, 0)],
        mends="defer@2",
        fullgraph=True,
    )


OPERATORS = {
    "while_loop": """
        def f(x):
            x = x * 2
            while x.abs().sum() > 1:
                x = torch.tanh(x) * 0.25
            return x + 1
        """,
    "cond": """
        weight = torch.eye(4)
        def f(x):
            x = x * 2
            if x.mean() > 0.3:
                y = torch.mm(x, weight)
            else:
                y = x + 1
            return torch.tanh(y)
        """,
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_backend_that_fails_on_an_operator_loses_it(operator: str) -> None:
    """Its graph runs for nothing a few times; then stock's pieces do."""
    ran: list[bool] = []

    def backend(graph: torch.fx.GraphModule, _inputs: object) -> Callable[..., Any]:
        is_ours = operator in graph.code and "higher_order" in graph.code

        def run(*args: Any) -> Any:
            ran.append(is_ours)
            if is_ours and sum(ran) > 1:
                torch.zeros(2).view(3)
            return graph(*args)

        return run

    f, x = load(OPERATORS[operator]).f, torch.full((4, 4), 0.75)
    with gm.enabled(), torch.no_grad():
        torch._dynamo.reset()
        gm.reset()
        compiled = torch.compile(f, backend=backend)
        for _ in range(30):
            assert torch.equal(compiled(x), f(x))
        found = gm.report()
    assert not found.mends
    assert {decline.reason for decline in found.declines} == {"backend-refuses"}
    assert 1 < sum(ran) <= 2 * gm.config.failed_check_limit
    assert not any(ran[-3:])
