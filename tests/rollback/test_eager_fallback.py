"""Programs that raise: the frame is left to eager Python in the call in which tracing meets it."""

from __future__ import annotations

import logging
from types import FunctionType

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.code import facts
from tests.oracle import check
from tests.releases import since

X = torch.tensor([1.0, 2.0, 3.0])
Z = torch.tensor([0, 1, 2])
WIDE = torch.ones(4, 4)


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize(
    "last", ["x + torch.ones(3)", "x.sum(1)", "net(x)", "x[5]", "x.view(7)", "torch.cat([x, x[0]])"]
)
def test_the_program_raises_as_in_eager_python(last: str, fullgraph: bool) -> None:
    check(
        f"""
        import torch
        net = torch.nn.Linear(3, 3)
        torch.nn.init.ones_(net.weight)
        torch.nn.init.ones_(net.bias)
        def f(x):
            if x.sum() > 0:
                print("up")
            return {last}
        """,
        [X, WIDE, -X, -WIDE],
        # The others raise in each call, so no frame is compiled.
        mends="where@6 defer@7" if last in ("x + torch.ones(3)", "x.sum(1)", "net(x)") else "",
        declines=None,
        breaks=0,
        fullgraph=fullgraph,
    )


@pytest.mark.xfail(since(2, 14), reason="The text of the error is Dynamo's, as with stock.")
def test_the_program_goes_on() -> None:
    check(
        """
        import torch
        def add(y):
            return y + torch.ones(3)
        def f(x):
            y = x * 2
            if y.sum() > 0:
                y = y + 1
            try:
                y = add(y)
            except RuntimeError as error:
                print(error)
                y = y - 1
            return y
        """,
        [X, torch.ones(4), -X, -torch.ones(4)],
        "where@6",
    )


def test_a_program_that_raises_all_the_time(caplog: pytest.LogCaptureFixture) -> None:
    """From some call on the frame is compiled as stock would, which ends the attempts."""

    def add(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x * 2
        return x + torch.ones(3)

    with (
        gm.enabled(),
        gm.config.patch(failed_check_limit=2),
        caplog.at_level(logging.INFO, "graphmend_bc"),
    ):
        compiled = torch.compile(add, backend="eager")
        for _ in range(2):
            with pytest.raises(RuntimeError, match="must match the size"):
                compiled(torch.ones(4))
        with pytest.raises(torch._dynamo.exc.TorchRuntimeError):
            compiled(torch.ones(4))
        assert torch.equal(compiled(X), X * 2 + 1)
    assert "runs without compilation in this call" in caplog.text
    assert "leaves" in caplog.text


def test_the_program_raises_before_anything_is_mended_in_that_call() -> None:
    check(
        """
        def f(x):
            try:
                n = 1
                if x[0] > x[2]:
                    n = 2
                return x * n
            except IndexError as error:
                return error.args
        """,
        [X, -X, X[:1]],
        "speculate@4",
        orders=1,
    )


def test_function_that_was_mended_after_a_break_and_raises_after_another() -> None:
    """The last call is compiled without what the first ones mended, and in other parts."""
    check(
        """
        def f(x, z):
            torch._dynamo.graph_break()
            if x.sum().item() > 3.0:
                x = x * 2
                print("here")
            elif z[0] == z[2]:
                x = x * 3
            elif z.sum() > 2:
                x = c + 1
            return x
        """,
        [(X, Z), (X, Z), (X, Z), (-X, Z), (-X, Z), (-X[:2], Z[:2])],
        mends="capture@3 speculate@3 defer@5",
        declines=None,
        breaks=None,
        orders=1,
    )


def test_function_that_was_rewritten_in_vain_and_raises_after_a_break() -> None:
    """Stock skips what follows the break, because of the loop, in the second call too."""
    check(
        """
        state = {"n": 0}

        def written(x):
            pairs = torch.stack([x, -x])
            pairs[:, torch.randn(3).argmax() * 0] = 2
            return x

        def f(x):
            y = written(x)
            for _ in range(2):
                state["n"] += 1
                if torch.equal(x, x.view(3)):
                    n = x.sum().clamp(0, 4)
                    while n < 3:
                        n = n + 1
                        y = y
            return y
        """,
        [X, -X[:1]],
        mends="capture@5" + (facts.VERSION < (3, 12)) * " hoist@12 speculate@14",
        declines=None,
        breaks=1 if facts.VERSION < (3, 12) else None,
        orders=1,
    )


def test_arm_that_raises_where_python_runs_it() -> None:
    check(
        """
        def helper(x):
            y = torch.stack([x, -x])
            y[:, torch.tensor([0, 1, 2])[0].clamp(0, 2)] = 2
            return x

        def f(x):
            helper(x)
            with torch.no_grad():
                try:
                    if torch.rand(()) < 0.5:
                        if None is None:
                            raise ValueError("low")
                    else:
                        assert x[0] < x[1], "not"
                except Exception:
                    raise
            return x
        """,
        [X, -X[:1]],
        mends="hoist@3",
        declines=None,
        breaks=None,
        orders=1,
    )


def test_part_of_a_function_that_raises_where_python_calls_it() -> None:
    """The step of the `while` is a function of its own; iteration of `y` gives rows of `unbind`."""
    check(
        """
        def f(y, z):
            y = y * 1
            for x in y:
                if z.tolist()[0] > 0:
                    print("here")
                else:
                    n = x.sum().clamp(0, 4)
                    while n < 3:
                        n = n + 1
                        x.add_(1)
            return y
        """,
        [(torch.full((2, 3), n, requires_grad=True), torch.tensor([0, 1])) for n in (1.0, -1.0)],
        mends="",
        declines=None,
        breaks=None,
        grad=True,
    )


def test_speculation_that_leads_to_an_error() -> None:
    """No call goes there, so that the rest of the function is compiled after a few of them."""

    def grow(x: torch.Tensor) -> torch.Tensor:
        n = x.sum().clamp(0, 4)
        while n < 3:
            n = n + 1
            x.add_(1)
        return x

    def step(y: torch.Tensor) -> torch.Tensor:
        y = y * 1
        for x in y:
            grow(x)
        return y

    without = tuple(strategy for strategy in gm.config.strategies if strategy != "hoist")
    with gm.config.patch(strategies=without), gm.enabled():
        compiled = torch.compile(step, backend="eager")
        for _ in range(gm.config.flip_limit):
            assert torch.equal(compiled(torch.ones(2, 3, requires_grad=True)), torch.ones(2, 3))
            assert not gm.report().declines
        compiled(torch.ones(2, 3, requires_grad=True))
        assert [decline.reason for decline in gm.report().declines] == ["arm-does-not-trace"]


def test_write_that_does_not_fit() -> None:
    """Tracing accepts it for a size of 1; the guards fail when they are made."""
    x = torch.arange(4.0)
    check(
        """
        def f(x, some, others):
            y = x[some]
            y.clamp_(max=x[others])
            return y
        """,
        [(x, x < 3, x > 0), (x, x < 2, x > 1), (x, x < 1, x > 1), (x, x > 2, x < 1)],
        mends="hoist@2 capture@3 hoist@3",
        breaks=None,
        declines=None,
        orders=1,
    )


def test_a_frame_that_was_left_to_stock_is_compiled_in_other_calls_than_under_stock() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        s = x.sum().item()
        try:
            q = 1 / s
        except ZeroDivisionError:
            q = 0
        return x * q

    kinds = [torch.ones(4) * 2, torch.ones(7, 2), torch.ones(5, dtype=torch.float64)]
    kinds += [torch.ones(3, requires_grad=True), torch.full((6,), 0.3), torch.ones(3).half()]
    inputs = [torch.ones(0), torch.ones(3), *kinds, torch.ones(2, 2, 2), torch.ones(1, 1, 1, 1)]
    with gm.enabled():
        for _ in range(2):
            torch._dynamo.reset()
            anew = FunctionType(scaled.__code__.replace(), globals())
            compiled = torch.compile(anew, backend="eager")
            for x in [*inputs, torch.ones(0)]:
                assert torch.equal(compiled(x), scaled(x))
        assert "mending-does-not-pay" in [decline.reason for decline in gm.report().declines]
