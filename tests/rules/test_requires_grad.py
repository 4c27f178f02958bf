"""`t.requires_grad = True` inside a frame: left out where nobody can tell, declined elsewhere."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo import facts
from tests.oracle import check, load

X = torch.tensor([[0.5, -2.0, 1.0], [3.0, 0.25, -1.0]])

ENCODER = """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 2, 2)
        self.norm = nn.LayerNorm(2)
        self.kept = []

    def forward(self, x):
        y = x[:, None]
        if self.training:
            y.requires_grad = True
        y = self.conv(y)
        return self.norm(y.transpose(1, 2))

net = Encoder()
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_encoder_of_speech(backend: str) -> None:
    outcome = check(
        ENCODER + "\ndef f(x):\n    return net(x), x.requires_grad\n",
        [X, -X],
        mends="leaf@11",
        backend=backend,
        grad=True,
        fullgraph=True,
    )
    assert outcome.graphs == 1


def test_what_is_computed_is_changed_in_place() -> None:
    check(
        ENCODER
        + """
def f(x):
    y = net(x)
    y[y > 0] = 0
    y[0] += x[0, 0]
    return y * 2
""",
        [X, -X],
        mends="leaf@11",
        grad=True,
        fullgraph=True,
    )


def test_one_that_requires_a_gradient_already_is_declined_and_right() -> None:
    check(
        ENCODER + "\ndef f(x):\n    return net(x)\n",
        [X.clone().requires_grad_(), X],
        mends="leaf@11",
        declines=None,
        breaks=None,
        grad=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (
            "y = x.contiguous()\n    y.requires_grad = True\n    return F.linear(y, w)",
            "is an input",
        ),
        ("y = x * 2\n    y.requires_grad = False\n    return F.linear(y, w)", "from False to True"),
        ("y = x.long()\n    y.requires_grad = True\n    return y * w.sum()", "It raises"),
        ("y = x * 2\n    y.requires_grad = True\n    return F.linear(y, w), y", "leaves the graph"),
        (
            "y = x * 2\n    y.requires_grad = True\n    return F.linear(y, w), y[0]",
            "leaves the graph",
        ),
        ("y = x * 2\n    y.requires_grad = True\n    return y + 1", "requires no gradient"),
        (
            "y = x * 2\n    y.requires_grad = True\n    return F.linear(y + 1, w)",
            "requires no gradient",
        ),
        (
            "y = x * 2\n    y.requires_grad = True\n"
            "    return F.linear(y, w) * (2 if y.requires_grad else 3)",
            "'requires_grad' of it",
        ),
        (
            "y = x * 2\n    y.requires_grad = True\n"
            "    z = torch.zeros(2, 3)\n    z[0] = y[1]\n    return F.linear(y, w), z",
            "changes something",
        ),
        (
            "y = x * 2\n    y.requires_grad = True\n    z = torch.zeros(2, 3)\n    z.add_(y)\n"
            "    return y * w * z",
            "requires no gradient",
        ),
        (
            "y = x * 2\n    y.requires_grad = True\n    z = F.linear(y, w)\n"
            "    with torch.no_grad():\n        y.add_(1)\n    return z, F.linear(y, w)",
            "in place",
        ),
        (
            "y = x * 2\n    y.requires_grad = True\n    torch._dynamo.graph_break()\n"
            "    return F.linear(y, w)",
            "leaves the graph",
        ),
        (
            "y = x * 2\n    y.requires_grad = True\n    z = F.linear(y, w)\n    kept.append(y)\n"
            "    return z",
            "leaves the graph",
        ),
        ("y = x * 2\n    y.requires_grad = True\n    return Double.apply(y, w)", "is given it"),
        (
            "y = x * 2\n    y.requires_grad = True\n"
            "    return checkpoint(F.linear, y, w, use_reentrant=False)",
            "is given it",
        ),
        (
            "y = x * 2\n    y.requires_grad = True\n    print(y)\n    return F.linear(y, w)",
            "requires no gradient",
        ),
        (
            "y = x * 2\n    y.requires_grad = True\n    y.register_hook(print)\n"
            "    return F.linear(y, w)",
            "'register_hook' of it",
        ),
        (
            "y = x * 2\n    y.requires_grad = True\n    return vendor(y, w)",
            "is given it",
        ),
    ],
)
def test_what_could_be_noticed_is_declined(body: str, detail: str) -> None:
    source = f"""
import torch
from torch.utils.checkpoint import checkpoint

F = torch.nn.functional
w = torch.nn.Parameter(torch.ones(2, 3))
kept = []

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        return x * 2 + w

    @staticmethod
    def backward(ctx, g):
        return g, g

@torch._dynamo.allow_in_graph
def vendor(x, w):
    return x * w

def f(x):
    {body}
"""
    mends = "defer@24" if "print(y)" in body else ""
    check(source, [X, -X], mends, declines=None, breaks=None, grad=True)
    torch._dynamo.reset()
    f = load(source).f
    with gm.enabled():
        try:
            torch.compile(f, backend="eager")(X.clone())
        except RuntimeError:
            pass
        declines = gm.report().declines
    refused = [d for d in declines if d.reason == "leaf-noticed"]
    # Dynamo itself sets it where nothing that leaves the graph depends on it.
    is_dynamos = facts.SETS_REQUIRES_GRAD and "STORE_ATTR" not in {d.site.opname for d in declines}
    assert is_dynamos or any(detail in d.explanation for d in refused), gm.report()


def test_not_without_gradients() -> None:
    check(
        ENCODER
        + """
def f(x):
    with torch.no_grad():
        return net(x)
""",
        [X, -X],
        mends="",
        declines="" if facts.SETS_REQUIRES_GRAD else "leaf-noticed@11",
        breaks=None,
    )


def test_a_frozen_encoder_requires_a_gradient_all_the_same() -> None:
    outcome = check(
        ENCODER + "\nnet.requires_grad_(False)\n\ndef f(x):\n    return net(x)\n",
        [X, -X],
        mends="",
        declines="leaf-noticed@11",
        breaks=None,
        grad=True,
    )
    assert "leaf" not in outcome.mends


def test_a_hook_of_a_module_sees_the_gradient() -> None:
    check(
        ENCODER
        + """
seen = []
net.conv.register_full_backward_hook(lambda m, given, out: seen.append(given[0] is None))

def f(x):
    return net(x), len(seen)
""",
        [X, -X],
        mends="",
        declines=None,
        breaks=None,
        grad=True,
    )
