"""Walks over a module after one of its buffers, parameters or submodules was set in the frame."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

X = torch.tensor([0.5, -1.0])
Y = torch.tensor([-2.0, 3.0])

NET = """
class Part(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.p = nn.Parameter(torch.full((2,), float(n)))
        self.register_buffer("b", torch.full((2,), n + 0.5))

    def forward(self, x):
        return x * self.p + (0 if self.b is None else self.b)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Part(2), Part(3)
        self.q = nn.Parameter(torch.ones(2))
        self.register_buffer("k", torch.ones(2))

    def forward(self, x):
        return self.two(self.one(x)) * self.q

net, other = Net(), Part(7)

def f(x):
    net.plain = 1
"""


def _of(body: str) -> str:
    return NET + "".join(f"    {line}\n" for line in body.splitlines())


# A buffer that is put aside for one call, as a kernel of gpytorch does with its `active_dims`.
ASIDE = """aside, net.k = net.k, None
names = [name for name, _ in net.named_modules()]
y = net(x)
net.k = aside
return y, names, net.k"""


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_buffer_that_is_put_aside(fullgraph: bool) -> None:
    check(_of(ASIDE), [X, Y, X], "polyfill@25", grad=True, fullgraph=fullgraph)


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "net.k = x * 2\nreturn sum(b.sum() for b in net.buffers()) + net(x)",
        "net.one, net.two = net.two, net.one\n"
        "return net(x) + sum(p.sum() for p in net.parameters()), [n for n, _ in net.named_modules()]",
        "net.one.plain, net.one.b = 2, x + 1\n"
        "return sum(b.sum() for b in net.buffers()) * x, [n for n, _ in net.named_buffers()]",
        "net.two = net.one\nreturn x, [n for n, _ in net.named_modules(remove_duplicate=False)]",
        "net.late = other\nreturn net(x), sum(p.sum() for p in net.parameters())",
        "kept, net.q = net.q, None\nn = len([*net.parameters()])\nnet.q = kept\nreturn net(x) * n",
        "net.k = net.q\nreturn net(x), [n for n, _ in net.named_parameters()], [*net.buffers()][0]",
        "kept = net.one\nnet.k = x\ndel net.one\nn = len([*net.modules()])\nnet.one = kept\nreturn net(x) * n",
        "net.k = x\nwalk = net.named_buffers()\nname, first = next(walk)\nnet.k = x * 5\n"
        "return first + sum(b.sum() for _, b in walk)",
        "net.k = x\nbuffers = net.buffers\nnet.k = x * 5\nreturn sum(b.sum() for b in buffers())",
        "net.k = x\nnet.train(not net.training)\nreturn net(x), [m.training for m in net.modules()]",
        "net.k = x\nnet._buffers = {'c': x * 3}\nreturn sum(b.sum() for b in net.buffers())",
    ],
)
def test_what_was_set_is_seen(body: str) -> None:
    outcome = check(_of(body), [X, Y, X], None, grad=True, fullgraph=True)
    assert "polyfill@" in outcome.mends


@pytest.mark.slow
def test_an_exception_leaves_what_was_set() -> None:
    body = """net.k = None
n = len([*net.named_buffers()])
if x[0] > 0:
    raise ValueError(n)
net.k = x
return x * n"""
    outcome = check(_of(body), [X, Y, X, Y], None)
    assert "polyfill@25" in outcome.mends


def test_a_module_that_is_no_submodule_is_declined() -> None:
    body = """net.k = x
object.__setattr__(net, "hidden", other)
return x + len([*net.modules()])"""
    check(_of(body), [X, Y], declines="unhandled-instruction@26", breaks=None)
