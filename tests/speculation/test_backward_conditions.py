"""Conditions in the backward pass of autograd functions that the forward pass has asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check, load

PROGRAM = """
{before}
def root_of(a):
    root, info = torch.linalg.cholesky_ex(a)
    if not torch.any(info):
        return root
    return torch.linalg.cholesky_ex(a + 9 * torch.eye(3))[0]

class Solve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        {forward}
        ctx.save_for_backward(a, x)
        return x

    @staticmethod
    def backward(ctx, g):
        a, x = ctx.saved_tensors
        {backward}
        return -y @ x.mT, y

def h(a, b):
    return Solve.apply(a, b)

def f(a, b):
    {call}
"""
FORWARD = "x = torch.cholesky_solve(b, root_of(a))"
BACKWARD = "y = torch.cholesky_solve(g, root_of(a))"
CALL = "return h(a @ a.mT + 0.5 * torch.eye(3), b) * 2"
SITE = 5


def program(
    call: str = CALL, forward: str = FORWARD, backward: str = BACKWARD, before: str = ""
) -> str:
    forward, backward = (text.replace("\n", "\n        ") for text in (forward, backward))
    return "import torch\n" + PROGRAM.lstrip("\n").format(
        before=before, call=call.replace("\n", "\n    "), forward=forward, backward=backward
    )


def leaf(*values: float) -> torch.Tensor:
    return torch.diag(torch.tensor(values)).requires_grad_()


def right() -> torch.Tensor:
    return torch.arange(6.0).view(3, 2).requires_grad_()


GOOD = [(leaf(*values), right()) for values in ((1.0, 2.0, 3.0), (2.0, 1.0, 1.0), (3.0, 1.0, 2.0))]
# `a - 6` is positive definite in some of the calls, so the condition goes both ways.
MIXED = [(leaf(*v), right()) for v in ((3.0, 4.0, 3.0), (1.0, 4.0, 3.0), (4.0, 3.0, 3.0))]
SHIFTED = "return h(a @ a.mT - 6 * torch.eye(3), b) * 2"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_condition_of_both_passes(backend: str) -> None:
    check(program(), GOOD, f"speculate@{SITE}", grad=True, backend=backend)


def test_a_condition_that_goes_both_ways() -> None:
    outcome = check(program(SHIFTED), MIXED, None, None, None, grad=True)
    assert f"speculate@{SITE}" in outcome.mends
    assert not outcome.breaks


def test_two_calls_of_a_function() -> None:
    call = "m = a @ a.mT + 0.5 * torch.eye(3)\nn = m * 2\nreturn h(m, b) + h(n, b)"
    check(program(call), GOOD, f"speculate@{SITE}", grad=True)


def test_a_tensor_that_forward_makes() -> None:
    forward = "a = a * 2\nx = torch.cholesky_solve(b, root_of(a))"
    backward = "y = torch.cholesky_solve(g, root_of(a))"
    check(program(forward=forward, backward=backward), GOOD, f"speculate@{SITE}", grad=True)


ASKED = "if a.sum() > 5: x = [b * 2][0]\nelse: x = [b.sort(0)[0]][0]"
INLINE = """
root, info = torch.linalg.cholesky_ex(a)
if torch.any(info): y = [g.sort(0)[0]][0]
else: y = [torch.cholesky_solve(g, root)][0]
""".strip()


@pytest.mark.parametrize(
    ("forward", "backward", "line"),
    [
        (FORWARD, INLINE, SITE + 15),
        (INLINE.replace("g", "b").replace("linalb", "linalg").replace("y =", "x ="), INLINE, 22),
        (ASKED, "if a.sum() > 5: y = [g * 2][0]\nelse: y = [g.sort(0)[0]][0]", 20),
        (ASKED, "y = g * 1\nfor _ in range(3):\n    if a.sum() > 5: y = [y * 2][0]", 22),
        (ASKED, "y = g * 2 if a.sum() > 5 and not a.sum() <= 5 else [g.sort(0)[0]][0]", None),
    ],
)
def test_another_place_in_the_backward_pass(forward: str, backward: str, line: int | None) -> None:
    for call, calls in ((CALL, GOOD), (SHIFTED, MIXED)):
        source = program(call, forward, backward)
        outcome = check(source, calls, None, None, None, grad=True)
        if line is not None:
            assert f"speculate@{line}" in outcome.mends
            assert not outcome.breaks


def test_a_condition_of_other_sizes() -> None:
    source = program("m = a @ a.mT + torch.eye(len(a))\nreturn h(m, b)", before="S = 1")
    source = source.replace("torch.eye(3)", "torch.eye(len(a))")
    sizes = (3, 4, 5)
    calls = [
        (torch.eye(n, requires_grad=True), torch.ones(n, 2, requires_grad=True)) for n in sizes
    ]
    check(source, calls, f"speculate@{SITE}", grad=True)


@pytest.mark.parametrize(
    ("call", "forward", "backward"),
    [
        # Somebody outside of the graph has it.
        ("return h(a, b)", FORWARD, BACKWARD),
        ("return h(a.view(3, 3), b)", FORWARD, BACKWARD),
        ("m = a @ a.mT\nreturn h(m, b), m", FORWARD, BACKWARD),
        ("m = a @ a.mT\nreturn h(m, b), m.mT", FORWARD, BACKWARD),
        ("m = a @ a.mT\nKEPT.append(m)\nreturn h(m, b)", FORWARD, BACKWARD),
        (
            "m = a @ a.mT\nx = h(m, b)\ntorch._dynamo.graph_break()\nreturn x * m.sum()",
            FORWARD,
            BACKWARD,
        ),
        ("m = a @ a.mT + torch.eye(3)\nreturn h(m, b), m.detach().numpy()", FORWARD, BACKWARD),
        (
            "m = a @ a.mT\nx = h(m, b)\nx.register_hook(lambda g: [m.data.sub_(9), g][1])\nreturn x * 2",
            FORWARD,
            BACKWARD,
        ),
        (CALL, "x = b * 2\nif x.sum() > 5: x = [x * 2][0]", "if x.sum() > 5: g = g * 2\ny = g"),
        # It is another condition, or of another tensor, or computed in another way.
        (
            "with torch.autocast('cpu', torch.bfloat16):\n    return h((a @ a.mT).float(), b)",
            FORWARD,
            BACKWARD,
        ),
        (CALL, ASKED, "y = g * 2 if a.sum() > 6 else [g * 0][0]"),
        (CALL, ASKED, "y = g * 2 if a.sum() > 5.0 else [g * 0][0]"),
        (CALL, ASKED + "\na = a * 1\na.neg_()", "y = g * 2 if a.sum() > 5 else [g * 0][0]"),
        (CALL, FORWARD, "y = torch.cholesky_solve(g, root_of(a * 2))"),
        (CALL, FORWARD, "y = torch.cholesky_solve(g, root_of(g @ g.mT + a))"),
        (CALL, "a = a * 2\n" + FORWARD + "\na = a / 2", BACKWARD),
        (CALL, FORWARD, "y = torch.cholesky_solve(g, root_of(a + torch.rand(())))"),
        (CALL, "x = torch.cholesky_solve(b, root_of(a + torch.rand(())))", BACKWARD),
        # It is written.
        ("m = a @ a.mT + torch.eye(3)\nx = h(m, b)\nm.data.sub_(9)\nreturn x", FORWARD, BACKWARD),
        (CALL, FORWARD + "\na.data.add_(9)", BACKWARD),
        (CALL, FORWARD, "a.data.mul_(2)\n" + BACKWARD),
        (CALL, FORWARD, BACKWARD + "\na.data.mul_(2)"),
    ],
)
def test_a_condition_that_may_be_another_one(call: str, forward: str, backward: str) -> None:
    source = program(call, forward, backward, before="KEPT = []")
    outcome = check(source, GOOD, None, None, None, grad=True)
    assert outcome.breaks
    assert "inside-transform" in outcome.declines


@pytest.fixture
def mending() -> Iterator[None]:
    with gm.enabled(cache=False):
        yield
    torch._dynamo.reset()


def gradients(
    f: Callable[..., Any], between: Callable[[Any], object], around: Any = contextlib.nullcontext
) -> object:
    """What a backward pass gives where something is done before it."""
    a, b = leaf(1.0, 2.0, 3.0), right()
    with around():
        out = f(a, b)
    between(out)
    try:
        first = out if isinstance(out, torch.Tensor) else out[0]
        first.sum().backward(retain_graph=True)
        first.sum().backward()
    except RuntimeError as error:
        return str(error)[:60]
    return [each.tolist() for each in (a.grad, b.grad) if each is not None]


def write_data(out: Any) -> None:
    out[1].data.sub_(9 * torch.eye(3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_written_between_the_passes(mending: None, backend: str) -> None:
    f = load(program("m = a @ a.mT\nreturn h(m, b), m")).f
    compiled = torch.compile(f, backend=backend)
    for _ in range(3):
        assert gradients(compiled, write_data) == gradients(f, write_data)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_hooks_that_change_what_is_saved(mending: None, backend: str) -> None:
    def hooks() -> Any:
        return torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t - 9)

    f = load(program()).f
    compiled = torch.compile(f, backend=backend)
    for around in (contextlib.nullcontext, hooks, contextlib.nullcontext, hooks):
        assert gradients(compiled, list, around) == gradients(f, list, around)
