"""`requires_grad_()` of a tensor that stays: the first call is the graph of all later ones."""

from __future__ import annotations

import gc
import textwrap
import threading
import weakref
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import Change, agrees, check, load
from tests.settling import graphs_by_call

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("zero", torch.tensor([0.5, 1.5, 2.5]))
        self.register_buffer("other", torch.tensor([2.0, 3.0, 4.0]))
        self.frozen = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]), requires_grad=False)
        self.weight = nn.Parameter(torch.ones(3))
        self.count = 0
        {init}

    def forward(self, x):
{body}

class Shown:
    def __str__(self):
        return str(net.zero.requires_grad)

net = Net()

def f(x):
    return net(x)
"""
X = [torch.ones(3), torch.full((3,), 2.0), -torch.ones(3), torch.arange(3.0)]
TAKEN_BACK = Change("net.zero.requires_grad_(False)")
CALLS: list[list[Any]] = [
    X,
    [X[0], TAKEN_BACK, X[1], TAKEN_BACK, X[2], TAKEN_BACK, X[3], X[0]],
    [X[0] * 7, X[0], TAKEN_BACK, X[0] * 7, X[3], X[1]],
    [X[0], Change("net = Net()"), X[2], X[0], Change("net = Net()"), X[1]],
]


def program(body: str, init: str = "pass") -> str:
    return NET.format(body=textwrap.indent(textwrap.dedent(body).strip(), " " * 8), init=init)


def in_all_calls(body: str, init: str = "pass", **kwargs: Any) -> None:
    for calls in CALLS:
        agrees(program(body, init), calls, orders=None if calls is X else 1, **kwargs)


PLAIN = "y = (x * self.weight).sum()\nself.zero.requires_grad_()\nreturn y * self.zero"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "body",
    [
        PLAIN,
        "y = x * 2\nloss = self.zero\nloss.requires_grad_(True)\nreturn y + loss, loss.requires_grad",
        "y = (x * self.weight).sum()\nself.frozen.requires_grad_()\nreturn y * self.frozen",
        "y = torch.dropout(x, 0.5, True)\nfor t in self.zero, self.other:\n    t.requires_grad_()\n"
        "return y * self.zero * self.other",
        "y = x * 2\nself.zero.requires_grad_()\nself.zero.register_hook(lambda g: g * 2)\n"
        "return y * self.zero",
        "y = x * 2\nself.zero.requires_grad_()\nprint(self.zero)\nreturn y * self.zero",
        "self.count += 1\nself.zero.requires_grad_()\nself.count *= 2\nreturn x * self.zero",
    ],
)
def test_one_graph(body: str, backend: str) -> None:
    for fullgraph in (True, False):
        kwargs: dict[str, Any] = {"grad": fullgraph, "backend": backend, "fullgraph": fullgraph}
        outcome = check(program(body), X, mends=None, breaks=0, orders=1, **kwargs)
        assert (outcome.graphs, outcome.declines) == (1, "")
        assert "leaf@" in outcome.mends


def counts(body: str, init: str = "pass") -> list[int]:
    """Graphs that were compiled by the end of each call."""
    made: Any = load(program(body, init))
    return graphs_by_call(made.f, X)


def test_the_first_call_has_it() -> None:
    assert counts(PLAIN) == [1, 1, 1, 1]
    asking = PLAIN.replace("self.zero.req", "asked = self.zero.requires_grad\nself.zero.req")
    assert counts(asking) == [0, 1, 1, 1]
    viewing = PLAIN.replace("return y", "return y + self.part.sum()")
    assert counts(viewing, "self.part = self.zero.view(3)") == [0, 1, 1, 1]
    assert counts(viewing, "self.part = self.zero.detach()") == [1, 1, 1, 1]
    setting_a_view = PLAIN.replace("self.zero.req", "self.part.req")
    assert counts(setting_a_view, "self.part = self.zero.view(3)") == [0, 1, 1, 1]
    printing = PLAIN.replace("self.zero.req", "print(y)\nself.zero.req")
    assert counts(printing) == [0, 1, 1, 1]


@pytest.mark.parametrize(
    "first",
    [
        "b = self.zero.requires_grad",
        "b = getattr(self.zero, 'requires_' + 'grad')",
        "b = torch.Tensor.requires_grad.__get__(self.zero)",
        "b = [t.requires_grad for t in self.buffers()]",
        "b = self.zero * x",
        "b = self.zero.detach() * x",
        "b = self.zero.data * x",
        "b = self.zero.tolist()",
        "b = 1 if self.zero.sum() > 3 else 2",
        "b = torch.as_tensor(self.zero).requires_grad",
        "b = nn.Parameter(self.zero).detach()",
        "b = print(self.zero)",
        "b = print(f'{self.zero} {x.sum()}')",
        "b = print(self.shown)",
        "b = self.count = self.count + int(not self.zero.requires_grad)",
        "b = self.zero.is_leaf, self.zero.grad_fn, self.zero.grad",
    ],
)
def test_what_comes_before_sees_it_as_it_was(first: str) -> None:
    body = f"{first}\nself.zero.requires_grad_()\nreturn b, x * self.zero"
    in_all_calls(body, "self.shown = Shown()")


@pytest.mark.parametrize(
    "body",
    [
        "b = self.part * x\nself.zero.requires_grad_()\nreturn b, x * self.zero",
        "self.zero.requires_grad_()\nb = self.part * x\nreturn b, x * self.zero",
        "y = x * 2\nself.zero.requires_grad_()\nreturn y, self.part.requires_grad",
        "y = x * 2\nself.part.requires_grad_()\nreturn y, self.part * 2, self.zero * x",
    ],
)
@pytest.mark.parametrize("part", ["zero[1:2]", "zero.view(3)", "zero", "zero.detach()"])
def test_a_second_name(body: str, part: str) -> None:
    in_all_calls(body, f"self.part = self.{part}")


@pytest.mark.parametrize(
    "first",
    [
        "b = self.other[x.long()]",
        "self.other.add_(1)\nb = self.other[x.long()]",
        "b = torch.rand(3)[x.long()]",
        "self.count += 1\nb = self.other[x.long()]",
        "print(x.sum())\nb = self.other[x.long()]",
        "b = 1\nassert x.sum() > 0, f'only {x.sum()}'",
        "b = 1\nif x.sum() < 0: raise ValueError(self.count)",
    ],
)
def test_what_raises_before_leaves_it(first: str) -> None:
    """The first call may be one that raises."""
    body = f"{first}\nself.zero.requires_grad_()\nreturn b, x * self.zero"
    in_all_calls(body)
    agrees(program(body), [-x for x in X])


def test_what_raises_behind_it() -> None:
    in_all_calls(
        "y = x * 2\nself.zero.requires_grad_()\nreturn y * self.zero, self.other[x.long()]"
    )
    in_all_calls("y = x * 2\nself.zero.requires_grad_()\nassert x.sum() > 0, f'{y}'\nreturn y")


def test_where_the_guards_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is not the program's; the frame does not run."""

    def failing(*_: Any, **__: Any) -> None:
        assert made.net.zero.requires_grad
        raise RuntimeError("no guards")

    body = "b = self.other[x.long()]\nself.zero.requires_grad_()\nreturn b * self.zero"
    made: Any = load(program(body))
    torch._dynamo.reset()
    with gm.session.mending_by(gm.session.new_state(mends=True)):
        compiled = torch.compile(made.f, backend="eager")
        with monkeypatch.context() as patched:
            patched.setattr("torch._dynamo.convert_frame.CheckFunctionManager", failing)
            with pytest.raises(Exception, match="no guards"):
                compiled(X[0])
        assert not made.net.zero.requires_grad
        assert torch.equal(compiled(X[0]), torch.tensor([1.5, 4.5, 7.5]))


@pytest.mark.parametrize(
    "body",
    [
        "y = x * self.weight\nself.zero.requires_grad_()\nif y.sum() > 0:\n    self.count += 1\n"
        "    y = torch.cat([y, y])\nreturn y, self.zero * x",
        "y = x * self.weight\nself.other.add_(1)\nif y.sum() > 0:\n    self.count += 1\n"
        "    y = torch.cat([y, y])\nself.zero.requires_grad_()\nreturn y, self.zero * x",
        "y = x * self.weight\nif y.sum() > 0:\n    self.count += 1\n"
        "    self.zero.requires_grad_()\nreturn y, self.zero * x",
        "y = x * self.weight\nif y.sum() > 0:\n    self.zero.requires_grad_()\n"
        "return y, self.zero * x",
    ],
)
def test_assumptions(body: str) -> None:
    for calls in CALLS:
        agrees(program(body), calls, orders=None if calls is X else 1, grad=calls is X)


@pytest.mark.parametrize(
    "body",
    [
        "y = x * 2\nself.zero.requires_grad_()\ntorch._dynamo.graph_break()\nreturn y * self.zero",
        "y = x * 2\ntorch._dynamo.graph_break()\nself.zero.requires_grad_()\nreturn y * self.zero",
        "y = x * 2\nself.zero.requires_grad_()\nz = self.zero * 2\nself.zero.requires_grad_(False)\n"
        "return y * z, self.zero * 3",
        "y = x * 2\nself.zero.register_hook(lambda g: g * 2)\nself.zero.requires_grad_()\nreturn y",
        "y = x * self.other\nself.zero.requires_grad_()\nself.other.requires_grad_()\n"
        "return y, self.other * self.zero",
        "y = x * 2\nwith torch.no_grad():\n    self.zero.requires_grad_()\n    z = self.zero * 3\n"
        "return y, z, self.zero * x",
    ],
)
def test_what_else_is_in_the_way(body: str) -> None:
    in_all_calls(body)


@pytest.mark.parametrize(
    "init", ["self.zero = torch.tensor([1, 2, 3])", "self.zero = torch.ones(0)"]
)
def test_other_tensors(init: str) -> None:
    in_all_calls("y = x * 2\nself.zero.requires_grad_()\nreturn y, self.zero.sum()", init)


def test_a_flag_that_is_taken_back_costs_little() -> None:
    calls = [item for x in X * 3 for item in (x, TAKEN_BACK)]
    outcome = agrees(program(PLAIN), calls, orders=1)
    assert outcome.graphs <= 4


def test_a_backward_pass_in_the_frame() -> None:
    body = """
    y = (x * self.weight).sum()
    self.zero.requires_grad_()
    loss = (y * self.zero).sum()
    loss.backward()
    found, self.zero.grad, self.weight.grad = self.zero.grad.clone(), None, None
    return found, loss.detach()
    """
    in_all_calls(body)


def test_calls_that_are_verified() -> None:
    with gm.config.patch(verify=1):
        in_all_calls(PLAIN)


def test_checkpoints() -> None:
    made = load(program(PLAIN))
    again = load(program(PLAIN))
    torch._dynamo.reset()
    with gm.session.mending_by(gm.session.new_state(mends=True)):
        again.net.forward = torch.compile(again.net.forward, backend="eager")
        for x in X:
            for module in (made, again):
                result = torch.utils.checkpoint.checkpoint(module.net, x, use_reentrant=False)
                result.sum().backward()
            for one, other in zip(made.net.parameters(), again.net.parameters(), strict=True):
                assert one.grad is other.grad is None or torch.equal(one.grad, other.grad)
            assert torch.equal(made.net.zero.grad, again.net.zero.grad)


def test_several_threads() -> None:
    made = load(
        program("b = self.other[x.long()]\nself.zero.requires_grad_()\nreturn b * self.zero")
    )
    found: list[Any] = []
    torch._dynamo.reset()
    with gm.session.mending_by(gm.session.new_state(mends=True)):
        compiled = torch.compile(made.f, backend="eager")
        start = threading.Barrier(4)

        def call(number: int) -> None:
            start.wait()
            for _ in range(5):
                found.append(compiled(torch.full((3,), float(number % 3))).requires_grad)

        threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(IndexError):
            compiled(torch.full((3,), 7.0))
    assert found == [True] * 20
    assert made.net.zero.requires_grad


def test_nothing_is_kept_alive() -> None:
    made = load(program(PLAIN))
    torch._dynamo.reset()
    with gm.session.mending_by(gm.session.new_state(mends=True)):
        torch.compile(made.f, backend="eager")(X[0])
        known = weakref.ref(made.net.zero)
        del made.net
        gc.collect()
        assert known() is None


def test_nothing_is_set_for_a_program_that_is_exported() -> None:
    made = load(program(PLAIN))
    torch._dynamo.reset()
    with gm.session.mending_by(gm.session.new_state(mends=True)):
        with pytest.raises(Exception, match="requires_grad_"):
            torch.export.export(made.net, (X[0],), strict=True)
    assert not made.net.zero.requires_grad
