"""What stands against undoing a graph, asked of graphs that are made by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.fx import Graph, GraphModule
from torch.nn.attention import _sdpa_kernel

from graphmend_bc.dynamo.graph.state_snapshot import StateSnapshot
from graphmend_bc.dynamo.rollback.rollback_analysis import modes_of
from graphmend_bc.dynamo.symbols.captures import Captures
from tests.rollback.attempts import Attempt, site

NOTHING = StateSnapshot()
EFFECTS = "speculation-has-effects: "
X = torch.ones(3)


def test_nothing_is_left_of_pure_operators() -> None:
    attempt = Attempt()
    attempt.trace.effects.append(site())
    attempt.call("add", attempt.given(X), 1)
    assert attempt.undo() == NOTHING


def test_an_operator_of_the_user() -> None:
    attempt = Attempt()
    attempt.recorder.foreign = "user.function"
    assert attempt.undo() == EFFECTS + "The operator is user.function."


def test_an_index_that_may_stop_the_process() -> None:
    attempt = Attempt()
    attempt.recorder.guarded[None] = torch.ops.aten.index.Tensor
    assert attempt.undo() == "speculation-guards-index: The operator is aten.index.Tensor."


def test_what_python_draws() -> None:
    attempt = Attempt()
    attempt.output.random_calls.append(0)
    assert attempt.undo() == EFFECTS + "Python's own generator is drawn from."


@pytest.mark.parametrize("device", ["cpu", "cuda", "meta"])
def test_generators_that_can_be_reset(device: str) -> None:
    attempt = Attempt()
    drawn = torch.device(device)
    attempt.recorder.draws[drawn] = None
    refusal = EFFECTS + "The device's generator cannot be reset."
    assert attempt.undo() == (refusal if device == "meta" else StateSnapshot(draws=(drawn,)))


@pytest.mark.parametrize("captures", [False, True])
def test_sizes_that_are_captured(captures: bool) -> None:
    def refusal(**found: bool) -> object:
        attempt = Attempt()
        if captures:
            attempt.trace.of(Captures).sites[site()] = None
        for name, value in found.items():
            setattr(attempt.recorder, name, value)
        return attempt.undo()

    assert refusal() == NOTHING
    dimensions = "capture-fails: It depends on such a size how many dimensions there are."
    assert refusal(squeezed=True) == (dimensions if captures else NOTHING)
    write = "capture-fails: A write in place may fail for such a size."
    assert refusal(unsized=True) == (write if captures else NOTHING)


# Operators that hold others


def left_by(name: str, *args: Any) -> bool:
    """Whether something is left of a higher-order operator, known by its name."""

    def operator(*args: object) -> None: ...

    operator.__name__ = name
    attempt = Attempt()
    x = attempt.given(X)
    y = attempt.call("mul", x, 2)
    attempt.module.body = GraphModule(torch.nn.Module(), Graph())
    attempt.module.plain = torch.nn.Module()
    attempt.module.selective = GraphModule(torch.nn.Module(), Graph())
    attempt.module.selective.meta["_checkpoint_context_fn"] = print
    nodes = {"x": x, "y": y} | {
        n: attempt.graph.get_attr(n) for n in ("body", "plain", "selective")
    }
    node = attempt.graph.call_function(operator, tuple(nodes[arg] for arg in args))
    return attempt.undo(node) != NOTHING


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
def test_operators_that_are_gone_with_their_results() -> None:
    assert not left_by("autograd_function_apply", "body", "x")
    assert left_by("wrap", "body", "x")
    assert not left_by("tag_activation_checkpoint", "body", "x")
    assert left_by("tag_activation_checkpoint", "selective", "x")
    assert left_by("tag_activation_checkpoint", "plain", "x")
    assert not left_by("register_hook", "y", "body", "x")
    assert left_by("register_hook", "x", "body", "y")


def test_the_operator_is_named() -> None:
    attempt = Attempt()
    node = attempt.graph.call_function(torch.ops.higher_order.cond)
    assert attempt.undo(node) == EFFECTS + "The operator is cond."


# Operators that change more than values


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("as_strided_", ((2,), (1,))),
        ("detach_", ()),
        ("rename_", (None,)),
        ("requires_grad_", ()),
        ("resize_", (4,)),
        ("resize_as_", (X,)),
        ("share_memory_", ()),
        ("squeeze_", ()),
        ("swapaxes_", (0, 0)),
        ("swapdims_", (0, 0)),
        ("t_", ()),
        ("transpose_", (0, 0)),
        ("unsqueeze_", (0,)),
    ],
)
def test_what_changes_more_than_values(name: str, args: tuple[Any, ...]) -> None:
    attempt = Attempt()
    attempt.graph.call_method(name, (attempt.given(X), *args))
    assert attempt.undo() == EFFECTS + f"The operator is {name}."


def test_what_only_looks_as_if_it_changed_more() -> None:
    attempt = Attempt()
    x = attempt.given(X, name="t_")
    attempt.graph.call_method("set_", (x, x))  # the memory that it has
    attempt.graph.call_method("mul_", (x, 2))
    attempt.graph.call_function(torch.transpose, (x, 0, 0))
    assert attempt.undo() == NOTHING


def test_tensors_of_the_graph_may_require_a_gradient() -> None:
    attempt = Attempt()
    x = attempt.given(X)
    for made in (attempt.call("mul", x, 2), attempt.call("detach", x)):
        attempt.graph.call_method("requires_grad_", (made,))
    assert attempt.undo() == NOTHING
    attempt = Attempt()
    view = attempt.call("view", attempt.given(X), 3, 1)
    attempt.graph.call_method("requires_grad_", (view,))
    assert attempt.undo() == EFFECTS + "The operator is requires_grad_."
    attempt = Attempt()
    attempt.graph.call_method("unsqueeze_", (attempt.call("mul", attempt.given(X), 2), 0))
    assert attempt.undo() == EFFECTS + "The operator is unsqueeze_."


def test_switches_of_modes() -> None:
    attempt = Attempt()
    attempt.graph.call_function(torch._C._set_grad_enabled, (False,))
    assert attempt.undo() == NOTHING
    attempt = Attempt()
    attempt.graph.call_function(torch.set_flush_denormal, (True,))
    assert attempt.undo() == EFFECTS + "It calls set_flush_denormal."


@pytest.mark.parametrize(
    "switch",
    [torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast, _sdpa_kernel],
)
def test_switches_that_are_put_back(switch: Callable[..., Any]) -> None:
    attempt = Attempt()
    attempt.graph.call_function(switch)
    assert attempt.undo() == StateSnapshot(switches=True)


# Modes that are put back although the graph is not undone


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("now", [False, True])
def test_modes_of_graphs_that_raise(before: bool, now: bool) -> None:
    switches: dict[str, Callable[..., Any]] = {
        "_sdpa_kernel": _sdpa_kernel,
        "_set_grad_enabled": torch._C._set_grad_enabled,
    }
    for name, switch in switches.items():
        attempt = Attempt()
        was = SimpleNamespace(global_state={"grad_enabled": (torch.set_grad_enabled, before)})
        attempt.output.tracing_context = SimpleNamespace(global_context=was)
        attempt.graph.call_function(switch)
        with torch.set_grad_enabled(now):
            found = modes_of(attempt.ended(), attempt.output)
        expected = StateSnapshot(switches=name == "_sdpa_kernel")
        assert found == (expected if before == now else None)


def test_graphs_that_switch_no_mode() -> None:
    attempt = Attempt()
    attempt.graph.call_function(torch.relu, (attempt.given(X),))
    assert modes_of(attempt.ended(), attempt.output) is None
