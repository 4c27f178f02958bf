"""Blocks that set cuDNN's flags: left out on the CPU, where nothing asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch._subclasses import FakeTensorMode

import graphmend_bc as gm
from graphmend_bc.contrib.cudnn import _other_device, _state
from tests.oracle import check, load
from tests.releases import since

X = torch.tensor([[0.5, -2.0, 1.0], [3.0, 0.25, -1.0]])
FLAGS = "torch.backends.cudnn.flags"


@pytest.fixture(autouse=True)
def flags_stay() -> Iterator[None]:
    before = _state()
    yield
    assert _state() == before


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "flags", ["enabled=False", "", "False, True", "enabled=True, deterministic=True"]
)
def test_a_block_is_left_out(flags: str, backend: str) -> None:
    check(
        f"""
        def inner(x):
            with {FLAGS}({flags}) as nothing:
                y = x * 2
            return y.sigmoid(), nothing

        def f(x):
            y, nothing = inner(x)
            for _ in range(2):
                with {FLAGS}():
                    y = y + x
            return y, nothing
        """,
        [X, -X],
        mends="flags@2 flags@9",
        backend=backend,
        grad=True,
        fullgraph=True,
    )


def test_ctc_loss() -> None:
    """As the models of speech of transformers have it."""
    check(
        """
        head = nn.Linear(3, 4)

        def f(x, labels):
            logits = head(x)
            mask = labels >= 0
            targets = labels.masked_select(mask)
            log_probs = logits.log_softmax(-1).transpose(0, 1)
            with torch.backends.cudnn.flags(enabled=False):
                loss = F.ctc_loss(
                    log_probs,
                    targets,
                    torch.full((2,), 5),
                    mask.sum(-1),
                    blank=0,
                    reduction="mean",
                    zero_infinity=True,
                )
            return loss, logits
        """,
        [
            (torch.randn(2, 5, 3), torch.tensor([[1, 2, -100], [3, -100, -100]])),
            (torch.randn(2, 5, 3), torch.tensor([[1, 2, 3], [2, 1, 3]])),
        ],
        mends="capture@6 flags@8 capture@9",
        declines="",
        grad=True,
        fullgraph=True,
    )


def test_exceptions_leave_the_block() -> None:
    check(
        f"""
        def f(x, n):
            try:
                with {FLAGS}(enabled=False):
                    y = x * 2
                    if n > 1:
                        raise KeyError(n)
                    y = y + 1
            except KeyError:
                y = x
            return y, torch.backends.cudnn.enabled
        """,
        [(X, 1), (X, 2)],
        mends="flags@3",
    )
    check(
        f"""
        def f(x, n):
            with {FLAGS}(enabled=False):
                if n > 1:
                    raise KeyError(n)
                return x * 2
        """,
        [(X, 1), (X, 2)],
        mends={"forward": "flags@2", "reversed": ""},  # what raises first breaks the graph
        declines=None,
        breaks=None,
    )


def test_a_wrong_speculation_and_an_operator_that_raises_inside() -> None:
    check(
        f"""
        def f(x, i):
            with {FLAGS}(enabled=False):
                if x.sum() > 0:
                    raise ValueError(f"sum {{x.sum()}} of {{torch.backends.cudnn.enabled}}")
                y = x[0][i]
            return y, torch.backends.cudnn.enabled
        """,
        [(X, torch.tensor(1)), (-X, torch.tensor(1)), (-X, torch.tensor(7))],
        mends="flags@2 speculate@3",
        declines=None,
        breaks=None,
    )


def test_changed_flags_compile_anew() -> None:
    graphs = []

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.backends.cudnn.flags(enabled=False):
            return x * 2

    def backend(module: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(module)
        return module.forward

    with gm.enabled():
        compiled = torch.compile(f, backend=backend, fullgraph=True)
        for benchmark in (False, True, True, False):
            with torch.backends.cudnn.flags(enabled=True, benchmark=benchmark):
                assert torch.equal(compiled(X), X * 2)
    assert len(graphs) == 2


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("with FLAGS(enabled=False):\n        y = x * (2 if cudnn.enabled else 3)", "is read"),
        ("with FLAGS(enabled=False):\n        y = x * 2\n        print(x)", "after the graph"),
        ("with FLAGS():\n        with FLAGS(True):\n            y = x * 2", "another such"),
        ("with FLAGS():\n        y = x * 2\n        torch._dynamo.graph_break()", "breaks inside"),
        ("with FLAGS():\n        y = wrapped(x)", "is called inside it"),
        ("c = FLAGS()\n    y = x * 2\n    return y, [c].pop().func.__name__", "outside the graph"),
        (
            "cudnn.benchmark = True\n    with FLAGS():\n        y = x * 2\n    cudnn.benchmark = False",
            "itself",
        ),
        ("with FLAGS():\n        y = x * 2\n        cudnn.benchmark = True", "itself"),
        ("y = FLAGS()(lambda: x * 2)()", "decorator"),
        ("c = FLAGS()\n    with c:\n        y = x\n    with c:\n        y = x * 2", "twice"),
        ("with FLAGS('no'):\n        y = x * 2", "raises"),
        ("with FLAGS():\n        y = twice(x)", "is read"),
    ],
)
def test_what_may_look_at_the_flags_is_declined(body: str, detail: str) -> None:
    source = f"""
from torch.utils.checkpoint import checkpoint
cudnn = torch.backends.cudnn

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * (2 if cudnn.enabled else 3)

    @staticmethod
    def backward(ctx, g):
        return g * 2

twice = Twice.apply

def wrapped(x):
    return checkpoint(lambda x: x * 2, x, use_reentrant=False)

def f(x):
    {body.replace("FLAGS", FLAGS)}
    return y, cudnn.enabled
"""
    check(source, [X, -X], "", None, None)
    torch._dynamo.reset()  # the same code with other globals
    f = load(source).f
    with gm.enabled():
        try:
            torch.compile(f, backend="eager")(X)
        except (TypeError, RuntimeError, AttributeError):
            pass
        declines = gm.report().declines
    assert any(detail in d.explanation for d in declines if d.reason == "flags-not-neutral")


def test_flags_that_a_block_does_not_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving the block sets what the legacy setter sets, not what was there."""
    counter = iter(range(10**6))
    monkeypatch.setattr("graphmend_bc.contrib.cudnn._state", lambda: next(counter))

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.backends.cudnn.flags():
            return x * 2

    with gm.enabled():
        assert torch.equal(torch.compile(f, backend="eager")(X), X * 2)
        assert "flags-not-neutral" in {decline.reason for decline in gm.report().declines}


def test_not_for_the_flags_that_kernels_of_the_cpu_read() -> None:
    check(
        """
        def f(x):
            with torch.backends.mkldnn.flags(enabled=False):
                return x * 2
        """,
        [X],
        declines=None if since(2, 14) else "call-not-traced@2 unhandled-instruction@2",
        breaks=2 if since(2, 13) else 3,
    )


def test_tensors_on_other_devices_are_seen() -> None:
    node = torch.fx.Graph().placeholder("x")
    with FakeTensorMode():
        for device, other in (("cpu", None), ("cuda:0", torch.device("cuda:0"))):
            node.meta["example_value"] = [torch.empty(2, device=device)]
            assert _other_device(node) == other
