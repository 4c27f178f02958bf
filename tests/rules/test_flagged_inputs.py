"""`requires_grad_()` of an argument: its flag is set before the graph, and seen by the caller."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check, load
from tests.settling import graphs_by_call

X = torch.tensor([1.0, -2.0, 3.0])
LEAF = X.clone().requires_grad_()
CALLS = [X, -X, LEAF, X * 3]

FORCES = """
weight = torch.nn.Parameter(torch.tensor([2.0, 0.5, -1.0]))

def energy(x):
    return (weight * x).sin().sum()

def f(x):
    {set}
    found = energy(x)
    force, = torch.autograd.grad(found, x)
    return found.detach(), -force, x.requires_grad, x.is_leaf, x.grad
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "line", ["x.requires_grad_()", "x = x.requires_grad_(True)", "x.requires_grad = True"]
)
def test_forces(line: str, backend: str) -> None:
    source = FORCES.replace("{set}", line)
    outcome = check(source, CALLS, mends="leaf@7 train@9", fullgraph=True, backend=backend)
    assert outcome.graphs <= 2  # one for what requires a gradient already


def test_the_caller_asks_for_the_gradient() -> None:
    source = """
    def compiled(x, y):
        x.requires_grad_()
        return (x * y).sum()

    def f(x, y):
        x, y = x.detach().clone(), y.detach()
        total = compiled(x, y) + compiled(x, y)
        total.backward()
        return x.grad, x.requires_grad, total.detach()
    """
    check(source, [(X, X * 2), (-X, X), (LEAF, X)], mends=None, breaks=None, fullgraph=False)
    source = source.replace("f(x, y)", "asked(x, y)").replace("compiled(x, y):", "f(x, y):")
    check(source, [(X, X * 2), (-X, X), (LEAF, X)], mends="leaf@2", fullgraph=True)


def test_it_is_found_in_what_is_given() -> None:
    source = """
    def f(data):
        at = data["at"]
        at.requires_grad_()
        (data["shifts"][1]).requires_grad_(True)
        kept = (at * data["shifts"][1]).sum()
        return kept, at.requires_grad, data["shifts"][0].requires_grad
    """
    calls: list[Any] = [{"at": X, "shifts": [X, -X]}, {"at": LEAF, "shifts": [LEAF, X]}]
    check(source, calls, mends="leaf@3 leaf@4", fullgraph=True)


def test_all_of_a_list() -> None:
    source = """
    def f(xs):
        for x in xs:
            x.requires_grad_()
        total = sum((x * x).sum() for x in xs)
        return torch.autograd.grad(total, xs), [x.requires_grad for x in xs]
    """
    calls = [[X, -X], [LEAF, X], [X, LEAF], [X * 2, X * 3]]
    check(source, calls, mends="leaf@3 train@5", fullgraph=True)


def test_one_tensor_that_is_given_twice() -> None:
    source = """
    def f(x, y):
        x.requires_grad_()
        return x * 2, y * 3, y.requires_grad
    """
    other = -X
    check(source, [(X, X), (X, other), (other, other), (LEAF, LEAF)], mends="leaf@2")


VIEWED = """
def f(x, part):
    x.requires_grad_()
    y, z = x * 2, part * 4
    return y.requires_grad, z.requires_grad, part.requires_grad, part.is_leaf
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("order", ["views first", "views last"])
def test_views_require_a_gradient_with_it(order: str, backend: str) -> None:
    program: Any = load(VIEWED)
    kinds = [lambda x: x[1:], torch.clone, lambda x: x[:0], lambda x: x.detach()[1:], torch.clone]
    torch._dynamo.reset()
    state = gm.session.new_state(mends=True)
    with gm.session.mending_by(state):
        compiled = torch.compile(program.f, backend=backend)
        for kind in kinds if order == "views first" else reversed(kinds):
            (x, y), (a, b) = ((X.clone(), X.clone()) for _ in range(2))
            wanted, found = program.f(x, kind(x)), compiled(y, kind(y))
            assert (found, y.requires_grad) == (wanted, x.requires_grad)
            assert program.f(kind(a), a) == compiled(kind(b), b)
    assert {str(decline.reason) for decline in state.report.declines} <= {"leaf-noticed"}


@pytest.mark.parametrize("asked", ["requires_grad", "view_as(x)"])
def test_a_view_in_an_object_that_the_graph_does_not_use(asked: str) -> None:
    program: Any = load(f"""
    class Holder:
        def __init__(self, part):
            self.part = part

    def f(x, holder):
        x.requires_grad_()
        return x * 2, holder.part.{asked}
    """)
    state = gm.session.new_state(mends=True)
    torch._dynamo.reset()
    with gm.session.mending_by(state):
        compiled = torch.compile(program.f, backend="eager")
        for part in (torch.clone, torch.clone, lambda x: x.view(3), torch.clone):
            wanted, found = (
                getattr(shown, "requires_grad", shown)
                for function in (program.f, compiled)
                for x in (X.clone(),)
                for _, shown in (function(x, program.Holder(part(x))),)
            )
            assert found is wanted


def test_in_a_forward_pass_nothing_is_recorded() -> None:
    source = """
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.requires_grad_()
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    def f(x):
        return Doubled.apply(x), x.requires_grad
    """
    check(source, CALLS, mends=None, declines=None, breaks=None)


def test_no_tensor_is_kept_alive() -> None:
    program: Any = load(FORCES.replace("{set}", "x.requires_grad_()"))
    torch._dynamo.reset()
    with gm.session.mending_by(gm.session.new_state(mends=True)):
        compiled = torch.compile(program.f, backend="eager")
        for _ in range(3):
            x = X.clone()
            known = weakref.ref(x)
            compiled(x)
            del x
            assert known() is None


def test_where_no_gradients_are_recorded() -> None:
    source = """
    @torch.no_grad()
    def f(x):
        with torch.enable_grad():
            x.requires_grad_()
            y = (x * x).sum()
        return y, x * 2, x.requires_grad
    """
    check(source, CALLS, mends="leaf@4")


def test_a_check_that_fails_finds_it_as_it_was() -> None:
    source = """
    def f(x):
        before = x.requires_grad
        x.requires_grad_()
        y = x * 2
        if y.sum() > 0:
            y = torch.cat([y, y])
        return y, before, x.requires_grad
    """
    check(source, [X, X * 2, -X, X, -X], mends="leaf@3 speculate@5")


def test_what_is_raised_behind_it() -> None:
    source = """
    def f(x, at):
        before = x.requires_grad
        x.requires_grad_()
        return x[at] * 2, before
    """
    inside, outside = torch.tensor([0, 2]), torch.tensor([1, 7])
    check(source, [(X, inside), (X, outside), (-X, inside)], mends="leaf@3")


@pytest.mark.parametrize(
    "body",
    [
        "y = x * 2\n        x.requires_grad_()\n        return y + x",
        "y = x * 2\n        x.requires_grad = True\n        return y + x",
        "z = torch.ones(3)[at]\n        x.requires_grad_()\n        return z + x",
        "x.add_(1)\n        x.requires_grad_()\n        return at + x",
    ],
)
def test_what_is_computed_before_would_see_it(body: str) -> None:
    source = f"""
    def f(x, at):
        {body}
    """
    calls = [(X, torch.tensor([0, 1, 2])), (-X, torch.tensor([2, 1, 0]))]
    check(source, calls, mends=None, declines="leaf-noticed@3", breaks=1)


@pytest.mark.parametrize("inside", [True, False])
def test_inference_tensors(inside: bool) -> None:
    program: Any = load("def f(x):\n    x.requires_grad_()\n    return x * 2, x.requires_grad")
    state = gm.session.new_state(mends=True)

    def seen(function: Any) -> object:
        with torch.inference_mode():
            x = X.clone()
        try:
            with torch.inference_mode(inside):
                return function(x)[1]
        except RuntimeError as error:
            return str(error)

    torch._dynamo.reset()
    with gm.session.mending_by(state):
        compiled = torch.compile(program.f, backend="eager")
        assert seen(compiled) == seen(program.f)
    assert {str(decline.reason) for decline in state.report.declines} == {"leaf-noticed"}


@pytest.mark.parametrize("hooked", ["x", "y"])
@pytest.mark.parametrize("name", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_that_is_registered_before(hooked: str, name: str) -> None:
    source = f"""
    def f(x, y):
        {hooked}.{name}(print)
        x.requires_grad_()
        return x * 2
    """
    calls = [(X, -X), (-X, LEAF)]
    check(source, calls, mends=None, declines=None, breaks=None, fullgraph=False)


def test_integers_have_no_gradients() -> None:
    source = """
    def f(x):
        try:
            x.requires_grad_()
        except RuntimeError as error:
            return str(error)
        return x * 2
    """
    check(
        source, [torch.tensor([1, 2]), torch.tensor([3, 4])], mends=None, declines=None, breaks=None
    )


def test_every_call_after_the_first_has_its_graph() -> None:
    program: Any = load(FORCES.replace("{set}", "x.requires_grad_()"))
    calls = [X.clone() for _ in range(4)]  # type: ignore[no-untyped-call]
    assert graphs_by_call(program.f, calls, fullgraph=True)[-1] == 1
