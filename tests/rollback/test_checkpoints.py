"""Activation checkpoints around compiled functions: the recomputation goes as the forward went."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import graphmend_bc as gm

UP, DOWN = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([-0.1, -0.2, -0.3])
Layer = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def guarded(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = (x * w).sin()
    if torch.isinf(h).any():
        raise ValueError("inf")
    return h * h


def forked(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Both ways save as many tensors of the same shapes, so that nobody notices a wrong one."""
    if x.sum() > 0:
        y = (x * w).sin() * x
        if y.sum() > 1e9:
            raise OverflowError
    else:
        y = (x * w).cos() * w
        if y.sum() > 1e9:
            raise OverflowError
    return y * x


def lengthy(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The way that is not taken at first saves other tensors, and multiplies other matrices."""
    h = x * w
    if h.sum() < 0:
        for _ in range(int(h.shape[0])):
            h = torch.mm(h[None], h[:, None])[0] * h
        return h.cos() * h.exp() * w
    return torch.mm(h[None] * 2, h[:, None])[0] * h.tanh()


def dropped(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = F.dropout(x * w, 0.5)
    if h.abs().max() > 1e9:
        raise OverflowError
    if torch.rand(()) < 0.4:
        h = h.exp() * w
    return F.dropout(h.sin(), 0.5) * w


def picked(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The graph raises for one of the inputs."""
    h = (x * w).sin()
    try:
        h = h[(x.sum() * 100).long().abs() * (x.sum() < 0)] * w
    except IndexError:
        h = h.exp() * h
    return h * w


LAYERS: list[Layer] = [guarded, forked, lengthy, dropped, picked]
WAYS: dict[str, dict[str, Any]] = {
    "early stop": {},
    "to the end": {"early_stop": False},
    "reentrant": {"use_reentrant": True},
    "selective": {
        "context_fn": partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    },
}


def _once(layer: Callable[[torch.Tensor], Any], **kwargs: Any) -> Any:
    return lambda x: checkpoint(layer, x, **kwargs)


def _twice(layer: Callable[[torch.Tensor], Any], **kwargs: Any) -> Any:
    return lambda x: checkpoint(lambda x: layer(layer(x) - x), x, **kwargs)


def _nested(layer: Callable[[torch.Tensor], Any], **kwargs: Any) -> Any:
    return lambda x: checkpoint(lambda x: checkpoint(layer, x * 1.5, **kwargs) * x, x, **kwargs)


def _trained(
    layer: Layer, inputs: list[torch.Tensor], around: Callable[..., Any], **kwargs: Any
) -> list[Any]:
    """Results, gradients, messages and random numbers of some steps; all forwards come first."""
    torch.manual_seed(0)
    w, seen = torch.tensor([0.5, 1.0, 1.5], requires_grad=True), list[Any]()
    step = around(lambda x: layer(x, w), **{"use_reentrant": False, **kwargs})
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for _ in range(2):
            leaves = [x.clone().requires_grad_() for x in inputs]
            results = [step(x) for x in leaves]
            for x, y in zip(leaves, results, strict=True):
                w.grad = None
                y.sum().backward()
                seen.append((y.tolist(), x.grad.tolist(), w.grad.tolist()))  # type: ignore[union-attr, attr-defined]
    return [*seen, out.getvalue(), torch.rand(2).tolist()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "around", "backend"),
    [
        *((way, _once, "eager") for way in WAYS),
        ("early stop", _twice, "eager"),
        ("early stop", _nested, "eager"),
        ("early stop", _once, "aot_eager"),
    ],
)
@pytest.mark.parametrize("layer", LAYERS)
def test_recomputation(layer: Layer, way: str, around: Callable[..., Any], backend: str) -> None:
    for inputs in ([UP, DOWN], [DOWN, DOWN, UP]):
        torch._dynamo.reset()
        expected = _trained(layer, inputs, around, **WAYS[way])
        with gm.enabled():
            compiled = torch.compile(layer, backend=backend)
            found = _trained(compiled, inputs, around, **WAYS[way])
            if way != "selective":  # Dynamo leaves some modes alone
                assert gm.report().mends
        torch.testing.assert_close(found[:-2], expected[:-2], rtol=1e-5, atol=1e-6)
        assert found[-2:] == expected[-2:]


def test_with_inductor() -> None:
    for inputs in ([UP, UP], [DOWN, UP]):
        torch._dynamo.reset()
        expected = _trained(forked, inputs, _once)
        with gm.enabled():
            compiled = torch.compile(forked)
            found = _trained(compiled, inputs, _once)
            torch.testing.assert_close(found[:-2], expected[:-2], rtol=1e-5, atol=1e-6)
            assert "speculate" in {mend.strategy for mend in gm.report().mends}


def test_speculation_is_not_turned_before_the_recomputation() -> None:
    """One call has its speculation right and its recomputation still to come; others have it wrong."""
    w = torch.tensor([0.5, 1.0, 1.5], requires_grad=True)

    def gradients(layer: Layer) -> list[Any]:
        leaves = [x.clone().requires_grad_() for x in (UP, *[DOWN] * 20)]
        results = [checkpoint(layer, x, w, use_reentrant=False) for x in leaves]
        sum(y.sum() for y in results).backward()
        return [x.grad for x in leaves]

    expected = gradients(forked)
    with gm.enabled(), gm.config.patch(failed_check_limit=2):
        assert all(map(torch.equal, gradients(torch.compile(forked, backend="eager")), expected))
        (outcome, *_) = gm.report().speculations
        assert (outcome.failed_checks, outcome.respecialised) == (20, 0)


def test_other_speculation_in_the_recomputation_is_an_error() -> None:
    """Whoever resets Dynamo in between is told; torch compares no more than shapes."""
    compiled = torch.compile(forked, backend="eager")
    with gm.enabled():
        x = UP.clone().requires_grad_()
        y = checkpoint(compiled, x, torch.ones(3), use_reentrant=False)
        torch._dynamo.reset()
        compiled(DOWN.clone().requires_grad_(), torch.ones(3))
        with pytest.raises(CheckpointError, match="compiled anew"):
            y.sum().backward()


seen: list[Any] = []


def telling(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = (x * w).sin()
    print("mean", h.mean())
    return h * h


def counting(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    seen.append(len(seen))
    h = (x * w).sin()
    if h.sum() > 1e9:
        raise OverflowError
    return h * h


@pytest.mark.parametrize("way", ["early stop", "to the end"])
@pytest.mark.parametrize(
    ("layer", "compiled_first"),
    # The counted list has another length inside, so the function is compiled there anew.
    [(telling, "inside"), (telling, "outside"), (counting, "inside")],
)
def test_effects_of_a_recomputation(layer: Layer, way: str, compiled_first: str) -> None:
    """Eager Python prints twice, even if the recomputation stops in the middle."""

    def run(function: Layer) -> tuple[Any, list[Any]]:
        seen.clear()
        if compiled_first == "outside":
            function(UP.clone().requires_grad_(), torch.ones(3, requires_grad=True))
        return _trained(function, [UP], _once, **WAYS[way]), list(seen)

    expected = run(layer)
    with gm.enabled():
        assert run(torch.compile(layer, backend="eager", dynamic=False)) == expected
        reasons = {decline.reason for decline in gm.report().declines}
        kept = way == "to the end" or compiled_first == "outside"
        assert reasons == (set() if kept else {"under-checkpoint"})
        assert bool(gm.report().mends) == kept


def test_error_of_the_recomputation_passes() -> None:
    """The forward pass used the graph; its operators cannot be run otherwise now."""
    index = torch.tensor([1])

    def layer(x: torch.Tensor) -> torch.Tensor:
        h = x.sin()
        if h.sum() > 1e9:
            raise OverflowError
        return h[index] * h.exp()

    with gm.enabled():
        x = UP.clone().requires_grad_()
        y = checkpoint(torch.compile(layer, backend="eager"), x, use_reentrant=False)
        index.fill_(7)
        with pytest.raises(IndexError, match="index 7"):
            y.sum().backward()
        assert gm.report().speculations[0].failed_checks == 0
