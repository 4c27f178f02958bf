"""Branches of which one arm raises: the other arm is compiled alone and checked after the graph."""

from __future__ import annotations

import contextlib
import gc
import sys
import textwrap
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check
from tests.releases import since

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
        mends="accumulate@9 accumulate@10 speculate@11 speculate@13",
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
        declines="break-requested@3",
        breaks=1,
    )


@pytest.mark.parametrize(
    ("body", "mends", "if_taken"),
    [
        (
            """
        k = 1
        if x.any().item():
            k = helper(x)
        """,
            "capture@6 speculate@6",
            "capture@6 speculate@6",
        ),
        (
            """
        if x.sum() < 100:
            k = helper(x)
        else:
            k = 2
        """,
            "speculate@5",
            "speculate@5",
        ),
        (
            """
        k = 1
        if x.sum() < 9:
            k = torch.cat([x, x[:, None]]).sum()
        """,
            "speculate@6",
            "",
        ),
    ],
    ids=["value", "condition", "error"],
)
def test_a_way_that_does_not_trace_is_speculated_on_not_to_be_taken(
    body: str, mends: str, if_taken: str
) -> None:
    """Unless all calls take it."""
    zero, source = torch.zeros(3), textwrap.indent(textwrap.dedent(body), "    ")
    for calls in ([1000 * UP, 1000 * UP], [zero, zero], [UP, zero, 1000 * UP]):
        check(
            "def helper(x):\n    torch._dynamo.graph_break()\n    return 2\n"
            f"def f(x):{source}    return x * k\n",
            calls,
            if_taken if calls[-1] is zero else mends,
            None,
            None,
        )


def test_given_up_after_too_many_misses() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() < 0:
            raise ValueError("negative")
        return x + 1

    with gm.config.patch(failed_check_limit=3), gm.enabled():
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
        assert gm.report().mends
        assert entries(compiled) == entries(f) != []


def _outcome(function: Callable[..., Any], *args: Any) -> list[Any]:
    """The entries in this file of the tracebacks of an exception and its contexts; what is handled."""
    try:
        try:
            function(*args)
        except ArithmeticError as error:
            raise LookupError from error
    except Exception as error:
        found, link = list[Any](), error
        while link is not None:
            entries = traceback.extract_tb(link.__traceback__)
            mine = [(e.name, e.lineno) for e in entries if e.filename == __file__]
            found.append((type(link), str(link), mine[1:] if link is error else mine))
            link = link.__context__  # type: ignore[assignment]
        return [*found, sys.exc_info()[1] is error]
    return []


class Unreadable(ArithmeticError):
    """An exception that is false, and cannot be asked whether it is."""

    def __bool__(self) -> bool:
        raise AssertionError("It was asked.")


def test_traceback_is_that_of_the_original_code_alone() -> None:
    """Through callees, handlers and closures; for what an operator raises, and for a speculation."""
    limit = torch.tensor(0.0)

    def inner(x: torch.Tensor) -> torch.Tensor:
        if x.sum() < limit:
            raise Unreadable("negative")
        return x

    def through(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        try:
            y = inner(x * 2)
        except Unreadable as error:
            raise ValueError("again") from error
        print(y.shape)
        return y[i]

    def plain(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = inner(x + 1)
        print(y.shape)
        return y[i]

    index = torch.tensor([0]), torch.tensor([7])
    for f in (through, plain):
        with gm.enabled():
            compiled = torch.compile(f, backend="eager")
            compiled(UP, index[0])
            assert gm.report().mends
            for x, i in ((UP, index[1]), (DOWN * 3, index[0])):
                assert _outcome(compiled, x, i) == _outcome(f, x, i) != []


def test_nothing_of_the_deoptimisation_holds_the_frame() -> None:
    class Held:
        pass

    def f(x: torch.Tensor, held: Held) -> torch.Tensor:
        if x.sum() < 0:
            raise ValueError("negative")
        return x + 1

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        compiled(UP, Held())
        held = Held()
        known = weakref.ref(held)
        with contextlib.suppress(ValueError):
            compiled(DOWN, held)
        gc.disable()
        try:
            del held
            assert known() is None
        finally:
            gc.enable()


@pytest.mark.skipif(not since(2, 13), reason="Dynamo compiles a frame of its own around f")
@pytest.mark.parametrize(
    "call",
    [
        'warnings.warn("overflow")',
        'warnings.warn("overflow", stacklevel=2)',
        'warnings.warn("overflow", UserWarning, 3)',
        'log.warning("overflow", stacklevel=2)',
        'log.warning("overflow", stacklevel=3)',
        "seen.append([sys._getframe(n).f_code.co_name for n in (0, 1, 2)])",
        "seen.append([sys._getframe(n).f_lineno for n in (0, 1, 2)])",
        'seen.append(sys._getframe(1).f_globals["__name__"])',
    ],
)
def test_original_code_finds_its_callers(call: str) -> None:
    check(
        f"""
        import logging, sys, warnings

        log = logging.getLogger("test")
        seen = []

        def f(x):
            y = x + 1
            if x.sum() < 0:
                {call}
                raise ValueError("negative")
            return y * 2
        """,
        BOTH,
        mends="speculate@8",
    )
