"""An error of ours in a call of what is compiled: the frame's own code runs, and it is told of once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch.utils.checkpoint import checkpoint

from graphmend_bc import session
from graphmend_bc.dynamo.rollback.checkpoints import CheckpointMark
from graphmend_bc.runtime import signal_handlers
from graphmend_bc.runtime.deferral.effect_preflight import EffectPreflight
from graphmend_bc.runtime.deoptimise import Deoptimise, Deoptimizer
from graphmend_bc.runtime.draws import Drawn, Draws
from tests.faults.planted import Fault, functions_in, tried, warnings_of_ours
from tests.faults.scenarios import SCENARIOS
from tests.faults.test_steps import PACKAGES, differences, is_told_too_often

PLACES = {
    "speculation": [
        "dynamo.rollback.checkpoints:region",
        "dynamo.graph.state_snapshot:StateSnapshot.alone",
        "dynamo.graph.state_snapshot:StateSnapshot.remember",
        "reporting.speculation_stats:Tally.charge",
        "engine.frame_planner:FrameOutcomes.graph_failed",
        "runtime.deoptimise:compiles_anew",
        "runtime.deoptimise:_cut_entries",
        "runtime.deferral.call_places:callers",
        "runtime.deferral.call_places:shim_at",
        "runtime.deferral.call_places:code_at",
    ],
    "effects": [
        "runtime.deferral.effects:Effect.frames",
        "runtime.deferral.call_places:shim_at",
        "runtime.deferral.call_places:code_at",
    ],
    "hoisted": [
        "dynamo.before_graph.graph_slice:Slice.recent",
        "dynamo.before_graph.graph_slice:Slice.seen",
        "runtime.draws:Drawn.__call__",
        "runtime.draws:Draws.remember",
    ],
    "rolled back": [
        "dynamo.graph.input_aliasing:Layout.holds",
        "dynamo.rollback.checkpoints:region",
        "dynamo.rollback.raised_errors:was_raised_by_operator",
        "dynamo.rollback.raised_errors:let_go_of_graph",
        "reporting.speculation_stats:Tally._note_rerun",
        "runtime.draws:AsForeseen.__call__",
    ],
}
"""Functions that run before a graph, around it and after it, by the programs that come by them."""


@pytest.mark.slow
@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
@pytest.mark.parametrize(
    ("name", "label"), [(name, label) for name, labels in PLACES.items() for label in labels]
)
def test_the_program_does_not_notice(name: str, label: str, always: bool) -> None:
    (scenario,) = (known for known in SCENARIOS if known.name == name)
    fault = Fault(LookupError, always)
    found = tried(scenario, functions_in(*PACKAGES)[label], fault)
    assert fault.raised
    assert differences(scenario, found.seen) == []
    assert not is_told_too_often(found, fault)
    assert found.warned
    assert all("planted" in text for text in found.warned)


def failing(*args: object) -> Any:
    raise LookupError("planted")


def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = (x * w).sin()
    if h.sum() < 0:
        h = torch.stack([h * 2] * len(h[h < 5])).exp().mean(0)
    return h * h


UP, DOWN = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([-0.1, -0.2, -0.3])


def gradients(called: Callable[..., torch.Tensor], xs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Of a layer that is called in a checkpoint, by its second argument."""
    found = []
    for x in xs:
        w = torch.full((3,), 2.0, requires_grad=True)
        checkpoint(called, x, w, use_reentrant=False).sum().backward()
        assert w.grad is not None
        found.append(w.grad)
    return found


def test_a_checkpoint_that_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its recomputation runs the original code, too."""
    monkeypatch.setattr(CheckpointMark, "used", failing)
    xs = [UP, UP, DOWN, UP]
    torch._dynamo.reset()
    with warnings_of_ours() as warned, session.mending_by(session.new_state(mends=True)):
        found = gradients(torch.compile(layer, backend="eager"), xs)
    for one, other in zip(found, gradients(layer, xs), strict=True):
        assert torch.equal(one, other)
    assert len(warned) == 1


def test_what_was_drawn_in_an_earlier_call_is_not_taken_back() -> None:
    """Nothing was drawn yet where the first draw of a call fails."""
    generator, state = numpy.random.RandomState(0), Draws()
    drawn = Drawn(state, lambda: [generator], lambda: (generator.rand(), 0), 0, lambda: None)
    first = state.beginning(drawn)
    first()
    after = generator.get_state(legacy=False)
    with pytest.raises(LookupError):
        state.beginning(failing)()
    state.roll_back()
    assert str(generator.get_state(legacy=False)) == str(after)


def test_objects_that_cannot_be_looked_at() -> None:
    undone = []
    ahead = EffectPreflight(can_deoptimise=True)
    ahead.undone.restore = lambda: undone.append(1)
    no_group: Any = None
    with warnings_of_ours() as warned, pytest.raises(Deoptimise):
        ahead.check_objects(no_group)
    assert undone == [1]
    assert len(warned) == 1


def test_an_error_is_told_of_if_it_is_not_known_who_raised_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signal_handlers, "handlers_error", failing)
    signal_handlers.pass_on(ValueError())


def test_a_traceback_that_cannot_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphmend_bc.runtime.deoptimise._cut_entries", failing)

    def original(x: int) -> float:
        return 1 / x

    with warnings_of_ours() as warned:
        raised, error = Deoptimizer(original.__code__, globals()).run((), (0,))
    assert (raised, type(error)) == (True, ZeroDivisionError)
    assert len(warned) == 1
