"""Training: gradients, their absence, optimizer steps, random draws and statistics."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphmend_bc as gm
from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
LEAVES = [UP.clone().requires_grad_(), DOWN.clone().requires_grad_()]


class Gated(nn.Module):
    """A parameter of one arm, dropout in the other, a guard, statistics and a message."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.gate = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        y = self.norm(self.layer(x))
        if x.sum() > 0:
            y = y + self.gate(x)
        else:
            y = F.dropout(y, 0.5, self.training)
        if torch.isnan(y).any():
            raise FloatingPointError("nan")
        if y.abs().max() > 1:
            y = y * 0.5
        return y


def _trained(wrap: Callable[[nn.Module], Any], make: Callable[..., Any]) -> list[Any]:
    torch.manual_seed(0)
    model = Gated()
    optimizer = make(model.parameters())
    compiled, seen = wrap(model), list[Any]()
    for step in range(8):
        optimizer.zero_grad(set_to_none=True)
        x = torch.randn(4, 3) + (3 if step % 3 else -3)
        compiled(x).pow(2).sum().backward()
        seen.append([None if p.grad is None else p.grad.tolist() for p in model.parameters()])
        optimizer.step()
        seen.append({k: v.tolist() for k, v in model.state_dict().items()})
    return [*seen, model.calls, torch.rand(3).tolist()]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.1),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    ],
    ids=["AdamW", "SGD"],
)
def test_steps_are_those_of_eager(make: Callable[..., Any], backend: str) -> None:
    expected = _trained(lambda model: model, make)
    with gm.enabled():
        found = _trained(lambda model: torch.compile(model, backend=backend), make)
        assert gm.report().mends
    assert found == expected


def _hooked(model: nn.Module) -> nn.Module:
    model.register_forward_hook(lambda module, args, output: output * 2)
    model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    return model


def _compiled(model: nn.Module) -> Any:
    return torch.compile(model, backend="eager")


def _compiles_itself(model: nn.Module) -> nn.Module:
    model.compile(backend="eager")
    return model


@pytest.mark.parametrize(
    ("prepare", "wrap"),
    [
        (_hooked, _compiled),
        (_hooked, _compiles_itself),
        (lambda model: model, lambda model: _compiled(_compiled(model))),
    ],
    ids=["hooked", "compile method", "compiled twice"],
)
def test_ways_to_wrap_a_module(prepare: Callable[..., Any], wrap: Callable[..., Any]) -> None:
    def make(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=0.1)

    expected = _trained(prepare, make)
    with gm.enabled():
        assert _trained(lambda model: wrap(prepare(model)), make) == expected
        assert gm.report().mends


def test_copied_modules() -> None:
    model = Gated().eval()
    with gm.enabled():
        compiled = torch.compile(model, backend="eager")
        for x in (torch.ones(2, 3), -torch.ones(2, 3)):
            compiled(x)
            copied, twin = copy.deepcopy(compiled), copy.deepcopy(model)
            copied.layer.weight.data.mul_(2)
            twin.layer.weight.data.mul_(2)  # type: ignore[operator, union-attr]
            assert torch.equal(copied(x), twin(x))
            assert torch.equal(compiled(x), model(x))
            assert copied.calls == twin.calls


LAYERDROP = """
layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(4)])
layerdrop = {layerdrop}

def f(x):
    for layer in layers:
        if layers.training and torch.rand([]) < layerdrop:
            continue
        x = layer(x)
    return x
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("layerdrop", "mends"), [(0.0, "fold@6"), (0.05, "speculate@6")])
def test_layerdrop(layerdrop: float, mends: str, backend: str) -> None:
    source = LAYERDROP.format(layerdrop=layerdrop)
    check(source, [*LEAVES * 3], mends=mends, grad=True, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_layers_that_are_left_out_as_often_as_not(backend: str) -> None:
    """Stock's pieces do better than a graph that is right in one call of two."""
    source = LAYERDROP.format(layerdrop=0.15)
    check(source, [*LEAVES * 3], "", "decided-by-chance@6", None, grad=True, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_statistics_and_dropout_are_rolled_back(backend: str) -> None:
    check(
        """
        norm = nn.BatchNorm1d(3)

        def f(x):
            y = F.dropout(norm(x))
            if x.sum() < 0:
                return y * 2, None
            if y.max() > 100:
                y = y / 2
            return y
        """,
        [torch.stack([x, x + 1]) for x in (UP, DOWN, UP)],
        mends="speculate@5 where@7",
        grad=True,
        backend=backend,
    )


@pytest.mark.parametrize(
    ("write", "use", "mends", "declines"),
    [
        ("w.add_(1)", "w * x", "", "gradient-of-written@6"),
        ("w.view(3, 1).clamp_(-0.5, 0.5)", "w[1:] * x[1:]", "", "gradient-of-written@6"),
        ("w.add_(1); w = w * 2", "w * x", "", "gradient-of-written@6"),
        ("w.add_(1).mul_(0.9)", "x * 2", "where@6", ""),
        ("held.add_(1)", "held * x", "where@6", ""),
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameter_written_without_grad(
    backend: str, write: str, use: str, mends: str, declines: str
) -> None:
    """Where both are in one graph, AOTAutograd writes the parameter again in the backward pass."""
    check(
        f"""
        weight, held = nn.Parameter(torch.ones(3)), torch.ones(3)

        def f(x):
            w = weight
            with torch.no_grad(): {write}
            x = x * 2 if x.sum() > 0 else x + 1
            return {use}
        """,
        LEAVES,
        mends=mends,
        declines=declines,
        breaks=bool(declines),
        grad=True,
        backend=backend,
    )


@pytest.mark.parametrize(
    ("write", "use", "is_used"),
    [
        ("w.add_(1)", "y * w.detach()", False),
        ("w.data.lerp_(held, 0.5)", "y + w.data.sum()", False),
        ("w.data.copy_(held)", "torch.where(w > 0, y, held)", False),
        ("w.add_(1)", "y * w.detach() * w", True),
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_average_that_nobody_differentiates(
    backend: str, write: str, use: str, is_used: bool
) -> None:
    """Autograd notes neither `detach` nor comparisons."""
    check(
        f"""
        weight, held = nn.Parameter(torch.ones(3)), torch.ones(3)

        def f(x):
            w, y = weight, x * 3
            with torch.no_grad(): {write}
            y = y * 2 if y.sum() > 0 else y + 1
            return {use}
        """,
        [UP, DOWN, UP],
        mends="" if is_used else "where@6",
        declines="gradient-of-written@6" if is_used else "",
        breaks=None,
        backend=backend,
    )


def test_history_of_a_buffer_beside_a_backward_pass_in_the_graph() -> None:
    """The pass leaves nothing to differentiate but what the buffer has got of the parameter."""
    check(
        """
        weight, kept, gradients = nn.Parameter(torch.ones(3)), torch.zeros(3), []

        def change(call):
            if call:
                kept.sum().backward()
                gradients.append(weight.grad.clone())
                kept.detach_().zero_()

        def f(x):
            (weight * x).sum().backward()
            with torch.no_grad():
                weight.add_(1)
            x = x * 2 if x.sum() > 0 else x + 1
            kept.add_(weight * weight)
            return x
        """,
        [UP, DOWN, UP],
        "",
        "gradient-of-written@10 speculation-writes-input@13",
        None,
        backend="aot_eager",
    )


def test_parameter_normalised_in_an_arm() -> None:
    check(
        """
        layer = nn.Linear(3, 3)

        def f(x):
            with torch.no_grad():
                n = layer.weight.norm()
                if n > 0.5:
                    layer.weight.div_(n)
            return layer(x)
        """,
        LEAVES,
        mends="",
        declines="gradient-of-written@6",
        breaks=1,
        grad=True,
    )


def test_function_with_a_backward_of_its_own() -> None:
    check(
        """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                x, = ctx.saved_tensors
                return grad * x

        def f(x):
            y = Scale.apply(x)
            if x.sum() > 0:
                x = x + 1
            return y, x
        """,
        LEAVES,
        mends="speculate@14",
        declines=None,
        breaks=None,
        grad=True,
    )


def test_gradients_of_gradients() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = (x**3).sum()
        if y > 100:
            y = y * 2
        if y < -1000:
            raise ValueError("small")
        return y

    def second(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(x), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    with gm.enabled():
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        for x in (UP, UP * 3, DOWN):
            assert torch.equal(second(compiled, x), second(f, x))


def test_compiled_autograd() -> None:
    def trained(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Any:
        x = x.clone().requires_grad_()
        function(x).sum().backward()
        return x.grad

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 3
        if y.sum() > 0:
            y = y * 2
        if y.max() > 1e3:
            raise ValueError("large")
        return y

    with gm.enabled(), torch._dynamo.config.patch(compiled_autograd=True):
        compiled = torch.compile(f, backend="eager")
        for x in (UP, DOWN):
            assert torch.equal(trained(compiled, x), trained(f, x))
        assert [mend.strategy for mend in gm.report().mends] == ["where", "speculate"]
