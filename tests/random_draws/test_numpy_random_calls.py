"""Calls of NumPy's generator in the middle of a function: drawn before the graph, in order."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import graphmend_bc as gm
from tests.backends import EAGER_AND_AOT
from tests.oracle import Outcome, check, load

A, B, C = torch.ones(4, 3), -torch.ones(4, 3), torch.arange(12.0).reshape(4, 3)
CALLS = [A, B, C]
HEAD = "import numpy as np\n\ndef f(x):\n    "


def drawn(body: str, mends: str, **kwargs: object) -> Outcome:
    """The program is whole and exact, and something was drawn before its graph."""
    assert "draw@" in mends
    return check(HEAD + body, CALLS, mends, fullgraph=True, **kwargs)  # type: ignore[arg-type]


@EAGER_AND_AOT
@pytest.mark.parametrize(
    ("body", "mends"),
    [
        ("return x * np.random.uniform(0, 1)", "draw@4"),
        ("return x * np.random.uniform(high=2.0, low=1.0) + np.random.normal()", "draw@4"),
        (
            "share = np.random.beta(0.4, 0.4)\n    return share * x + (1 - share) * x.flip(0)",
            "draw@4",
        ),
        ("return x[: np.random.randint(1, 4)] * 2", "capture@4 draw@4"),
        ("return x * np.random.rand(1).item()", "capture@4 draw@4"),
        (
            "return x + torch.from_numpy(np.random.randn(4, 3)).float() * np.random.rand()",
            "draw@4",
        ),
        ("return x + torch.as_tensor(np.random.permutation(3)) * np.random.rand()", "draw@4"),
        ("np.random.seed(3)\n    return x * np.random.rand()", "draw@4 draw@5"),
        (
            "noise = np.random.rand(*x.shape)\n    return x * noise.max().item(), noise",
            "draw@4 capture@5",
        ),
        ("return x * 2, np.random.rand(), np.random.randint(5)", "draw@4"),
    ],
    ids=[
        "uniform",
        "by name",
        "mixup",
        "a size",
        "item of an array",
        "arrays",
        "permutation",
        "seed",
        "shapes",
        "returned",
    ],
)
def test_draws(body: str, mends: str, backend: str) -> None:
    drawn(body, mends, backend=backend, grad=False)


def test_layers_that_are_dropped_while_training_only() -> None:
    """VITS draws for every layer, and asks in training what it drew."""
    check(
        """
        import numpy as np
        layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        with torch.no_grad():
            for n, layer in enumerate(layers):
                layer.weight.fill_(n)

        def f(x, training=False):
            for layer in layers:
                share = np.random.uniform(0, 1)
                skip = training and (share < 0.05)
                if not skip:
                    x = layer(x)
            return x
        """,
        [*CALLS, (A, True), (B, True)],
        mends="draw@9 speculate@11",
        grad=True,
    )


def test_what_is_drawn_steers() -> None:
    """A draw that is made on one way only is rolled back where the speculation is wrong."""
    drawn(
        """if np.random.rand() + x.sum() * 0 < 0.5:
        return x * np.random.rand()
    print("other")
    return x + np.random.randint(3)
""",
        "draw@4 speculate@4 draw@5 defer@6 draw@7",
    )


def test_draws_under_a_condition_of_tensors() -> None:
    drawn(
        """y = x * np.random.rand()
    if y.sum() > 0:
        y = y + np.random.rand()
    return y, np.random.rand()
""",
        "draw@4 speculate@5 draw@6 draw@7",
    )


def test_draws_are_rolled_back_if_the_graph_raises() -> None:
    drawn(
        """share = np.random.rand()
    x = x * share
    if (x < -0.3).any():
        raise ValueError("below")
    return x * np.random.rand()
""",
        "draw@4 speculate@6 draw@8",
    )


@pytest.mark.parametrize(
    ("body", "mends"),
    [
        ("return x * float(np.random.choice([1.0, 2.0]))", ""),
        ("order = [1, 2, 3]\n    np.random.shuffle(order)\n    return x * order[0]", ""),
        (
            "return x + torch.as_tensor(np.random.rand(3) * np.random.choice(np.arange(3), 2)[0])",
            "draw@4",
        ),
        ("return x * np.random.uniform(0, x.sum().item() ** 2)", "draw@4 hoist@4"),
        ("return x * np.random.default_rng(0).random()", ""),
        ("return x * np.random.RandomState(0).rand()", ""),
        ("return sum(x * np.random.rand() for _ in range(3))", "draw@4"),
        ("return x * np.random.rand(-1).sum()", ""),
    ],
)
def test_what_breaks_the_graph_draws_as_numpy(body: str, mends: str) -> None:
    check(HEAD + body, CALLS, mends, declines=None, breaks=None)


@pytest.mark.parametrize(
    "factor", ["np.random.rand()", "torch.from_numpy(np.random.rand(3)).float()"]
)
def test_a_graph_that_cannot_be_rolled_back(factor: str) -> None:
    """It writes to an input with a history, so it breaks at the draw."""
    source = f"import numpy as np\n\ndef f(x):\n    return x.mul_({factor}) + 1"
    module, leaf = load(source), torch.ones(4, 3, requires_grad=True)
    with gm.enabled():
        torch._dynamo.reset()
        compiled = torch.compile(module.f, backend="eager")
        for seed in (1, 2):
            np.random.seed(seed)
            wanted = module.f(leaf * 2)
            np.random.seed(seed)
            assert torch.equal(compiled(leaf * 2), wanted)
        assert not gm.report().mends


@pytest.mark.parametrize("off", ["capture", "draw"])
def test_numbers_with_a_strategy_off(off: str) -> None:
    """A number is drawn and captured; without the one or the other the graph breaks there."""
    strategies = tuple(name for name in gm.config.strategies if name != off)
    with gm.config.patch(strategies=strategies):
        outcome = check(
            HEAD + "return x * np.random.rand()", CALLS, mends="", declines=None, breaks=1
        )
    assert off not in outcome.mends


def test_what_stock_would_draw_from_torchs_generator() -> None:
    """It is exact with the rule, and as stock has it without."""
    module = load(
        "import numpy as np\n\ndef f(x):\n    return x + torch.from_numpy(np.random.rand(3))"
    )
    np.random.seed(0)
    wanted = module.f(A)
    for rules_off, exact in (((), True), (("drawn",), False)):
        torch._dynamo.reset()
        with gm.enabled(), gm.config.patch(rules_off=rules_off):
            np.random.seed(0)
            found = torch.compile(module.f, backend="eager", fullgraph=True)(A)
        assert torch.equal(found, wanted) is exact


def test_another_function_under_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("import numpy as np\n\ndef f(x):\n    return x * np.random.rand()")
    with gm.enabled():
        torch._dynamo.reset()
        compiled = torch.compile(module.f, backend="eager")
        for _ in range(2):
            np.random.seed(1)
            wanted = module.f(A)
            np.random.seed(1)
            assert torch.equal(compiled(A), wanted)
            monkeypatch.setattr(np.random, "rand", lambda: 3.0)


def test_an_exported_program_is_left_to_stock() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.from_numpy(np.random.rand(3))

    with gm.enabled():
        program = torch.export.export(Net(), (A,), strict=True)
        assert not gm.report().mends
    assert program.module()(A).shape == A.shape
