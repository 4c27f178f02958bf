"""What mended code does has a name in torch.profiler's trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo.frames import profiler_labels

X = torch.tensor([1.0, 2.0])


def traced(call: Callable[[], Any]) -> list[str]:
    """The names of ours in the trace of one call, in the order in which they begin."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        call()
    ours = [event for event in prof.events() if event.name.startswith("graphmend_bc ")]
    names = [event.name for event in sorted(ours, key=lambda event: event.time_range.start)]
    return [name.partition(" (")[0].replace("<locals>.", "") for name in names]


def speaks(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    print("twice", x)
    return x + 1


def refuses(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    if torch.isnan(x).any():
        raise ValueError(f"not a number in {tuple(x.shape)}")
    return x


def test_graphs_and_epilogues() -> None:
    gm.enable()
    compiled = torch.compile(speaks, backend="aot_eager")
    compiled(X)
    assert traced(lambda: compiled(X)) == [
        "graphmend_bc graph of speaks",
        "graphmend_bc epilogue graphmend_bc.runtime.deferral.effect_preflight.EffectPreflight.check",
        "graphmend_bc epilogue graphmend_bc.runtime.deferral.effects.Effect.run of speaks",
    ]


def test_deoptimisations() -> None:
    gm.enable()
    compiled = torch.compile(refuses, backend="aot_eager")
    compiled(X)

    def misses() -> None:
        with pytest.raises(ValueError, match="not a number"):
            compiled(X * float("nan"))

    assert traced(misses) == [
        "graphmend_bc graph of refuses",
        "graphmend_bc deoptimisation of refuses",
    ]


def test_nothing_is_recorded_without_the_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    gm.enable()
    compiled = torch.compile(speaks, backend="aot_eager")
    monkeypatch.setattr(profiler_labels, "_RecordFunctionFast", None)
    assert torch.equal(compiled(X), X * 2 + 1)


def test_the_code_of_a_graph_is_generated_before_its_first_call() -> None:
    from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module

    with _use_lazy_graph_module(True):
        lazy = torch.fx._lazy_graph_module._make_graph_module({}, torch.fx.Graph())
    assert isinstance(lazy, _LazyGraphModule)
    assert lazy.forward.__name__ == "_lazy_forward"
    assert profiler_labels._generated(lazy.forward).__name__ == "forward"
    assert profiler_labels._generated(lazy) is lazy
    assert profiler_labels._generated(speaks) is speaks
