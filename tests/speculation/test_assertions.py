"""`assert` on tensors: AssertionError with its message, where stock's operator raises RuntimeError."""

from __future__ import annotations

import traceback

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import agrees, check, load

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
CALLS = [UP, DOWN, UP * 0, UP + 1]
ASSERTS = ["assert x.sum() > 0", 'assert x.sum() > 0, "not positive"']
BACKENDS = [("eager", {}), ("eager", {"fullgraph": True}), ("aot_eager", {})]


@pytest.mark.parametrize("statement", ASSERTS)
@pytest.mark.parametrize(("backend", "options"), BACKENDS)
def test_effects_before_it_and_nothing_after(
    statement: str, backend: str, options: dict[str, bool]
) -> None:
    check(
        f"""
        items = []
        def f(x):
            print("before", x.sum())
            items.append(1)
            x.mul_(2)
            {statement}
            items.append(2)
            x.add_(1)
            print("after")
            return x + 1
        """,
        CALLS,
        mends="defer@3 accumulate@4 speculate@6 accumulate@7 defer@9",
        backend=backend,
        **options,
    )


@pytest.mark.parametrize("statement", ASSERTS)
@pytest.mark.parametrize(("backend", "options"), BACKENDS)
def test_alone_in_a_callee(statement: str, backend: str, options: dict[str, bool]) -> None:
    check(
        f"""
        def checked(x):
            {statement}
            return x * 2

        def f(x):
            return checked(checked(x) - 3)
        """,
        CALLS,
        mends="speculate@2",
        backend=backend,
        **options,
    )


@pytest.mark.nightly  # a speculation, as in test_speculate.py
def test_compiled_by_inductor() -> None:
    check(
        """
        def f(x):
            x = x * 2
            assert torch.isfinite(x).all(), "finite"
            return x + 1
        """,
        [UP, UP / 0, DOWN],
        mends="speculate@3",
        backend="inductor",
        orders=1,
    )


def test_several_and_one_in_a_loop() -> None:
    check(
        """
        seen = []
        def f(x):
            assert (x != 2).all(), "two"
            for v in x:
                seen.append(1)
                assert v > 0, "not positive"
                x = x + v
            assert x.max() < 100
            return x
        """,
        [*CALLS, UP + 0.5, UP + 90],
        mends="speculate@3 accumulate@5 speculate@6 speculate@8",
    )


def test_handled_in_the_function() -> None:
    check(
        """
        net = nn.BatchNorm1d(3)
        def f(x):
            try:
                y = net(torch.stack([x, x * 2]))
                assert y.sum() + x.sum() > 0, "negative"
                x = x + y.sum(0)
            except AssertionError as error:
                return x - 1, str(error)
            finally:
                x.add_(1)
            return x, ""
        """,
        CALLS,
        mends="speculate@5",
    )


def test_number_read_from_a_tensor() -> None:
    check(
        """
        def f(x):
            n = int(x.sum().item())
            assert n > 0, "n"
            return x * n
        """,
        CALLS,
        mends="capture@2 speculate@3",
    )


@pytest.mark.parametrize(
    "statement", ["assert x.shape[0] == 3, 'shape'", "assert isinstance(x, torch.Tensor)"]
)
def test_of_what_is_known_needs_no_mend(statement: str) -> None:
    check(f"def f(x):\n    {statement}\n    return x + 1", [UP, UP[:2], DOWN], breaks=None)


def test_one_that_fails_too_often_still_raises_its_own_error() -> None:
    # From text: pytest rewrites the assertions of this file.
    f = load(
        """
        def f(x):
            y = x * 2
            assert y.sum() > 0, "given up"
            return y + 1
        """
    ).f
    with gm.enabled(), gm.config.patch(failed_check_limit=2):
        compiled = torch.compile(f, backend="eager")
        for _ in range(8):
            with pytest.raises(AssertionError, match="given up"):
                compiled(DOWN)
            assert torch.equal(compiled(UP), f(UP))


def test_one_that_is_no_branch_stays_as_stock_has_it() -> None:
    """The graph cannot be copied before it runs, and must be one."""
    f = load(
        """
        def f(x, w):
            w.mul_(2)
            assert x.sum() > 0, "left"
            return x + w
        """
    ).f
    with gm.enabled(), gm.config.patch(snapshot_limit=4):
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        assert torch.equal(compiled(UP, UP.clone()), UP * 3)
        with pytest.raises(RuntimeError, match="left"):
            compiled(DOWN, UP.clone())


def test_traceback_is_that_of_the_statement() -> None:
    f = load(
        """
        def checked(x):
            assert (x > 0).all(), "all of them"
            return x.log()

        def f(x):
            return checked(x * 2)
        """
    ).f
    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        compiled(UP)
        with pytest.raises(AssertionError, match="all of them") as caught:
            compiled(DOWN)
    frames = traceback.extract_tb(caught.tb)
    own = [(frame.name, frame.lineno) for frame in frames if frame.filename == "<program>"]
    assert own[-2:] == [("f", 6), ("checked", 2)]


@pytest.mark.parametrize("read", ["int(x.sum().item())", "int(x.sum())"])
@pytest.mark.parametrize("options", [{}, {"fullgraph": True}])
def test_whole_number_of_infinity_and_nan(read: str, options: dict[str, bool]) -> None:
    inf, nan = UP / torch.tensor([0.0, 1.0, 1.0]), UP * float("nan")
    with torch._dynamo.config.patch(recompile_limit=16):  # the list grows in every call
        check(
            f"""
        items = []
        def f(x):
            items.append(1)
            print("reads", x.max())
            n = {read}
            items.append(n)
            print("read", n)
            return x[:1] * n, n
            """,
            [inf, UP, nan, DOWN],
            mends="defer@4 capture@5 defer@7",
            **options,
        )


@pytest.mark.parametrize("number", ["int(x[0].item() * 2)", "round(x.sum().item())"])
def test_whole_number_of_a_float_that_a_resumed_function_gets(number: str) -> None:
    inf, nan = UP / torch.tensor([0.0, 1.0, 1.0]), UP * float("nan")
    agrees(
        f"""
        items = []
        def f(x):
            items.append(1)
            print("reads", x.max())
            n = {number}
            items.append(n)
            return x[:1] * n, n
        """,
        [inf, UP, nan, DOWN],
    )
