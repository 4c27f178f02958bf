"""One identity of code: functions of one name are told apart, and equal ones may share."""

from __future__ import annotations

import copy
import pickle
import types
from collections.abc import Callable
from dataclasses import make_dataclass
from functools import singledispatch
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.engine.frame_compiler import Frame
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.rewriting import rewrite, widest_plan
from graphmend_bc.runtime import CodeId, identity_of
from tests.oracle import check

X = torch.tensor([1.0, 2.0])

BRANCHING = """
def f(x):
    if x.sum() > 0:
        x = x * 2
    return x + 1
"""


def defined(source: str, filename: str, name: str = "f") -> Any:
    """A function of a module of its own."""
    module: dict[str, Any] = {"torch": torch}
    exec(compile(source, filename, "exec"), module)
    return module[name]


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the frames that were tried, attempt by attempt."""
    tried: list[str] = []
    stock = Frame._try

    def _try(self: Frame, *args: Any) -> Any:
        tried.append(self.code.co_qualname)
        return stock(self, *args)

    monkeypatch.setattr(Frame, "_try", _try)
    gm.enable()
    return tried


def pair() -> tuple[Callable[..., Any], Callable[..., Any]]:
    # fmt: off
    return (lambda x: (x * 2, 1) if x.sum() > 0 else (x, 2)), (lambda x: (x * 3, 5) if x.sum() > 0 else (x, 7))
    # fmt: on


def twins() -> tuple[Callable[..., Any], Callable[..., Any]]:
    # fmt: off
    return (lambda x: (x * 2, 1) if x.sum() > 0 else (x, 2)), (lambda x: (x * 2, 1) if x.sum() > 0 else (x, 2))
    # fmt: on


@singledispatch
def handle(kind: object, x: torch.Tensor) -> object:
    raise TypeError(kind)


@handle.register
def _(kind: int, x: torch.Tensor) -> object:
    if x.sum() > 0:
        return x + kind, "int"
    return x, "small"


@handle.register
def _(kind: str, x: torch.Tensor) -> object:
    y = x * 2
    if torch.isinf(y).any():
        raise ValueError(kind)
    if y.max() > 1:
        return y, kind
    return y - 1, "small"


HANDLERS = handle.dispatch(int), handle.dispatch(str)


@pytest.mark.parametrize(
    ("functions", "more"),
    [(pair(), 2), (twins(), 2), ((lambda x: HANDLERS[0](3, x), lambda x: HANDLERS[1]("a", x)), 4)],
    ids=["two lambdas", "two equal lambdas", "handlers"],
)
def test_functions_of_one_name_take_the_attempts_of_each(
    functions: tuple[Callable[..., Any], ...], more: int, attempts: list[str]
) -> None:
    def f(x: torch.Tensor) -> object:
        return [function(x) for function in functions]

    alone = []
    for function in functions:
        torch._dynamo.reset()
        attempts.clear()
        torch.compile(function, backend="eager", fullgraph=True)(X)
        alone.append(len(attempts))
    torch._dynamo.reset()
    attempts.clear()
    assert repr(torch.compile(f, backend="eager", fullgraph=True)(X)) == repr(f(X))
    assert len(attempts) <= sum(alone)
    assert all(count <= 5 for count in alone)
    assert len(gm.report().mends) >= len(functions)
    down = torch.compile(f, backend="eager")
    assert repr(down(-X)) == repr(f(-X))
    assert repr(down(X)) == repr(f(X))


def test_sites_of_functions_of_one_name_differ() -> None:
    for one, other in (pair(), twins(), HANDLERS):
        assert one.__code__.co_qualname == other.__code__.co_qualname
        assert identity_of(one.__code__) is not identity_of(other.__code__)
        assert site_of(one.__code__, 0) != site_of(other.__code__, 0)
        assert identity_of(one.__code__) is identity_of(one.__code__)


def test_what_is_executed_twice_shares() -> None:
    one, other = (defined(BRANCHING, "<string>") for _ in range(2))
    assert one.__code__ is not other.__code__
    assert identity_of(one.__code__) is identity_of(other.__code__)
    assert site_of(one.__code__, 0) == site_of(other.__code__, 0)
    assert identity_of(one.__code__.replace()) is identity_of(one.__code__)


@pytest.mark.parametrize(
    "other",
    [
        defined(BRANCHING, "other.py"),
        defined("\n" + BRANCHING, "<string>"),
        defined(BRANCHING.replace("* 2", "* 3"), "<string>"),
        defined(BRANCHING.replace("* 2", "*  2"), "<string>"),
        defined("class A:" + BRANCHING.replace("\n", "\n  "), "<string>", "A").f,
    ],
    ids=["file", "line", "constant", "column", "class"],
)
def test_what_differs_does_not_share(other: types.FunctionType) -> None:
    code = defined(BRANCHING, "<string>").__code__
    assert identity_of(other.__code__) is not identity_of(code)
    renamed = code.replace(co_qualname="g")
    assert identity_of(renamed) is not identity_of(code)
    plan = widest_plan(renamed)
    assert rewrite(renamed, plan).code.co_qualname == "g"
    assert rewrite(code, plan).code.co_qualname == "f"


def test_methods_that_a_library_writes() -> None:
    one, like, other = (
        make_dataclass("C", fields).__init__.__code__  # type: ignore[misc]
        for fields in (["a", "b"], ["a", "b"], ["a", "c"])
    )
    assert one.co_filename == other.co_filename == "<string>"
    assert identity_of(one) is identity_of(like)
    assert identity_of(one) is not identity_of(other)


def test_constants_that_have_no_hash() -> None:
    code = defined(BRANCHING, "<string>").__code__
    odd = code.replace(co_consts=(*code.co_consts, [1]))
    assert identity_of(odd) is identity_of(odd)
    assert identity_of(odd) is not identity_of(code)


def test_rewritten_code_maps_back_also_when_all_is_forgotten() -> None:
    function = defined(BRANCHING, "<string>")
    rewrites = session._session.state.rewrites
    written = rewrites.rewritten(function.__code__, widest_plan(function.__code__))
    arms = [const for const in written.co_consts if isinstance(const, types.CodeType)]
    gm.reset()
    for code in (written, *arms):
        assert rewrites.is_rewritten(code)
        assert rewrites.original(code, 0)[0] is function.__code__
    assert not rewrites.is_rewritten(function.__code__)
    like = written.replace(co_name="other")  # as a function that resumes has its constants
    assert rewrites.original(like, 0) == (like, 0)


def test_the_same_plan_gives_the_same_code_as_long_as_it_is_in_use() -> None:
    code = defined(BRANCHING, "<string>").__code__
    rewrites, plan = session._session.state.rewrites, widest_plan(code)
    written = rewrites.rewritten(code, plan)
    gm.reset()
    assert rewrites.rewritten(code, plan) is written


def test_leave_alone_means_one_function_of_equal_ones() -> None:
    """Code objects of copied files compare equal."""
    left, mended = (defined(BRANCHING, name) for name in ("a.py", "b.py"))
    assert left.__code__ == mended.__code__
    gm.leave_alone(left)
    gm.enable()
    for function in (left, mended):
        torch.compile(function, backend="eager")(X)
    (decline,), (mend,) = gm.report().declines, gm.report().mends
    assert (decline.reason, decline.site.filename) == ("left-alone", "a.py")
    assert mend.site.filename == "b.py"


def test_leave_alone_holds_for_what_follows_a_break() -> None:
    @gm.leave_alone
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x * 2
        print("between")
        if x.max() > 1:
            x = x + 1
        return x

    gm.enable()
    assert torch.equal(torch.compile(f, backend="eager")(X), f(X))
    report = gm.report()
    assert report.mends == []
    assert {decline.reason for decline in report.declines} == {"left-alone"}
    assert len(report.declines) == 3


def test_sites_are_told_without_the_identity() -> None:
    function = defined(BRANCHING, "<string>")
    site = site_of(function.__code__, 0)
    assert str(site) == "<string>:2 in f"
    assert "code" not in repr(site)
    assert copy.deepcopy(site) == site
    assert str(pickle.loads(pickle.dumps(site))) == str(site)
    assert repr(identity_of(function.__code__)) == "<code of f, <string>:2>"
    assert isinstance(site.code, CodeId)
    gm.enable()
    torch.compile(function, backend="eager")(X)
    assert '"code"' not in gm.report().to_json()
    assert '"lineno": 3' in gm.report().to_json()


UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])


def test_getter_and_setter_of_a_property() -> None:
    check(
        """
        class Scaled:
            @property
            def value(self):
                if self.tensor.sum() > 0:
                    return self.tensor * 2, "up"
                return self.tensor, "down"

            @value.setter
            def value(self, x):
                y = x + 3
                if y.max() > 3:
                    self.tensor, self.kind = y, 1
                else:
                    self.tensor, self.kind = x, 2

        def f(x):
            scaled = Scaled()
            scaled.value = x
            return scaled.value, scaled.kind
        """,
        [UP, DOWN, UP],
        mends="speculate@4 speculate@11",
    )


def test_comprehensions_of_one_function() -> None:
    check(
        """
        def f(x):
            some = [(y * 2, 1) if y.sum() > 0 else (y, 0) for y in (x, x + 9)]
            more = list((z + 3, "a") if z.max() > 0 else (z, "b") for z in (x,))
            some += list((y - 1, 7) if y.min() > 0 else (y, 8) for y in (x, x - 5))
            return some, more
        """,
        [UP, DOWN, UP],
        mends="speculate@2 speculate@3 speculate@4",
    )


def test_lambdas_on_one_line_with_gradients() -> None:
    check(
        """
        def pair():
            return (lambda x: (x * 2, 1) if x.sum() > 0 else (x, 2)), (lambda x: (x * 3, 1) if x.sum() < 9 else (x, 2))

        one, other = pair()

        def f(x):
            (y, k), (z, n) = one(x), other(x * x)
            return y + z, k, n
        """,
        [UP, DOWN, UP],
        mends="speculate@2",
        grad=True,
    )
